//! `sendoff verify`: compares what `sendoff up` committed with what arrived.
//!
//! It may run while `up` runs, and right after a kill. The orders and the outbox are read at one
//! moment, before the file: what had left the outbox by then is in the file by then. What the file
//! has beyond is looked for among the orders that committed since.

mod batches;
mod delivered;
mod verdict;

use serde::Serialize;

use crate::arguments::VerifyArguments;
use crate::exit::{Ending, Exit};
use crate::output::{Form, grouped};
use crate::shop::{DataFolder, Truth};

use batches::{Batches, Continuations};
use verdict::{Verdict, Witness};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    data: String,
    ok: bool,
    #[serde(flatten)]
    verdict: &'a Verdict,
    batches: &'a Batches,
}

/// Compares, and answers with the verdict.
pub(crate) fn run(arguments: &VerifyArguments, form: Form) -> Ending {
    let folder = DataFolder::existing(&arguments.data)?;
    let mut truth = Truth::open(&folder.database())?;
    let mut witness = Witness::default();
    let outbox = truth.snapshot(|order| witness.committed(&order, true))?;
    let states = truth.batches()?;
    let mut continuations = Continuations::default();
    let ends = delivered::read(&folder.delivered(), |delivery| {
        witness.delivered(delivery);
        continuations.delivered(delivery);
    })?;
    truth.orders_after(witness.last_number(), |order| witness.committed(&order, false))?;
    let verdict = witness.verdict(&outbox, &ends);
    let batches = continuations.judge(&states);
    let ok = verdict.is_ok() && batches.is_ok();
    let answer = Answer {
        data: folder.path().display().to_string(),
        ok,
        verdict: &verdict,
        batches: &batches,
    };
    form.answer(&answer, &text(&verdict, &batches))?;
    Ok(if ok { Exit::Done } else { Exit::Broken })
}

fn text(verdict: &Verdict, batches: &Batches) -> String {
    let mut text = String::new();
    let mut row = |name: &str, count: u64, remark: &str| {
        let gap = if remark.is_empty() { "" } else { "  " };
        text.push_str(&format!("{name:<14}{:>12}{gap}{remark}\n", grouped(count)));
    };
    row("committed", verdict.committed, "orders in the database");
    row("delivered", verdict.delivered, "of these, in the file");
    row("pending", verdict.pending, "of these, still in the outbox: the relay delivers them");
    row("held", verdict.held, "of these, behind an earlier one of their customer");
    row("quarantined", verdict.quarantined, "of these, set aside with a reason");
    row("lost", verdict.lost, "committed and nowhere");
    row("unknown", verdict.unknown, "delivered and never committed");
    row("out of order", verdict.out_of_order, "delivered before an earlier one of their customer");
    row("altered", verdict.altered, "delivered with other bytes than were committed");
    row("unreadable", verdict.unreadable, "lines in the file that are no deliveries");
    row(
        "duplicates",
        verdict.duplicates,
        "delivered again with the same id: what was in flight at a kill",
    );
    if verdict.torn_bytes > 0 {
        text.push_str(&format!(
            "the file ends in {} bytes of a line that was being written at a kill; the relay cuts it\n",
            grouped(verdict.torn_bytes)
        ));
    }
    text.push_str(&batches_text(batches));
    for example in verdict.examples.iter().chain(&batches.examples) {
        text.push_str(&format!("  {example}\n"));
    }
    text.push_str(if verdict.is_ok() && batches.is_ok() {
        "OK: what rolled back never left; what committed arrived or waits in the outbox, in order\n"
    } else {
        "BROKEN: see above\n"
    });
    text
}

/// The batches' rows; none where none was sent.
fn batches_text(batches: &Batches) -> String {
    if batches.sent == 0 {
        return String::new();
    }
    [
        ("batches", batches.sent, "of documents, sent with a barrier each"),
        ("continued", batches.continued, "of these, ended, with one continuation in the file"),
        ("continuing", batches.continuing, "of these, ended, with the continuation in the outbox"),
        ("open", batches.open, "of these, waiting for answers"),
        ("not continued", batches.lost, "ended, and the continuation is nowhere"),
        ("twice", batches.double, "continued under more than one id"),
        ("wrong", batches.wrong, "documents with another outcome than the partner gave"),
        ("missing", batches.missing, "documents that were given up at the deadline"),
    ]
    .iter()
    .map(|(name, count, remark)| format!("{name:<14}{:>12}  {remark}\n", grouped(*count)))
    .collect()
}
