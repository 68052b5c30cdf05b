//! What the program says: answers on standard output, errors on standard error, both as text for
//! people or as JSON for programs.
//!
//! What does not belong here: logs (see [`crate::log`]) and what an answer contains.

use std::io::{self, Write};

use sendoff::Error;
use sendoff::barrier::Refusal;
use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure};

/// Whether answers are text or JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON value on one line for each answer.
    Json,
}

impl Form {
    /// Prints an answer: `text` for people, `value` for programs, to standard output.
    ///
    /// # Errors
    /// [`Failure::Closed`] where nobody reads any more.
    pub(crate) fn answer(self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        match self {
            Self::Text => line(io::stdout().lock(), text)?,
            Self::Json => line(io::stdout().lock(), &as_json(value)?)?,
        }
        Ok(())
    }

    /// The same on standard error, for a verb whose standard output carries messages.
    ///
    /// # Errors
    /// As [`Form::answer`].
    pub(crate) fn remark(self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        match self {
            Self::Text => line(io::stderr().lock(), text)?,
            Self::Json => line(io::stderr().lock(), &as_json(value)?)?,
        }
        Ok(())
    }

    /// Tells a failure on standard error and gives the code to end with.
    pub(crate) fn tell(self, failure: &Failure) -> Exit {
        let (text, value, exit) = match failure {
            Failure::Closed => return Exit::Done,
            Failure::Error { exit, error } => (error.to_string(), error_json(error, *exit), *exit),
            Failure::Refused { operation, refusal, next } => {
                let exit = Exit::from(refusal.code());
                let code = refusal.code().as_str();
                (
                    format!("{operation}: {refusal}; {next} ({code})"),
                    refusal_json(operation, refusal, next, exit),
                    exit,
                )
            }
        };
        let text = match self {
            Self::Text => format!("error: {text}"),
            Self::Json => value.to_string(),
        };
        // There is nowhere left to report a standard error that is closed.
        let _ = line(io::stderr().lock(), &text);
        exit
    }
}

/// A barrier's refusal as `--json` shows it: an error with a code of its own.
fn refusal_json(operation: &str, refusal: &Refusal, next: &str, exit: Exit) -> serde_json::Value {
    json!({ "error": {
        "kind": "refused",
        "code": refusal.code(),
        "operation": operation,
        "message": format!("{operation}: {refusal}"),
        "near": refusal.near(),
        "next": next,
        "exit": exit.code(),
    }})
}

/// An error as `--json` shows it.
fn error_json(error: &Error, exit: Exit) -> serde_json::Value {
    json!({ "error": {
        "kind": error.kind().as_str(),
        "code": error.kind().as_str(),
        "operation": error.operation(),
        "message": error.to_string(),
        "next": error.what_next(),
        "exit": exit.code(),
    }})
}

fn as_json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::other)
}

fn line(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// A whole number with commas between the thousands, as people read it.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of a thing, whose name takes an `s` where they are not one.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// A text from outside on one line, fit for a terminal: no control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Rows under headings, in columns that line up.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let one = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(cell);
            let padding = width.saturating_sub(cell.chars().count()) + 2;
            text.extend(std::iter::repeat_n(' ', padding));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    };
    let mut text = one(&mut headings.iter().copied());
    for row in rows {
        text.push_str(&one(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_at_every_length() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn one_is_one_and_the_others_are_many() {
        assert_eq!(counted(0, "message"), "0 messages");
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(1_000, "message"), "1,000 messages");
    }

    #[test]
    fn a_terminal_escape_in_a_text_from_outside_is_not_printed() {
        assert_eq!(shown("red\x1b[31m\n"), "red\u{fffd}[31m\u{fffd}");
    }

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_spaces() {
        let text = table(&["id", "why"], &[vec!["long-id".into(), "x".into()]]);
        assert_eq!(text, "id       why\nlong-id  x\n");
    }
}
