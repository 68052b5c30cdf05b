//! The comparison: what committed against what arrived.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use sendoff::relay::Hold;
use serde::Serialize;
use uuid::Uuid;

use crate::order::{Order, SOURCE};
use crate::relay::Mode;

/// A committed row of `orders`.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The order.
    pub order: Order,
    /// Its key's version: 1 for the key's first committed order, and so on, counted under a lock on
    /// the key. 0 where it has no key.
    pub version: i64,
}

/// A delivery as a consumer finds it.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The id under which it came, with its source: what a broker or an inbox deduplicates by.
    pub dedup_id: String,
    /// The key that came with it.
    pub key: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// What the comparison found. Every number but the first three and `duplicates_explained` has to
/// be 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Orders that committed.
    pub committed: u64,
    /// Deliveries, duplicates included.
    pub arrived: u64,
    /// Second deliveries of messages that were in flight at a fault.
    pub duplicates_explained: u64,
    /// Of these, those whose publish ended without an answer while nothing was struck: the machine
    /// was slower than the publish timeout.
    pub duplicates_after_timeout: u64,
    /// Of these, those whose lease lapsed while nothing was struck: the machine was slower than the
    /// lease, and the verdict was fenced.
    pub duplicates_after_lapse: u64,
    /// Second deliveries that no fault explains.
    pub duplicates_unexplained: u64,
    /// Orders that committed and did not arrive.
    pub lost: u64,
    /// Deliveries of what never committed.
    pub never_committed: u64,
    /// First deliveries that came after a later one of their key.
    pub out_of_order: u64,
    /// Bodies or keys that are not, byte for byte, what the order says.
    pub altered: u64,
    /// Deliveries under another id than the one in their body.
    pub wrong_id: u64,
    /// The first few of what has to be 0, in words.
    pub examples: Vec<String>,
}

impl Findings {
    /// Whether everything is as promised.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.duplicates_unexplained
            + self.lost
            + self.never_committed
            + self.out_of_order
            + self.altered
            + self.wrong_id
            == 0
    }
}

/// Which messages a second delivery is explained for.
#[derive(Debug, Default)]
pub struct Explained {
    /// In flight at a fault.
    pub by_fault: HashSet<u128>,
    /// Publishes without an answer.
    pub by_timeout: HashSet<u128>,
    /// Verdicts that were fenced after the lease was over.
    pub by_lapse: HashSet<u128>,
}

/// A message with which something went wrong.
#[derive(Debug)]
struct Suspect {
    id: u128,
    key: Option<String>,
    /// The versions of its key that have to do with it.
    versions: RangeInclusive<i64>,
}

/// The ledger.
#[derive(Debug, Default)]
pub struct Ledger {
    orders: HashMap<u128, Committed>,
    arrived: HashSet<u128>,
    versions: HashMap<String, i64>,
    /// Keys have no order: a message that fails gives up its place, or nobody has promised one.
    unordered: bool,
    findings: Findings,
    suspects: Vec<Suspect>,
}

impl Ledger {
    /// A ledger of relays of this kind, under this policy.
    #[must_use]
    pub fn of(mode: Mode, hold: Hold) -> Self {
        Self { unordered: mode == Mode::RowLocks || hold == Hold::None, ..Self::default() }
    }

    /// Books one stretch: the orders that committed in it and what arrived since, in the order of
    /// arrival. Nobody may be writing, and everything has to have drained.
    pub fn book(&mut self, orders: Vec<Committed>, arrivals: &[Arrival], explained: &Explained) {
        let ids: Vec<u128> = orders.iter().map(|row| row.order.id.as_u128()).collect();
        self.findings.committed += orders.len() as u64;
        for row in orders {
            self.orders.insert(row.order.id.as_u128(), row);
        }
        for arrival in arrivals {
            self.arrive(arrival, explained);
        }
        for id in ids {
            if !self.arrived.contains(&id) {
                self.findings.lost += 1;
                self.suspects.push(Suspect { id, key: None, versions: 0..=0 });
                self.example(format!("lost: {}", Uuid::from_u128(id)));
            }
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Messages whose history says how something went wrong, since the last call: a few of them,
    /// with what else its key had between the overtaken one and the one that overtook it.
    pub fn take_suspects(&mut self) -> Vec<(u128, String)> {
        const SUSPECTS_MAX: usize = 4;
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.truncate(SUSPECTS_MAX);
        let between = |row: &&Committed| {
            let key = row.order.key.as_ref();
            suspects.iter().any(|suspect| {
                suspect.id == row.order.id.as_u128()
                    || (key.is_some()
                        && key == suspect.key.as_ref()
                        && suspect.versions.contains(&row.version))
            })
        };
        self.orders
            .iter()
            .filter(|(_, row)| between(row))
            .map(|(id, row)| {
                let key = row.order.key.as_deref().unwrap_or("no key");
                (*id, format!("{key} {}", row.version))
            })
            .collect()
    }

    fn arrive(&mut self, arrival: &Arrival, explained: &Explained) {
        self.findings.arrived += 1;
        let id = arrival
            .dedup_id
            .strip_prefix(SOURCE)
            .and_then(|rest| Uuid::try_parse(rest.strip_prefix('/')?).ok());
        let Some(row) = id.and_then(|id| self.orders.get(&id.as_u128())).cloned() else {
            self.findings.never_committed += 1;
            self.example(format!("never committed: {}", arrival.dedup_id));
            return;
        };
        let id = row.order.id;
        if !arrival.body.is_empty() && !arrival.body.starts_with(id.to_string().as_bytes()) {
            self.findings.wrong_id += 1;
            self.example(format!("another message's body came as {id}"));
        } else if arrival.body != row.order.body() || arrival.key != row.order.key {
            self.findings.altered += 1;
            self.example(format!("altered: {id}"));
        }
        if !self.arrived.insert(id.as_u128()) {
            self.arrive_again(id, explained);
        } else if let Some(key) = &row.order.key {
            let last = self.versions.entry(key.clone()).or_default();
            if row.version > *last || self.unordered {
                *last = row.version.max(*last);
            } else {
                let last = *last;
                let versions = row.version - 2..=last;
                self.suspects.push(Suspect { id: id.as_u128(), key: Some(key.clone()), versions });
                self.findings.out_of_order += 1;
                self.example(format!(
                    "version {} of {key} came after version {last} ({id})",
                    row.version
                ));
            }
        }
    }

    fn arrive_again(&mut self, id: Uuid, explained: &Explained) {
        if explained.by_fault.contains(&id.as_u128()) {
            self.findings.duplicates_explained += 1;
        } else if explained.by_timeout.contains(&id.as_u128()) {
            self.findings.duplicates_explained += 1;
            self.findings.duplicates_after_timeout += 1;
        } else if explained.by_lapse.contains(&id.as_u128()) {
            self.findings.duplicates_explained += 1;
            self.findings.duplicates_after_lapse += 1;
        } else {
            self.findings.duplicates_unexplained += 1;
            self.suspects.push(Suspect { id: id.as_u128(), key: None, versions: 0..=0 });
            self.example(format!("a duplicate that no fault explains: {id}"));
        }
    }

    fn example(&mut self, words: String) {
        const EXAMPLES_MAX: usize = 20;
        if self.findings.examples.len() < EXAMPLES_MAX {
            self.findings.examples.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Committed, Explained, Ledger};
    use crate::order::Order;

    fn row(number: u128, key: &str, version: i64) -> Committed {
        Committed {
            order: Order {
                id: uuid::Uuid::from_u128(number),
                key: Some(key.to_owned()),
                seed: 5,
                length: 40,
            },
            version,
        }
    }

    fn arrival(row: &Committed) -> Arrival {
        Arrival {
            dedup_id: format!("crash/{}", row.order.id),
            key: row.order.key.clone(),
            body: row.order.body(),
        }
    }

    #[test]
    fn a_clean_stretch_is_clean() {
        let rows = vec![row(1, "a", 1), row(2, "a", 2), row(3, "b", 1)];
        let arrivals = [arrival(&rows[2]), arrival(&rows[0]), arrival(&rows[1])];
        let mut ledger = Ledger::default();
        ledger.book(rows, &arrivals, &Explained::default());
        assert!(ledger.findings().kept());
        assert_eq!(ledger.findings().arrived, 3);
    }

    #[test]
    fn each_kind_of_fault_is_found() {
        let rows = vec![row(1, "a", 1), row(2, "a", 2), row(3, "b", 1), row(4, "b", 2)];
        let stranger = row(9, "z", 1);
        let mut altered = arrival(&rows[2]);
        altered.body[38] ^= 1;
        let mut swapped = arrival(&rows[2]);
        swapped.body = rows[3].order.body();
        let arrivals = [
            arrival(&rows[1]),
            arrival(&rows[0]),
            arrival(&rows[1]),
            arrival(&rows[0]),
            altered,
            swapped,
            arrival(&stranger),
        ];
        let explained = Explained { by_fault: [2, 3].into(), ..Explained::default() };
        let mut ledger = Ledger::default();
        ledger.book(rows, &arrivals, &explained);
        let found = ledger.findings();
        assert_eq!(found.lost, 1, "the fourth");
        assert_eq!(found.out_of_order, 1, "the first came after the second");
        assert_eq!(found.duplicates_explained, 2, "the second and the third");
        assert_eq!(found.duplicates_unexplained, 1, "the first");
        assert_eq!(found.altered, 1);
        assert_eq!(found.wrong_id, 1);
        assert_eq!(found.never_committed, 1);
        assert!(!found.kept());
    }
}
