//! When a barrier is complete, and how many members have to be watched so that nobody misses it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::name::check;
use crate::error::{Error, Result};

const CHECKING: &str = "checking a barrier's policy";

/// When a barrier is complete. Every member belongs to a group, mostly to the one without a name;
/// the barrier is complete when every group has what it wants.
///
/// ```
/// use sendoff_core::barrier::{BarrierId, Counting, Plan, Policy, Quota, Wanted};
/// let quota = |wanted, counting| Quota { wanted, counting };
/// let plan = Plan::builder(BarrierId::new("offers")?)
///     .group("required", ["bank"])
///     .group("offers", ["a", "b", "c"])
///     .policy(Policy::groups([
///         ("required", quota(Wanted::All, Counting::Resolved)),
///         ("offers", quota(Wanted::AtLeast(2), Counting::Successful)),
///     ]))
///     .build()?;
/// assert!(!plan.policy().is_all());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    groups: BTreeMap<String, Quota>,
    #[serde(default)]
    first_failure_ends: bool,
}

/// What a group has to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// How many.
    pub wanted: Wanted,
    /// Of which.
    #[serde(default)]
    pub counting: Counting,
}

/// How many members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Every one.
    All,
    /// At least so many; 1 or more.
    AtLeast(u64),
}

/// Which members count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Those that are resolved, well or not.
    #[default]
    Resolved,
    /// Those that are resolved and went well. Once that cannot be reached any more, the barrier
    /// completes when nothing is pending, with the reason `unmet`.
    Successful,
}

impl Default for Policy {
    fn default() -> Self {
        Self::all()
    }
}

impl Policy {
    /// Every member is resolved: the default.
    #[must_use]
    pub fn all() -> Self {
        Self::of(Quota { wanted: Wanted::All, counting: Counting::Resolved })
    }

    /// At least `n` members.
    #[must_use]
    pub fn at_least(n: u64, counting: Counting) -> Self {
        Self::of(Quota { wanted: Wanted::AtLeast(n), counting })
    }

    /// Each named group has its quota, and every member has to belong to one of them.
    #[must_use]
    pub fn groups<N: Into<String>>(quotas: impl IntoIterator<Item = (N, Quota)>) -> Self {
        let groups = quotas.into_iter().map(|(name, quota)| (name.into(), quota)).collect();
        Self { groups, first_failure_ends: false }
    }

    fn of(quota: Quota) -> Self {
        Self::groups([("", quota)])
    }

    /// The same, and the first failed member ends it.
    #[must_use]
    pub fn or_first_failure(mut self) -> Self {
        self.first_failure_ends = true;
        self
    }

    /// Whether the first failed member ends it.
    #[must_use]
    pub fn first_failure_ends(&self) -> bool {
        self.first_failure_ends
    }

    /// Whether it is plainly "every member is resolved".
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.groups
            .values()
            .all(|quota| quota.wanted == Wanted::All && quota.counting == Counting::Resolved)
    }

    /// The groups with their quotas, by name.
    pub fn quotas(&self) -> impl Iterator<Item = (&str, Quota)> {
        self.groups.iter().map(|(name, quota)| (name.as_str(), *quota))
    }

    /// A group's quota, where the policy has the group.
    #[must_use]
    pub fn quota(&self, group: &str) -> Option<Quota> {
        self.groups.get(group).copied()
    }

    /// Checks it against how many members each group has.
    pub(super) fn check_against(&self, members: &BTreeMap<&str, u64>, sealed: bool) -> Result<()> {
        if self.groups.is_empty() {
            return Err(Error::invalid(CHECKING, "it names no group"));
        }
        for (group, quota) in self.quotas() {
            check("group", group)?;
            let there = members.get(group).copied().unwrap_or(0);
            match quota.wanted {
                Wanted::AtLeast(0) => {
                    return Err(Error::invalid(CHECKING, "at least 0 members is no policy"));
                }
                // An empty list completes at once, whatever it wants.
                Wanted::AtLeast(n) if sealed && n > there && there > 0 => {
                    return Err(Error::invalid(
                        CHECKING,
                        format!("{} wants {n} members and has {there}", shown(group)),
                    ));
                }
                _ => {}
            }
        }
        match members.keys().find(|group| !self.groups.contains_key(**group)) {
            None => Ok(()),
            Some(group) => Err(Error::invalid(
                CHECKING,
                format!("members are in {}, for which it says nothing", shown(group)),
            )),
        }
    }
}

fn shown(group: &str) -> String {
    if group.is_empty() { "the group without a name".to_owned() } else { format!("group {group}") }
}

/// How a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Members that are not resolved.
    pub pending: u64,
    /// Members that went well.
    pub ok: u64,
    /// Members that failed, or that a close gave up as missing.
    pub failed: u64,
}

impl Quota {
    /// Whether the group has what it wants.
    #[must_use]
    pub fn met(self, tally: Tally) -> bool {
        self.lacking(tally) == 0
    }

    /// How many more members have to count.
    fn lacking(self, tally: Tally) -> u64 {
        let members = tally.pending + tally.ok + tally.failed;
        let counted = match self.counting {
            Counting::Resolved => tally.ok + tally.failed,
            Counting::Successful => tally.ok,
        };
        let wanted = match self.wanted {
            Wanted::All => members,
            Wanted::AtLeast(n) => n,
        };
        wanted.saturating_sub(counted)
    }

    /// How many pending members of the group have to be watched, so that an acknowledgement of one
    /// that is not can never be the one that completes the group: with `p` pending and `k` more
    /// wanted, `p - k + 1`. For "all" that is one, the baton.
    ///
    /// Proof: while one that is not watched is pending there are `p - k + 2` or more pending, so after
    /// its acknowledgement at most `k - 1` more are counted.
    #[must_use]
    pub fn watched(self, tally: Tally) -> u64 {
        if tally.pending == 0 {
            return 0;
        }
        let lacking = self.lacking(tally).clamp(1, tally.pending);
        tally.pending - lacking + 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Counting, Policy, Quota, Tally, Wanted};

    fn tally(pending: u64, ok: u64, failed: u64) -> Tally {
        Tally { pending, ok, failed }
    }

    #[test]
    fn all_watches_one_member_until_nothing_is_pending() {
        let quota = Quota { wanted: Wanted::All, counting: Counting::Resolved };
        assert_eq!(quota.watched(tally(100, 0, 0)), 1);
        assert_eq!(quota.watched(tally(1, 50, 49)), 1);
        assert_eq!(quota.watched(tally(0, 50, 50)), 0);
        assert!(!quota.met(tally(1, 99, 0)));
        assert!(quota.met(tally(0, 50, 50)));
    }

    #[test]
    fn a_quorum_watches_so_many_that_the_others_cannot_reach_it() {
        for members in 1..12_u64 {
            for wanted in 1..=members {
                let quota = Quota { wanted: Wanted::AtLeast(wanted), counting: Counting::Resolved };
                let others = members - quota.watched(tally(members, 0, 0));
                assert!(!quota.met(tally(members - others, others, 0)) || others == 0);
                assert!(quota.met(tally(members - others - 1, others + 1, 0)));
            }
        }
    }

    #[test]
    fn what_counts_successes_is_not_met_by_failures() {
        let quota = Quota { wanted: Wanted::AtLeast(2), counting: Counting::Successful };
        assert!(!quota.met(tally(0, 1, 9)));
        assert!(quota.met(tally(1, 2, 7)));
        assert_eq!(quota.watched(tally(3, 1, 6)), 3);
        assert_eq!(quota.watched(tally(3, 0, 7)), 2);
        assert_eq!(quota.watched(tally(1, 0, 9)), 1, "the last one finds that it cannot be met");
    }

    #[test]
    fn a_policy_is_checked_against_the_members() {
        let members = BTreeMap::from([("", 3)]);
        assert!(Policy::all().check_against(&members, true).is_ok());
        let at_least = |n| Policy::at_least(n, Counting::Resolved).check_against(&members, true);
        assert!(at_least(3).is_ok());
        assert!(at_least(4).unwrap_err().to_string().contains("wants 4 members and has 3"));
        assert!(at_least(0).is_err());
        assert!(Policy::at_least(4, Counting::Resolved).check_against(&members, false).is_ok());
        let other = BTreeMap::from([("x", 1)]);
        assert!(Policy::all().check_against(&other, true).is_err());
    }
}
