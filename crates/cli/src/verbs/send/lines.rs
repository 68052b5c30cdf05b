//! `send --lines`: one message for each line of standard input, in transactions of a fixed size.
//!
//! Memory stays bounded: one transaction is being written while the next is being read, and a
//! transaction ends early at [`BATCH_BYTES_MAX`].

use std::io::{self, BufRead, Read};

use sendoff::{Error, ErrorKind, Message, Result};
use serde_json::json;
use tokio::sync::mpsc;

use super::Envelope;
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, counted};
use crate::store::Store;

/// A transaction ends at this many bytes of messages, however few they are.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Sends every line, and says how many were committed, also where it fails half way.
pub(super) async fn send(
    store: &Store,
    envelope: Envelope,
    per_transaction: u32,
    form: Form,
) -> Ending {
    let (give, mut take) = mpsc::channel(1);
    let rows_max = usize::try_from(per_transaction).unwrap_or(usize::MAX);
    // A thread of its own, which is not waited for: a read from a terminal cannot be interrupted.
    std::thread::spawn(move || {
        let mut reader = Reader { from: io::stdin().lock(), envelope, lines: 0 };
        loop {
            let batch = reader.batch(rows_max, BATCH_BYTES_MAX);
            let last = !matches!(&batch, Ok(batch) if !batch.is_empty());
            if give.blocking_send(batch).is_err() || last {
                return;
            }
        }
    });
    let (mut sent, mut transactions) = (0_u64, 0_u64);
    while let Some(batch) = take.recv().await {
        let batch = batch.map_err(|error| after(sent, error))?;
        if batch.is_empty() {
            break;
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        store.desk.send_all(&batch).await.map_err(|error| after(sent, store.explain(error)))?;
        sent += count;
        transactions += 1;
    }
    form.answer(
        &json!({ "sent": sent, "transactions": transactions }),
        &format!("sent {} in {}", counted(sent, "message"), counted(transactions, "transaction")),
    )?;
    Ok(Exit::Done)
}

/// An error, with what was committed before it.
fn after(sent: u64, error: Error) -> Failure {
    let next = match sent {
        0 => "nothing was sent".to_owned(),
        1 => "the first line is committed, go on with line 2".to_owned(),
        _ => format!("the first {sent} lines are committed, go on with line {}", sent + 1),
    };
    let next = match error.what_next() {
        Some(what) => format!("{what}; {next}"),
        None => next,
    };
    error.advice(next).into()
}

struct Reader<R> {
    from: R,
    envelope: Envelope,
    lines: u64,
}

impl<R: BufRead> Reader<R> {
    /// The next lines as messages; empty at the end of the input.
    fn batch(&mut self, rows_max: usize, bytes_max: usize) -> Result<Vec<Message>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < rows_max && bytes < bytes_max {
            let Some(line) = self.line()? else { break };
            let message = self.envelope.message(line)?;
            bytes += message.size_bytes();
            batch.push(message);
        }
        Ok(batch)
    }

    /// The next line without its line feed; what follows the last line feed is a line where it is
    /// not empty.
    fn line(&mut self) -> Result<Option<Vec<u8>>> {
        const DOING: &str = "reading a line";
        let limit = self.envelope.body_bytes_max;
        let mut line = Vec::new();
        let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let number = self.lines + 1;
        (&mut self.from).take(bound).read_until(b'\n', &mut line).map_err(|error| {
            Error::new(ErrorKind::Unexpected, DOING)
                .subject(format!("standard input (line {number})"))
                .caused_by(error)
        })?;
        if line.is_empty() {
            return Ok(None);
        }
        self.lines = number;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > limit {
            return Err(Error::new(ErrorKind::TooLarge, DOING)
                .subject(format!("standard input (line {number})"))
                .detail(format!("it has more than {limit} bytes, the limit"))
                .advice("raise --body-bytes-max where the target takes it"));
        }
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use sendoff::{Headers, Outbox};

    use super::*;

    fn reader(input: &[u8], body_bytes_max: usize) -> Reader<&[u8]> {
        Reader {
            from: input,
            envelope: Envelope {
                outbox: Outbox::new("test"),
                topic: "t".into(),
                key: None,
                id: None,
                headers: Headers::new(),
                due_at: None,
                body_bytes_max,
            },
            lines: 0,
        }
    }

    fn bodies(input: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = reader(input, 100);
        std::iter::from_fn(|| reader.line().unwrap()).collect()
    }

    #[test]
    fn an_empty_line_is_a_message_and_the_line_feed_is_not_part_of_one() {
        assert_eq!(bodies(b"a\n\nb\r\n"), [b"a".to_vec(), b"".to_vec(), b"b\r".to_vec()]);
        assert_eq!(bodies(b"a\nlast"), [b"a".to_vec(), b"last".to_vec()]);
        assert_eq!(bodies(b"\n"), [b"".to_vec()]);
        assert!(bodies(b"").is_empty());
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_over_it_is_refused_with_its_number() {
        let mut reader = reader(b"12345\n123456\n", 5);
        assert_eq!(reader.line().unwrap().unwrap(), b"12345");
        let error = reader.line().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn a_batch_ends_at_its_rows_and_at_its_bytes() {
        let mut reader = reader(b"a\nb\nc\n", 5);
        assert_eq!(reader.batch(2, 1_000).unwrap().len(), 2);
        assert_eq!(reader.batch(2, 1_000).unwrap().len(), 1);
        assert!(reader.batch(2, 1_000).unwrap().is_empty());
        let mut reader = self::reader(b"a\nb\nc\n", 5);
        assert_eq!(reader.batch(10, 1).unwrap().len(), 1);
    }
}
