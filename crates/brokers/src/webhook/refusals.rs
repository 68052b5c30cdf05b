//! Telling a receiver that takes nothing from one that refuses one message over and over.
//!
//! A status such as 403 or 503 may be about everything or about one message alone, and while the
//! target counts as unreachable the relay tries it with one and the same message. So one message
//! that is refused several times in a row, with nothing else asked in between, fails alone: another
//! one has its turn. If that one is refused as well, it takes twice as many times, so that a long
//! outage uses up few attempts.

use sendoff_core::PublishError;

/// How often in a row one message is refused before it fails alone, at first.
const IN_A_ROW: u32 = 3;
/// And at most.
const IN_A_ROW_MAX: u32 = 1_536;

#[derive(Debug)]
pub(super) struct Refusals {
    /// The message that was refused last, and how often in a row.
    last: Option<(String, u32)>,
    needed: u32,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { last: None, needed: IN_A_ROW }
    }
}

impl Refusals {
    /// Something was confirmed: whatever was wrong is not wrong for every message.
    pub(super) fn confirmed(&mut self) {
        if self.last.is_some() || self.needed != IN_A_ROW {
            *self = Self::default();
        }
    }

    /// A message was refused in a way that may concern all of them.
    pub(super) fn refused(&mut self, id: String, detail: String) -> PublishError {
        let count = match &self.last {
            Some((last, count)) if *last == id => count + 1,
            _ => 1,
        };
        if count < self.needed {
            self.last = Some((id, count));
            return PublishError::unreachable(detail);
        }
        self.last = None;
        self.needed = self.needed.saturating_mul(2).min(IN_A_ROW_MAX);
        PublishError::failed(format!("{detail} ({count} times in a row)"))
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::publisher::PublishClass;

    use super::Refusals;

    fn refusals_until_it_fails(refusals: &mut Refusals, id: &str) -> u32 {
        for count in 1..5_000 {
            let error = refusals.refused(id.to_owned(), "403".to_owned());
            if error.class() == PublishClass::Failed {
                return count;
            }
            assert_eq!(error.class(), PublishClass::Unreachable);
        }
        panic!("{id} is refused for ever and keeps the others waiting");
    }

    #[test]
    fn one_message_that_is_refused_in_a_row_fails_alone_and_later_ones_take_longer() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals_until_it_fails(&mut refusals, "a"), 3);
        assert_eq!(refusals_until_it_fails(&mut refusals, "b"), 6);
        assert_eq!(refusals_until_it_fails(&mut refusals, "c"), 12);
        refusals.confirmed();
        assert_eq!(refusals_until_it_fails(&mut refusals, "a"), 3);
        for _ in 0..40 {
            refusals_until_it_fails(&mut refusals, "a");
        }
        assert_eq!(refusals_until_it_fails(&mut refusals, "a"), 1_536);
    }

    #[test]
    fn many_messages_that_are_refused_by_turns_are_nobodys_own_failure() {
        let mut refusals = Refusals::default();
        for turn in 0..1_000 {
            let error = refusals.refused((turn % 2).to_string(), "403".to_owned());
            assert_eq!(error.class(), PublishClass::Unreachable);
        }
    }
}
