//! Barriers on PostgreSQL.
//!
//! The algorithm stands in the functions of the migration, so that every driver and every language
//! runs the same code in one round trip. What is here puts parameters in and reads answers: once for
//! tokio-postgres, sqlx and the store's own connections, by [`Asks`]. What does not belong here: a
//! decision about when a barrier is complete.

mod ack;
mod change;
mod close;
mod create;
mod desk;
mod driver;
#[cfg(feature = "sqlx-0_9-postgres")]
mod driver_sqlx;
mod probe;
mod read;
mod watch;

pub(super) use watch::Rounds;

use std::future::Future;

use sendoff_core::barrier::{BarrierId, Refusal, RefusalCode};
use sendoff_core::time::Timestamp;
use serde::de::DeserializeOwned;

/// A call of one function.
#[derive(Debug)]
struct Call<'a> {
    text: &'static str,
    params: Vec<Param<'a>>,
}

/// A parameter, with its type.
#[derive(Debug)]
enum Param<'a> {
    Text(Option<&'a str>),
    Bytes(&'a [u8]),
    Flag(bool),
    Int(Option<i32>),
    Long(i64),
    Json(String),
    Texts(Option<Vec<&'a str>>),
    Names(Vec<&'a [u8]>),
    Flags(Vec<bool>),
    Ints(Vec<i32>),
}

/// Something that runs a call and reads its one column of JSON; SQL's null is JSON's.
trait Asks: Send {
    type Error: Send;

    fn ask<T: DeserializeOwned + Send>(
        &mut self,
        call: Call<'_>,
    ) -> impl Future<Output = Result<T, Self::Error>> + Send;
}

/// A call on one barrier: its tenant and id come first.
fn call<'a>(
    text: &'static str,
    id: &'a BarrierId,
    more: impl IntoIterator<Item = Param<'a>>,
) -> Call<'a> {
    let mut params = vec![Param::Text(Some(id.tenant())), Param::Text(Some(id.id()))];
    params.extend(more);
    Call { text, params }
}

/// A driver's barriers: on its transaction, and on one of another schema than `sendoff`.
macro_rules! barrier_transaction {
    ($driver:ty, $transaction:ty, |$given:ident, $schema:ident, $named:ident| $line:expr) => {
        barrier_transaction!(@on $driver, $transaction, |this| {
            let ($given, $schema, $named) = (this, &USUAL, true);
            $line
        });
        barrier_transaction!(@on $driver, Within<$transaction>, |this| {
            let ($given, $schema, $named) = this.parts();
            $line
        });
    };
    (@on $driver:ty, $transaction:ty, |$this:ident| $line:block) => {
        impl BarrierTransaction<$driver> for $transaction {
            async fn create_barrier(
                &mut self,
                plan: &Plan,
            ) -> Result<Answer<Created>, Self::Error> {
                let $this = self;
                create::create(&mut $line, plan).await
            }

            async fn ack_members(
                &mut self,
                batch: &AckBatch,
            ) -> Result<Answer<AckedBatch>, Self::Error> {
                let $this = self;
                ack::ack(&mut $line, batch).await
            }

            async fn change_barrier(
                &mut self,
                id: &BarrierId,
                change: &Change,
            ) -> Result<Answer<Changed>, Self::Error> {
                let $this = self;
                change::change(&mut $line, id, change).await
            }

            async fn barrier_status(
                &mut self,
                id: &BarrierId,
            ) -> Result<Option<Status>, Self::Error> {
                let $this = self;
                read::status(&mut $line, id).await
            }

            async fn barrier_outcomes(
                &mut self,
                page: &Page,
            ) -> Result<Option<Outcomes>, Self::Error> {
                let $this = self;
                read::outcomes(&mut $line, page).await
            }
        }
    };
}
use barrier_transaction;

/// The refusal of an answer that has one.
fn refusal(word: Option<String>, detail: Option<String>, id: &BarrierId) -> Option<Refusal> {
    let code = RefusalCode::from_word(&word?).unwrap_or(RefusalCode::Conflict);
    match detail {
        None if code == RefusalCode::NotFound => Some(Refusal::not_found(id)),
        detail => Some(Refusal::new(code, detail.unwrap_or_default())),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// What [`hex`] wrote, or `encode(.., 'hex')`. What is none is cut short.
fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok());
    text.as_bytes()
        .chunks_exact(2)
        .map_while(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::{hex, unhex};

    #[test]
    fn bytes_come_back_from_their_digits() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)), all);
        assert_eq!(hex(b"\x0f\xf0"), "0ff0");
        assert!(unhex("zz").is_empty());
    }
}
