//! `sendoff verify`: compares what `sendoff up` committed with what arrived.
//!
//! It may run while `up` runs, and right after a kill. The orders and the outbox are read at one
//! moment, before the file: what had left the outbox by then is in the file by then. What the file
//! has beyond is looked for among the orders that committed since.

mod delivered;
mod verdict;

use serde::Serialize;

use crate::arguments::VerifyArguments;
use crate::exit::{Ending, Exit};
use crate::output::{Form, grouped};
use crate::shop::{DataFolder, Truth};

use verdict::{Verdict, Witness};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    data: String,
    ok: bool,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

/// Compares, and answers with the verdict.
pub(crate) fn run(arguments: &VerifyArguments, form: Form) -> Ending {
    let folder = DataFolder::existing(&arguments.data)?;
    let mut truth = Truth::open(&folder.database())?;
    let mut witness = Witness::default();
    let outbox = truth.snapshot(|order| witness.committed(&order, true))?;
    let ends = delivered::read(&folder.delivered(), |delivery| witness.delivered(delivery))?;
    truth.orders_after(witness.last_number(), |order| witness.committed(&order, false))?;
    let verdict = witness.verdict(&outbox, &ends);
    let answer = Answer {
        data: folder.path().display().to_string(),
        ok: verdict.is_ok(),
        verdict: &verdict,
    };
    form.answer(&answer, &text(&verdict))?;
    Ok(if verdict.is_ok() { Exit::Done } else { Exit::Broken })
}

fn text(verdict: &Verdict) -> String {
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
    for example in &verdict.examples {
        text.push_str(&format!("  {example}\n"));
    }
    text.push_str(if verdict.is_ok() {
        "OK: what rolled back never left; what committed arrived or waits in the outbox, in order\n"
    } else {
        "BROKEN: see above\n"
    });
    text
}
