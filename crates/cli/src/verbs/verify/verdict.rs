//! The verdict: pure counting over what committed and what was delivered.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use super::delivered::{Delivery, Ends};
use crate::output::shown;
use crate::shop::{InOutbox, Order, SOURCE};

/// How many messages the verdict names of what is wrong.
const EXAMPLES_MAX: usize = 10;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) committed: u64,
    pub(super) delivered: u64,
    pub(super) pending: u64,
    pub(super) held: u64,
    pub(super) quarantined: u64,
    pub(super) lost: u64,
    pub(super) unknown: u64,
    pub(super) out_of_order: u64,
    pub(super) altered: u64,
    pub(super) unreadable: u64,
    pub(super) duplicates: u64,
    /// Deliveries of other sources: somebody used the store beside the shop. Not judged.
    pub(super) others: u64,
    pub(super) torn_bytes: u64,
    /// What is wrong, by name, as far as there is room.
    pub(super) examples: Vec<String>,
}

impl Verdict {
    /// Whether the promise was kept. Duplicates keep it: at least once, with the same id.
    pub(super) fn is_ok(&self) -> bool {
        [self.lost, self.unknown, self.out_of_order, self.altered, self.unreadable]
            .iter()
            .all(|count| *count == 0)
    }

    fn example(&mut self, what: &str, id: &str, customer: &str) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{what}: {} of {}", shown(id), shown(customer)));
        }
    }
}

/// Listens to both sides, then judges.
#[derive(Debug, Default)]
pub(super) struct Witness {
    orders: HashMap<String, Committed>,
    customers: HashMap<String, usize>,
    /// The customers' names, by index.
    names: Vec<String>,
    /// Deliveries in the order of the file.
    deliveries: HashMap<String, Delivered>,
    duplicates: u64,
    others: u64,
    last_number: i64,
}

/// A committed order, without its texts: a folder may have millions.
#[derive(Debug)]
struct Committed {
    number: i64,
    customer: usize,
    body_hash: u64,
    /// Whether it was in the first snapshot. A later one need not have been delivered yet.
    before: bool,
}

/// The first delivery of an id.
#[derive(Debug)]
struct Delivered {
    position: u64,
    body_hash: Option<u64>,
    key_hash: u64,
    /// A repetition had other bytes or another key.
    differs: bool,
}

impl Witness {
    /// An order that committed; `before` where it had before the file was read.
    pub(super) fn committed(&mut self, order: &Order, before: bool) {
        let customer = self.index(&order.customer);
        self.last_number = self.last_number.max(order.number);
        self.orders.insert(
            order.id.clone(),
            Committed {
                number: order.number,
                customer,
                body_hash: order.body().map_or(0, |body| hash(&body)),
                before,
            },
        );
    }

    fn index(&mut self, customer: &str) -> usize {
        if let Some(index) = self.customers.get(customer) {
            return *index;
        }
        let index = self.names.len();
        self.names.push(customer.to_owned());
        self.customers.insert(customer.to_owned(), index);
        index
    }

    /// The highest number that has been heard of.
    pub(super) fn last_number(&self) -> i64 {
        self.last_number
    }

    /// A delivery, in the order of the file.
    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        if delivery.source != SOURCE {
            self.others += 1;
            return;
        }
        let body_hash = delivery.body().map(|body| hash(&body));
        let key_hash = hash(&delivery.key.as_deref().unwrap_or_default());
        let position = u64::try_from(self.deliveries.len()).unwrap_or(u64::MAX);
        match self.deliveries.get_mut(&delivery.id) {
            Some(first) => {
                self.duplicates += 1;
                first.differs |= first.body_hash != body_hash || first.key_hash != key_hash;
            }
            None => {
                self.deliveries.insert(
                    delivery.id.clone(),
                    Delivered { position, body_hash, key_hash, differs: false },
                );
            }
        }
    }

    /// Judges.
    pub(super) fn verdict(&self, outbox: &HashMap<String, InOutbox>, ends: &Ends) -> Verdict {
        let mut verdict = Verdict {
            duplicates: self.duplicates,
            others: self.others,
            unreadable: ends.unreadable,
            torn_bytes: ends.torn_bytes,
            ..Verdict::default()
        };
        for (id, delivered) in &self.deliveries {
            match self.orders.get(id) {
                None => {
                    verdict.unknown += 1;
                    verdict.example("unknown", id, "nobody");
                }
                Some(order) => {
                    let customer = self.name(order.customer);
                    let same = !delivered.differs
                        && delivered.body_hash == Some(order.body_hash)
                        && delivered.key_hash == hash(&customer);
                    if !same {
                        verdict.altered += 1;
                        verdict.example("altered", id, customer);
                    }
                }
            }
        }
        self.judge_order(outbox, &mut verdict);
        verdict
    }

    /// Walks through the orders as they committed: each has to be somewhere, and no later one of its
    /// customer may have been delivered before it.
    fn judge_order(&self, outbox: &HashMap<String, InOutbox>, verdict: &mut Verdict) {
        let mut orders: Vec<(&String, &Committed)> = self.orders.iter().collect();
        // From the last to the first, so that each meets the earliest delivery of its followers.
        orders.sort_unstable_by_key(|(_, order)| std::cmp::Reverse(order.number));
        let mut earliest_follower = vec![u64::MAX; self.customers.len()];
        for (id, order) in orders {
            let customer = self.name(order.customer);
            let delivered = self.deliveries.get(id);
            let follower = &mut earliest_follower[order.customer];
            if order.before || delivered.is_some() {
                verdict.committed += 1;
            }
            let overtaken = match (delivered, outbox.get(id)) {
                (Some(delivered), _) => {
                    verdict.delivered += 1;
                    let overtaken = *follower < delivered.position;
                    *follower = (*follower).min(delivered.position);
                    overtaken
                }
                (None, _) if !order.before => continue,
                (None, Some(place)) => {
                    match place {
                        InOutbox::Pending => verdict.pending += 1,
                        InOutbox::Held => verdict.held += 1,
                        InOutbox::Quarantined => verdict.quarantined += 1,
                    }
                    *follower < u64::MAX
                }
                (None, None) => {
                    verdict.lost += 1;
                    verdict.example("lost", id, customer);
                    false
                }
            };
            if overtaken {
                verdict.out_of_order += 1;
                verdict.example("overtaken", id, customer);
            }
        }
    }

    fn name(&self, customer: usize) -> &str {
        self.names.get(customer).map_or("", String::as_str)
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: i64, id: &str, customer: &str) -> Order {
        Order { number, id: id.into(), customer: customer.into(), item: "tea".into(), quantity: 1 }
    }

    fn delivery(order: &Order) -> Delivery {
        let body = String::from_utf8(order.body().unwrap()).unwrap();
        let line = serde_json::json!({
            "id": order.id, "source": SOURCE, "key": order.customer, "body": body,
        });
        serde_json::from_value(line).unwrap()
    }

    /// Judges orders 1 to 4, all of one customer, delivered as `delivered` says.
    fn judge(delivered: &[i64], outbox: &[(i64, InOutbox)]) -> Verdict {
        let mut witness = Witness::default();
        let orders: Vec<Order> = (1..=4).map(|n| order(n, &format!("o{n}"), "ada")).collect();
        for order in &orders {
            witness.committed(order, true);
        }
        for number in delivered {
            let found = orders.iter().find(|order| order.number == *number);
            let stranger = order(*number, &format!("o{number}"), "ada");
            witness.delivered(&delivery(found.unwrap_or(&stranger)));
        }
        let outbox = outbox.iter().map(|(number, place)| (format!("o{number}"), *place)).collect();
        witness.verdict(&outbox, &Ends::default())
    }

    #[test]
    fn all_delivered_in_order_is_ok_with_duplicates_told() {
        let verdict = judge(&[1, 2, 3, 2, 3, 4], &[]);
        assert!(verdict.is_ok(), "{verdict:?}");
        assert_eq!((verdict.delivered, verdict.duplicates), (4, 2));
    }

    #[test]
    fn what_stands_in_the_outbox_is_not_lost() {
        let verdict = judge(&[1, 2], &[(3, InOutbox::Pending), (4, InOutbox::Held)]);
        assert!(verdict.is_ok(), "{verdict:?}");
        assert_eq!((verdict.pending, verdict.held, verdict.lost), (1, 1, 0));
    }

    #[test]
    fn a_committed_order_that_is_nowhere_is_lost() {
        let verdict = judge(&[1, 2, 4], &[]);
        assert_eq!(verdict.lost, 1);
        assert_eq!(verdict.examples, ["lost: o3 of ada"]);
        assert!(!verdict.is_ok());
    }

    #[test]
    fn a_delivery_that_never_committed_is_unknown() {
        let verdict = judge(&[1, 2, 3, 4, 9], &[]);
        assert_eq!((verdict.unknown, verdict.lost), (1, 0));
        assert!(!verdict.is_ok());
    }

    #[test]
    fn an_order_that_was_overtaken_is_out_of_order_delivered_or_not() {
        assert_eq!(judge(&[1, 3, 2, 4], &[]).out_of_order, 1);
        assert_eq!(judge(&[1, 2, 4], &[(3, InOutbox::Pending)]).out_of_order, 1);
        // A repetition may come later than a follower's first delivery.
        assert_eq!(judge(&[1, 2, 3, 1, 4], &[]).out_of_order, 0);
    }

    #[test]
    fn other_bytes_or_another_key_are_altered() {
        for change in ["body", "key"] {
            let mut witness = Witness::default();
            let placed = order(1, "o1", "ada");
            witness.committed(&placed, true);
            let mut line = serde_json::json!({
                "id": "o1", "source": SOURCE, "key": "ada",
                "body": String::from_utf8(placed.body().unwrap()).unwrap(),
            });
            line[change] = "other".into();
            witness.delivered(&serde_json::from_value(line).unwrap());
            let verdict = witness.verdict(&HashMap::new(), &Ends::default());
            assert_eq!(verdict.altered, 1, "{change}");
        }
    }

    #[test]
    fn an_order_that_committed_after_the_snapshot_may_be_anywhere() {
        let mut witness = Witness::default();
        witness.committed(&order(1, "o1", "ada"), true);
        witness.delivered(&delivery(&order(1, "o1", "ada")));
        witness.delivered(&delivery(&order(2, "o2", "ada")));
        witness.committed(&order(2, "o2", "ada"), false);
        witness.committed(&order(3, "o3", "ada"), false);
        let verdict = witness.verdict(&HashMap::new(), &Ends::default());
        assert!(verdict.is_ok(), "{verdict:?}");
        assert_eq!((verdict.committed, verdict.delivered), (2, 2));
    }

    #[test]
    fn what_others_sent_is_not_judged() {
        let mut witness = Witness::default();
        let line = serde_json::json!({ "id": "x", "source": "else", "key": null, "body": "" });
        witness.delivered(&serde_json::from_value(line).unwrap());
        let verdict = witness.verdict(&HashMap::new(), &Ends::default());
        assert!(verdict.is_ok());
        assert_eq!(verdict.others, 1);
    }
}
