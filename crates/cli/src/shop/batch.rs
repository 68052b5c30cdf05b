//! A batch of documents for a partner: sent and waited for in one transaction, and what the simulated
//! partner makes of each, which is a matter of the document's number, so that it can be verified.

use std::time::Duration;

use rusqlite::Transaction;
use sendoff::barrier::{Barriers, Failed, MemberName, OnDeadline, Probe};
use sendoff::time::Clock;
use sendoff::{Error, Message, Outbox, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::sql;
use super::writer::failed;
use crate::callback::{self, Signer};
use crate::secret;

/// The source of the messages with documents.
pub(crate) const SOURCE_DOCUMENTS: &str = "shop.documents";
/// The topic of a document for the partner.
pub(crate) const SENT: &str = "documents.sent";
/// The topic of a batch's continuation.
pub(crate) const DONE: &str = "batches.done";
/// The header with the path and query of the partner's callback.
pub(crate) const CALLBACK: &str = "callback";

const DOCUMENTS_DEFAULT: u32 = 1_000;
const DOCUMENTS_MAX: u32 = 10_000;
const DEADLINE_S_DEFAULT: u64 = 30;
const DOING: &str = "sending a batch";

/// What is asked for.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBatch {
    documents: Option<u32>,
    deadline_s: Option<u64>,
}

/// A batch that committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Batch {
    /// Its id, which is its barrier's.
    pub(crate) id: String,
    /// How many documents.
    pub(crate) documents: u32,
}

/// A document: its batch and its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) batch: String,
    pub(crate) document: String,
}

/// What the partner makes of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It answers that all is well.
    Well,
    /// It answers that it cannot read it.
    Failed,
    /// It keeps an answer that never leaves: the probe finds it.
    Lost,
    /// It forgets it.
    Forgotten,
}

/// The name of a document.
pub(crate) fn name(number: u32) -> String {
    format!("doc-{number:05}.xml")
}

/// The number in a document's name.
pub(crate) fn number(name: &str) -> Option<u32> {
    name.strip_prefix("doc-")?.strip_suffix(".xml")?.parse().ok()
}

impl Fate {
    /// The fate of document `number`: of 1,000 there are 886 well, 100 failed, 10 lost and 4 forgotten.
    pub(crate) fn of(number: u32) -> Self {
        match number {
            n if n % 250 == 77 => Self::Forgotten,
            n if n % 100 == 42 => Self::Lost,
            n if n % 10 == 3 => Self::Failed,
            _ => Self::Well,
        }
    }
}

/// Writes a batch: its row, its barrier, and a message for each document with the URL of its callback.
pub(super) fn send(
    transaction: &Transaction<'_>,
    signer: &Signer,
    asked: NewBatch,
) -> Result<Batch> {
    let documents = asked.documents.unwrap_or(DOCUMENTS_DEFAULT);
    if documents == 0 || documents > DOCUMENTS_MAX {
        let why = format!("`documents` has to be 1 to {DOCUMENTS_MAX}");
        return Err(Error::invalid(DOING, why));
    }
    let deadline = Duration::from_secs(asked.deadline_s.unwrap_or(DEADLINE_S_DEFAULT));
    let batch = Batch { id: format!("batch-{}", &secret::random_text()?[..12]), documents };
    let members: Vec<MemberName> =
        (1..=documents).map(|number| MemberName::new(name(number))).collect::<Result<_>>()?;

    let barriers = Barriers::new();
    let plan = barriers
        .plan(batch.id.as_str())?
        .members(&members)
        .continue_with(DONE)
        .state(sendoff::barrier::Json::parse(json!({ "documents": documents }).to_string())?)
        .deadline(deadline)
        .on_deadline(OnDeadline::Continue)
        .probe(Probe::Sql(sql::probe(&batch.id)))
        .build()
        .map_err(|refusal| Error::invalid(DOING, refusal.to_string()))?;
    barriers.create_blocking(transaction, &plan).map_err(refused)?;
    let status = barriers.status_blocking(transaction, &batch.id).map_err(refused)?;
    let Some(status) = status else {
        return Err(Error::invalid(DOING, "its barrier is not there"));
    };
    let id = barriers.id(batch.id.as_str())?;
    let week_s = sendoff::barrier::LIVES.as_secs();
    let tokens = callback::answers(signer, &id, &status, &members, week_s, &Clock::system());

    let outbox = Outbox::new(SOURCE_DOCUMENTS);
    let messages: Vec<Message> = (1..=documents)
        .zip(tokens)
        .map(|(number, token)| {
            let document = Document { batch: batch.id.clone(), document: name(number) };
            let body = serde_json::to_vec(&document).map_err(|error| {
                Error::invalid(DOING, "a document does not encode").caused_by(error)
            })?;
            outbox
                .message(SENT)
                .id(format!("{}/{}", document.batch, document.document))
                .header("content-type", "application/json")
                .header(CALLBACK, token.path)
                .body(body)
                .build()
        })
        .collect::<Result<_>>()?;
    outbox.send_all_blocking(transaction, &messages).map_err(|error| failed(DOING, error))?;
    transaction
        .execute(sql::INSERT_BATCH, (&batch.id, documents))
        .map_err(|error| failed(DOING, error))?;
    Ok(batch)
}

fn refused(error: Failed<rusqlite::Error>) -> Error {
    match error {
        Failed::Refused(refusal) => Error::invalid(DOING, refusal.to_string()),
        Failed::Driver(error) => failed(DOING, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_thousand_documents_so_many_have_each_fate() {
        let count = |fate| (1..=1_000).filter(|number| Fate::of(*number) == fate).count();
        assert_eq!(
            [Fate::Well, Fate::Failed, Fate::Lost, Fate::Forgotten].map(count),
            [886, 100, 10, 4]
        );
        assert_eq!(number(&name(42)), Some(42));
    }
}
