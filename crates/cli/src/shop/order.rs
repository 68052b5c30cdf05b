//! An order, and the message that says that it was placed.

use sendoff::{Error, Message, Outbox, Result};
use serde::{Deserialize, Serialize};

use super::TOPIC;

/// What a customer asks for. What is left out is chosen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOrder {
    /// Who orders: the message's key, so that one customer's orders stay in order.
    pub(crate) customer: Option<String>,
    /// What is ordered.
    pub(crate) item: Option<String>,
    /// How many.
    pub(crate) quantity: Option<u32>,
    /// Roll the transaction back after the order and its message were written.
    #[serde(default)]
    pub(crate) reject: bool,
}

/// Customers that orders come from where none is named.
const CUSTOMERS: [&str; 12] = [
    "ada",
    "alan",
    "barbara",
    "dennis",
    "donald",
    "edsger",
    "frances",
    "grace",
    "katherine",
    "ken",
    "leslie",
    "radia",
];
const ITEMS: [&str; 6] = ["tea", "coffee", "bread", "butter", "plums", "pears"];
const TEXT_BYTES_MAX: usize = 200;
const QUANTITY_MAX: u32 = 1_000;

impl NewOrder {
    /// An order of the shop's own load; one in ten is rejected on purpose.
    pub(crate) fn of_the_load() -> Self {
        Self { reject: fastrand::u8(..10) == 0, ..Self::default() }
    }

    /// Checks what was asked for and chooses what was left out.
    ///
    /// # Errors
    /// A text that is empty, too long or has control characters; a quantity out of range.
    pub(super) fn complete(self) -> Result<Self> {
        let text = |name: &str, text: Option<String>, choices: &[&str]| match text {
            None => Ok(choices[fastrand::usize(..choices.len())].to_owned()),
            Some(text)
                if text.is_empty()
                    || text.len() > TEXT_BYTES_MAX
                    || text.chars().any(char::is_control) =>
            {
                Err(refuse(format!(
                    "`{name}` has to be 1 to {TEXT_BYTES_MAX} bytes without control characters"
                )))
            }
            Some(text) => Ok(text),
        };
        let quantity = self.quantity.unwrap_or_else(|| fastrand::u32(1..=5));
        if quantity == 0 || quantity > QUANTITY_MAX {
            return Err(refuse(format!("`quantity` has to be 1 to {QUANTITY_MAX}")));
        }
        Ok(Self {
            customer: Some(text("customer", self.customer, &CUSTOMERS)?),
            item: Some(text("item", self.item, &ITEMS)?),
            quantity: Some(quantity),
            reject: self.reject,
        })
    }
}

fn refuse(why: String) -> Error {
    Error::invalid("reading an order", why)
}

/// An order as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Order {
    /// Its position in the order of the commits.
    pub(crate) number: i64,
    /// Its id, which is its message's id too.
    pub(crate) id: String,
    /// Who ordered.
    pub(crate) customer: String,
    /// What was ordered.
    pub(crate) item: String,
    /// How many.
    pub(crate) quantity: u32,
}

impl Order {
    /// The body of its message.
    pub(crate) fn body(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| refuse("it does not encode".to_owned()).caused_by(error))
    }

    /// The message that says that it was placed.
    pub(super) fn message(&self, outbox: &Outbox) -> Result<Message> {
        outbox
            .message(TOPIC)
            .id(self.id.clone())
            .key(self.customer.clone())
            .header("content-type", "application/json")
            .body(self.body()?)
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_chooses_what_was_left_out_and_refuses_what_is_out_of_range() {
        let order = NewOrder::default().complete().unwrap();
        assert!(order.customer.is_some() && order.item.is_some());
        assert!((1..=5).contains(&order.quantity.unwrap()));
        for refused in [
            r#"{"quantity":0}"#.to_owned(),
            format!(r#"{{"customer":"{}"}}"#, "x".repeat(201)),
            r#"{"item":"a\nb"}"#.to_owned(),
        ] {
            let order: NewOrder = serde_json::from_str(&refused).unwrap();
            assert!(order.complete().is_err(), "{refused}");
        }
    }
}
