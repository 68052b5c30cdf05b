//! An order: the business row that is the truth, and the message that goes with it.
//!
//! The message's body can be made again from the row, byte for byte, so that what arrived is
//! compared with what was meant and not with a copy of it. A body begins with the order's id, so
//! that a delivery under another id shows.

use sendoff::time::Timestamp;
use sendoff::{Message, Result};
use uuid::Uuid;

/// The source of every message.
pub const SOURCE: &str = "crash";

/// The topic of most messages.
pub const TOPIC: &str = "orders.placed";

/// Messages to this topic are refused for good until the harness says otherwise.
pub const POISON_TOPIC: &str = "orders.poison";

/// A row of `orders`, but for its key's version, which the database counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The order's id and the message's.
    pub id: Uuid,
    /// The key, where it has one.
    pub key: Option<String>,
    /// What the body is made of.
    pub seed: i64,
    /// The body's size in bytes: 0, or at least [`ID_BYTES`].
    pub length: i32,
}

/// The length of an id as text.
pub const ID_BYTES: i32 = 36;

impl Order {
    /// A new order with a body that is sometimes empty, mostly small and sometimes big.
    pub fn random(random: &mut fastrand::Rng, key: Option<String>) -> Self {
        let length = match random.u32(..100) {
            0..4 => 0,
            4..90 => ID_BYTES + random.i32(0..400),
            90..99 => ID_BYTES + random.i32(400..20_000),
            _ => ID_BYTES + random.i32(20_000..300_000),
        };
        Self {
            id: uuid::Builder::from_random_bytes(random.u128(..).to_le_bytes()).into_uuid(),
            key,
            seed: random.i64(..),
            length,
        }
    }

    /// The body: the id, then bytes that follow from the seed, NUL bytes and broken UTF-8 included.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let Ok(length) = usize::try_from(self.length) else {
            return Vec::new();
        };
        let mut body = self.id.to_string().into_bytes();
        let written = body.len();
        body.resize(length, 0);
        if let Some(rest) = body.get_mut(written..) {
            fastrand::Rng::with_seed(self.seed.cast_unsigned()).fill(rest);
        }
        body
    }

    /// The message.
    ///
    /// # Errors
    /// Those of [`sendoff::message::MessageBuilder::build`].
    pub fn message(&self, topic: &str, due_at: Option<Timestamp>) -> Result<Message> {
        let mut message = Message::builder(SOURCE, topic)
            .id(self.id.to_string())
            .header("seed", self.seed.to_string())
            .body(self.body());
        if let Some(key) = &self.key {
            message = message.key(key);
        }
        if let Some(due_at) = due_at {
            message = message.due_at(due_at);
        }
        message.build()
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn a_body_is_made_again_byte_for_byte_and_begins_with_the_id() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let order = Order::random(&mut random, None);
            let body = order.body();
            assert_eq!(body.len(), usize::try_from(order.length).unwrap());
            assert_eq!(body, order.clone().body());
            assert!(body.is_empty() || body.starts_with(order.id.to_string().as_bytes()));
        }
    }
}
