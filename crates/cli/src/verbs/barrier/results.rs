//! `sendoff barrier results`: members with their outcomes, page by page, never all in memory.

use std::io::{self, BufWriter, Write};

use sendoff::barrier::{BarrierId, MemberName, Outcomes, Page, Refusal, RefusalCode, Which};

use super::{barrier, member, open, text, there};
use crate::arguments::ResultsArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, grouped};
use crate::store::Store;

const DOING: &str = "reading the barrier's results";
/// How many members are read at a time.
const PAGE: u64 = 1_000;

/// Prints every page that was asked for. With `--json` it is one object, written as it is read.
pub(super) async fn run(
    configuration: &Configuration,
    arguments: &ResultsArguments,
    form: Form,
) -> Ending {
    let which = match (arguments.failures, arguments.missing, arguments.pending) {
        (true, _, _) => Which::Failed,
        (_, true, _) => Which::Missing,
        (_, _, true) => Which::Pending,
        _ => Which::Resolved,
    };
    let after = arguments.after.as_deref().map(member).transpose()?;
    let only = arguments.member.as_deref().map(member).transpose()?;
    let mut page = Page { id: barrier(arguments.id.as_str())?, which, after, limit: 0, only };
    let store = open(configuration).await?;
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut outcomes = next(&store, &mut page, left).await?;
    if let (Some(name), true) = (&page.only, outcomes.members.is_empty()) {
        let detail = format!("the barrier {} has no member {name:?}", page.id);
        return Err(Failure::refused(DOING, Refusal::new(RefusalCode::UnknownMember, detail)));
    }
    let mut to = Writer::begin(form, &page.id)?;
    loop {
        let count = u64::try_from(outcomes.members.len()).unwrap_or(u64::MAX);
        left = left.saturating_sub(count);
        to.members(&outcomes)?;
        match outcomes.next_after {
            Some(after) if left > 0 => page.after = Some(after),
            next_after => {
                to.end(next_after.as_ref())?;
                return Ok(Exit::Done);
            }
        }
        outcomes = next(&store, &mut page, left).await?;
    }
}

async fn next(store: &Store, page: &mut Page, left: u64) -> Result<Outcomes, Failure> {
    page.limit = u32::try_from(left.min(PAGE)).unwrap_or(u32::MAX);
    there(store, DOING, &page.id, store.barriers.barrier_outcomes(page).await)
}

struct Writer {
    form: Form,
    to: BufWriter<io::Stdout>,
    written: u64,
}

impl Writer {
    fn begin(form: Form, id: &BarrierId) -> Result<Self, Failure> {
        let mut to = BufWriter::with_capacity(1 << 16, io::stdout());
        if form == Form::Json {
            let id = serde_json::to_string(id.id()).map_err(io::Error::from)?;
            write!(to, "{{\"id\":{id},\"members\":[")?;
        }
        Ok(Self { form, to, written: 0 })
    }

    fn members(&mut self, outcomes: &Outcomes) -> Result<(), Failure> {
        for member in &outcomes.members {
            if self.form == Form::Text {
                writeln!(self.to, "{}", text::member(member))?;
            } else {
                if self.written > 0 {
                    self.to.write_all(b",")?;
                }
                serde_json::to_writer(&mut self.to, member).map_err(io::Error::from)?;
            }
            self.written += 1;
        }
        Ok(())
    }

    fn end(mut self, next_after: Option<&MemberName>) -> Result<(), Failure> {
        match (self.form, next_after) {
            (Form::Json, _) => {
                let after = serde_json::to_string(&next_after).map_err(io::Error::from)?;
                writeln!(self.to, "],\"next_after\":{after}}}")?;
            }
            (Form::Text, Some(after)) => {
                writeln!(
                    self.to,
                    "{} members; there may be more after {after:?}",
                    grouped(self.written)
                )?;
            }
            (Form::Text, None) => writeln!(self.to, "{} members", grouped(self.written))?,
        }
        self.to.flush()?;
        Ok(())
    }
}
