//! `sendoff barrier ack ID --lines`: many acknowledgements, in transactions of a fixed size.
//!
//! Memory stays bounded: one transaction is being written while the next is being read, a line has a
//! most, and only the first refusals are kept.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use sendoff::barrier::{
    Ack, AckBatch, AckedBatch, BarrierId, MemberAnswer, MemberName, OUTCOME_BYTES_MAX, Refusal,
    RefusalCode,
};
use sendoff::{Error, ErrorKind, Result};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::ack::DOING;
use super::{barrier, open};
use crate::acknowledgement::Acknowledgement;
use crate::arguments::AckArguments;
use crate::configuration::Configuration;
use crate::exit::{self, Ending, Exit, Failure};
use crate::members::misread;
use crate::output::{Form, grouped};
use crate::terminal;

/// The most bytes of a line: an outcome and a name with every byte escaped.
const LINE_BYTES_MAX: usize = 6 * (OUTCOME_BYTES_MAX + MemberName::BYTES_MAX) + 1_024;
/// How many refusals the summary names.
const REFUSALS_MAX: usize = 100;
/// Between two drawings of the progress.
const EVERY: Duration = Duration::from_millis(250);

/// The summary.
#[derive(Debug, Serialize)]
struct Summary {
    id: String,
    lines: u64,
    resolved: u64,
    duplicate: u64,
    /// Of the resolved, those that say that they failed.
    failed: u64,
    refused: u64,
    complete: bool,
    transactions: u64,
    /// The first refused lines.
    refusals: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct Refused {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<MemberName>,
    #[serde(flatten)]
    refusal: Refusal,
}

/// What was read for one transaction.
#[derive(Debug, Default)]
struct Batch {
    acks: Vec<Ack>,
    /// The line of each acknowledgement.
    lines: Vec<u64>,
    /// Lines that are none, or say too much.
    malformed: Vec<Refused>,
    read: u64,
}

/// Applies every line, and says what became of them, also where it fails half way.
pub(super) async fn run(
    configuration: &Configuration,
    arguments: &AckArguments,
    form: Form,
) -> Ending {
    let id = barrier(arguments.id.as_str())?;
    let store = open(configuration).await?;
    let mut batches = read(usize::try_from(arguments.per_transaction).unwrap_or(usize::MAX));
    let mut summary = Summary::of(&id);
    let mut progress = Progress::begin();
    while let Some(batch) = batches.recv().await {
        let Batch { acks, lines, malformed, read } = batch.map_err(|error| summary.after(error))?;
        let first_line = summary.lines + 1;
        summary.lines += read;
        for refused in malformed {
            summary.refuse(refused);
        }
        if !acks.is_empty() {
            let batch = AckBatch::new(id.clone(), acks).by(&arguments.channel);
            let answer = store.barriers.ack_members(&batch).await;
            let acked = answer
                .map_err(|error| summary.after(store.explain(error)))?
                .map_err(|refusal| summary.stopped(refusal, first_line))?;
            summary.add(&batch.acks, &lines, acked);
        }
        progress.draw(&summary);
    }
    progress.end();
    summary.refusals.sort_by_key(|refused| refused.line);
    form.answer(&summary, &summary.text())?;
    Ok(if summary.refused == 0 { Exit::Done } else { Exit::Refused })
}

/// Reads standard input on a thread of its own, which is not waited for: a read from a terminal
/// cannot be interrupted.
fn read(rows_max: usize) -> mpsc::Receiver<Result<Batch>> {
    let (give, take) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut reader = Reader { from: io::stdin().lock(), lines: 0 };
        loop {
            let batch = reader.batch(rows_max);
            let last = !matches!(&batch, Ok(batch) if batch.read > 0);
            if give.blocking_send(batch).is_err() || last {
                return;
            }
        }
    });
    take
}

struct Reader<R> {
    from: R,
    lines: u64,
}

impl<R: BufRead> Reader<R> {
    /// The next lines; none at the end of the input.
    fn batch(&mut self, rows_max: usize) -> Result<Batch> {
        let mut batch = Batch::default();
        while batch.acks.len() + batch.malformed.len() < rows_max {
            let Some(text) = self.line()? else { break };
            batch.read += 1;
            match text.map_err(|refusal| (None, refusal)).and_then(|text| ack(&text)) {
                Ok(ack) => {
                    batch.acks.push(ack);
                    batch.lines.push(self.lines);
                }
                Err((member, refusal)) => {
                    batch.malformed.push(Refused { line: self.lines, member, refusal });
                }
            }
        }
        Ok(batch)
    }

    /// The next line; a refusal where it is too long, which is then skipped.
    fn line(&mut self) -> Result<Option<Result<Vec<u8>, Refusal>>> {
        let bound = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        let number = self.lines + 1;
        let failed = |error| {
            Error::new(ErrorKind::Unexpected, "reading acknowledgements")
                .subject(format!("standard input (line {number})"))
                .caused_by(error)
        };
        let mut line = Vec::new();
        (&mut self.from).take(bound).read_until(b'\n', &mut line).map_err(failed)?;
        if line.is_empty() {
            return Ok(None);
        }
        self.lines = number;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > LINE_BYTES_MAX {
            self.from.skip_until(b'\n').map_err(failed)?;
            return Ok(Some(Err(Refusal::new(
                RefusalCode::TooLarge,
                format!("the line has more than {LINE_BYTES_MAX} bytes, the limit"),
            ))));
        }
        Ok(Some(Ok(line)))
    }
}

fn ack(text: &[u8]) -> Result<Ack, (Option<MemberName>, Refusal)> {
    let line: Acknowledgement = serde_json::from_slice(text).map_err(|error| {
        // The line's number is told beside it; the parser's own is always 1.
        let why = misread(&error).replace(" at line 1 column", " at column");
        let detail =
            format!(r#"{why}; write {{"member":"a.xml","ok":true}}, with error and result if any"#);
        (None, Refusal::new(RefusalCode::Invalid, detail))
    })?;
    let (member, ack) = line.checked();
    ack.map_err(|refusal| (Some(member), refusal))
}

impl Summary {
    fn of(id: &BarrierId) -> Self {
        Self {
            id: id.id().to_owned(),
            lines: 0,
            resolved: 0,
            duplicate: 0,
            failed: 0,
            refused: 0,
            complete: false,
            transactions: 0,
            refusals: Vec::new(),
        }
    }

    fn refuse(&mut self, refused: Refused) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(refused);
        }
    }

    fn add(&mut self, acks: &[Ack], lines: &[u64], acked: AckedBatch) {
        self.transactions += 1;
        self.complete = acked.complete;
        for ((ack, line), answer) in acks.iter().zip(lines).zip(acked.answers) {
            match answer {
                MemberAnswer::Resolved => {
                    self.resolved += 1;
                    self.failed += u64::from(!ack.outcome.is_ok());
                }
                MemberAnswer::Duplicate { .. } => self.duplicate += 1,
                MemberAnswer::Refused(refusal) => {
                    let member = Some(ack.member.clone());
                    self.refuse(Refused { line: *line, member, refusal });
                }
            }
        }
    }

    /// A failure, with what was committed before it.
    fn after(&self, error: Error) -> Failure {
        let next = format!(
            "{} acknowledgements of the lines before are committed; run it again with all lines: \
             those are duplicates then",
            grouped(self.resolved)
        );
        let next = match error.what_next() {
            Some(what) => format!("{what}; {next}"),
            None => next,
        };
        error.advice(next).into()
    }

    /// The barrier takes none of a transaction's lines.
    fn stopped(&self, refusal: Refusal, first_line: u64) -> Failure {
        let next = format!(
            "{}; stopped at line {first_line}, {} acknowledgements of the lines before are committed",
            exit::advice(refusal.code()),
            grouped(self.resolved)
        );
        Failure::Refused { operation: DOING, refusal, next }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Refused { line, member, refusal } in &self.refusals {
            let member = member.as_ref().map_or(String::new(), |member| format!("{member}: "));
            text.push_str(&format!(
                "line {line}: {member}{refusal} ({})\n",
                refusal.code().as_str()
            ));
        }
        let named = u64::try_from(self.refusals.len()).unwrap_or(u64::MAX);
        if self.refused > named {
            text.push_str(&format!("and {} more refused lines\n", grouped(self.refused - named)));
        }
        text.push_str(&format!(
            "{} lines: {} resolved (of these {} failed), {} duplicates, {} refused{}",
            grouped(self.lines),
            grouped(self.resolved),
            grouped(self.failed),
            grouped(self.duplicate),
            grouped(self.refused),
            if self.complete { "; the barrier is complete" } else { "" },
        ));
        text
    }
}

/// The line on a terminal.
struct Progress {
    on: bool,
    begun: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    fn begin() -> Self {
        Self { on: terminal::is_there(), begun: Instant::now(), drawn: None }
    }

    fn draw(&mut self, summary: &Summary) {
        let now = Instant::now();
        if !self.on || self.drawn.is_some_and(|drawn| now - drawn < EVERY) {
            return;
        }
        self.drawn = Some(now);
        let lines = u32::try_from(summary.lines).unwrap_or(u32::MAX);
        let rate = f64::from(lines) / (now - self.begun).as_secs_f64().max(0.001);
        terminal::draw(&format!(
            "lines {} ({rate:.0}/s)  resolved {}  duplicates {}  refused {}",
            grouped(summary.lines),
            grouped(summary.resolved),
            grouped(summary.duplicate),
            grouped(summary.refused),
        ));
    }

    fn end(self) {
        if self.on {
            terminal::clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(input: &[u8], rows_max: usize) -> Batch {
        Reader { from: input, lines: 0 }.batch(rows_max).unwrap()
    }

    #[test]
    fn a_line_that_is_no_acknowledgement_is_refused_by_its_number_and_the_others_are_read() {
        let input =
            b"{\"member\":\"a\"}\nnonsense\n\n{\"member\":\"b\",\"ok\":false,\"error\":\"e\"}";
        let batch = batch(input, 10);
        assert_eq!(batch.lines, [1, 4]);
        let refused: Vec<u64> = batch.malformed.iter().map(|refused| refused.line).collect();
        assert_eq!(refused, [2, 3]);
        assert!(!batch.acks[1].outcome.is_ok());
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_read() {
        let long = [&vec![b'x'; 3 * LINE_BYTES_MAX][..], b"\n{\"member\":\"a\"}\n"].concat();
        let batch = batch(&long, 10);
        assert_eq!(batch.malformed[0].refusal.code(), RefusalCode::TooLarge);
        assert_eq!((batch.lines.as_slice(), batch.read), (&[2][..], 2));
    }

    #[test]
    fn a_transaction_has_so_many_lines_at_most() {
        let mut reader =
            Reader { from: &b"{\"member\":\"a\"}\n{\"member\":\"b\"}\n"[..], lines: 0 };
        assert_eq!(reader.batch(1).unwrap().lines, [1]);
        assert_eq!(reader.batch(1).unwrap().lines, [2]);
        assert_eq!(reader.batch(1).unwrap().read, 0);
    }

    #[test]
    fn a_misspelt_or_oversized_line_is_refused() {
        assert!(ack(br#"{"membr":"a"}"#).is_err());
        let large = format!(r#"{{"member":"a","error":"{}"}}"#, "x".repeat(OUTCOME_BYTES_MAX));
        assert_eq!(ack(large.as_bytes()).unwrap_err().1.code(), RefusalCode::TooLarge);
    }
}
