//! What a barrier is created with.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::json::Json;
use super::name::{BarrierId, MemberName, check, digest};
use super::policy::Policy;
use super::refusal::{Refusal, RefusalCode};
use super::{Answer, LAST_ACK_BEFORE, LIVES, MEMBERS_MAX, STATE_BYTES_MAX};
use crate::message::Message;

/// The most bytes of a probe.
const PROBE_BYTES_MAX: usize = 16_384;

/// A barrier to be created. One that exists is valid: it can only be made by [`PlanBuilder::build`].
///
/// ```
/// use sendoff_core::barrier::{BarrierId, Plan};
/// let plan = Plan::builder(BarrierId::new("batch-7")?)
///     .members(["a.xml", "b.xml"])
///     .continue_with("batches.done")
///     .build()?;
/// assert_eq!(plan.members().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    id: BarrierId,
    members: Vec<Member>,
    continue_with: Option<String>,
    state: Option<Json>,
    deadline: Option<Duration>,
    on_deadline: OnDeadline,
    policy: Policy,
    sealed: bool,
    parent: Option<Parent>,
    probe: Option<Probe>,
    strict: bool,
}

/// A member to be: its name and its group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// What the acknowledgements will name.
    pub name: MemberName,
    /// The group, mostly the one without a name.
    pub group: String,
}

/// What happens at the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// The status says `overdue`; nothing else.
    #[default]
    Mark,
    /// What is pending is given up as missing, and the continuation comes with the reason
    /// `deadline`.
    Continue,
}

/// A barrier as a member of another: when it ends, it acknowledges itself there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The other barrier's id, of the same tenant.
    pub id: String,
    /// The member's name there.
    pub member: MemberName,
}

/// Where lost acknowledgements can be found: asked before a deadline fires, and on demand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A query that gives rows of (member, ok, error, result), of which only the first is needed.
    /// It is run read-only with the rights of whoever runs it: the relay, or the one who asks.
    Sql(String),
    /// A prefix of objects, listed by a [`super::KeySource`]: what follows it is a member's name.
    Keys(String),
}

impl Plan {
    /// Begins a plan.
    pub fn builder(id: BarrierId) -> PlanBuilder {
        PlanBuilder {
            plan: Self {
                id,
                members: Vec::new(),
                continue_with: None,
                state: None,
                deadline: None,
                on_deadline: OnDeadline::Mark,
                policy: Policy::all(),
                sealed: true,
                parent: None,
                probe: None,
                strict: false,
            },
            given: None,
        }
    }

    /// Which barrier.
    #[must_use]
    pub fn id(&self) -> &BarrierId {
        &self.id
    }

    /// Its members, as they were given.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The topic of the continuation; without one the barrier is a plain work list.
    #[must_use]
    pub fn continue_with(&self) -> Option<&str> {
        self.continue_with.as_deref()
    }

    /// What is handed to the continuation.
    #[must_use]
    pub fn state(&self) -> Option<&Json> {
        self.state.as_ref()
    }

    /// The time from the creation to the deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// What happens then.
    #[must_use]
    pub fn on_deadline(&self) -> OnDeadline {
        self.on_deadline
    }

    /// When it is complete.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether the list is complete. One that is not can grow, and completes only once it is sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// The barrier of which this one is a member.
    #[must_use]
    pub fn parent(&self) -> Option<&Parent> {
        self.parent.as_ref()
    }

    /// Where lost acknowledgements can be found.
    #[must_use]
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// Tells member lists apart, whatever their order. A store keeps it, to answer `differs`.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(self.members.iter().map(|m| &m.name))
    }

    /// Whether other members under an id that is there already are refused.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.strict
    }
}

/// Builds a [`Plan`]. Nothing is checked before [`PlanBuilder::build`].
#[derive(Debug, Clone)]
#[must_use = "a plan is built by `build` and created by `Barriers::create`"]
pub struct PlanBuilder {
    plan: Plan,
    /// `None`: no list was given, which is not the same as an empty one.
    given: Option<Vec<(Vec<u8>, String)>>,
}

impl PlanBuilder {
    /// Adds members to the list. An empty list completes at once; no list at all is an error.
    pub fn members<N: AsRef<[u8]>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.group("", names)
    }

    /// Adds members of a group.
    pub fn group<N: AsRef<[u8]>>(
        mut self,
        group: impl Into<String>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let group = group.into();
        let given = self.given.get_or_insert_default();
        given.extend(names.into_iter().map(|name| (name.as_ref().to_vec(), group.clone())));
        self
    }

    /// The topic of the continuation.
    pub fn continue_with(mut self, topic: impl Into<String>) -> Self {
        self.plan.continue_with = Some(topic.into());
        self
    }

    /// What is handed to the continuation.
    pub fn state(mut self, state: Json) -> Self {
        self.plan.state = Some(state);
        self
    }

    /// The time from the creation to the deadline. Alone it only feeds the status's `overdue`.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.plan.deadline = Some(deadline);
        self
    }

    /// What happens at the deadline.
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.plan.on_deadline = on_deadline;
        self
    }

    /// When it is complete; every member is resolved unless set otherwise.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.plan.policy = policy;
        self
    }

    /// The list is not complete yet: it grows, and nothing completes before it is sealed.
    pub fn unsealed(mut self) -> Self {
        self.plan.sealed = false;
        self
    }

    /// Makes it a member of another barrier.
    pub fn member_of(mut self, id: impl Into<String>, member: MemberName) -> Self {
        self.plan.parent = Some(Parent { id: id.into(), member });
        self
    }

    /// Where lost acknowledgements can be found.
    pub fn probe(mut self, probe: Probe) -> Self {
        self.plan.probe = Some(probe);
        self
    }

    /// Refuses other members under an id that is there already.
    pub fn strict(mut self) -> Self {
        self.plan.strict = true;
        self
    }

    /// Checks and gives the plan.
    ///
    /// # Errors
    /// A [`Refusal`]: `duplicate_name` names the name, `too_large` and `invalid` say what and where.
    pub fn build(self) -> Answer<Plan> {
        let Self { mut plan, given } = self;
        let given = given.ok_or_else(|| {
            invalid("no members were given; give an empty list to complete at once")
        })?;
        plan.members = members(given)?;
        plan.check()?;
        Ok(plan)
    }
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Invalid, detail)
}

/// Checks a list of names with their groups.
pub(super) fn members(given: Vec<(Vec<u8>, String)>) -> Answer<Vec<Member>> {
    if given.len() > MEMBERS_MAX {
        return Err(Refusal::new(
            RefusalCode::TooLarge,
            format!("{} members are over the limit of {MEMBERS_MAX} a barrier", given.len()),
        ));
    }
    let mut members = Vec::with_capacity(given.len());
    let mut seen = HashSet::with_capacity(given.len());
    for (index, (name, group)) in given.into_iter().enumerate() {
        let name = MemberName::new(&name)
            .map_err(|error| invalid(format!("member {}: {error}", index + 1)))?;
        if !seen.insert(name.clone()) {
            return Err(Refusal::new(
                RefusalCode::DuplicateName,
                format!("the name {name:?} stands twice in the list of members"),
            ));
        }
        members.push(Member { name, group });
    }
    Ok(members)
}

impl Plan {
    fn check(&self) -> Answer<()> {
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for member in &self.members {
            check("group", &member.group).map_err(|error| invalid(error.to_string()))?;
            *groups.entry(&member.group).or_default() += 1;
        }
        self.policy
            .check_against(&groups, self.sealed)
            .map_err(|error| invalid(error.to_string()))?;
        if let Some(topic) = &self.continue_with {
            Message::builder("barrier", topic.as_str())
                .build()
                .map_err(|error| invalid(format!("continue_with: {error}")))?;
        }
        if let Some(state) = &self.state
            && state.as_str().len() > STATE_BYTES_MAX
        {
            return Err(Refusal::new(
                RefusalCode::TooLarge,
                format!(
                    "the state has {} bytes, the limit is {STATE_BYTES_MAX}",
                    state.as_str().len()
                ),
            ));
        }
        self.check_deadline()?;
        if let Some(parent) = &self.parent {
            BarrierId::of_tenant(self.id.tenant(), parent.id.as_str())
                .map_err(|error| invalid(format!("the parent: {error}")))?;
            if parent.id == self.id.id() {
                return Err(invalid("a barrier cannot be a member of itself"));
            }
        }
        if let Some(Probe::Sql(text) | Probe::Keys(text)) = &self.probe
            && (text.is_empty() || text.len() > PROBE_BYTES_MAX || text.contains('\0'))
        {
            return Err(invalid("the probe is empty, has a NUL, or is too long"));
        }
        Ok(())
    }

    fn check_deadline(&self) -> Answer<()> {
        let last = LIVES.saturating_sub(LAST_ACK_BEFORE);
        match self.deadline {
            None if self.on_deadline == OnDeadline::Continue => {
                Err(invalid("on_deadline is given without a deadline"))
            }
            Some(deadline) if deadline.is_zero() => Err(invalid("the deadline is 0 seconds away")),
            Some(deadline) if deadline > last => Err(invalid(format!(
                "the deadline is {} s away; acknowledgements are taken for {} s, so it may be that at \
                 most",
                deadline.as_secs(),
                last.as_secs()
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BarrierId, OnDeadline, Plan, PlanBuilder, RefusalCode};
    use crate::barrier::LIVES;

    fn plan() -> PlanBuilder {
        Plan::builder(BarrierId::new("b").unwrap())
    }

    #[test]
    fn no_list_is_an_error_and_an_empty_one_is_none() {
        assert_eq!(plan().build().unwrap_err().code(), RefusalCode::Invalid);
        assert!(plan().members(Vec::<&str>::new()).build().unwrap().members().is_empty());
    }

    #[test]
    fn a_name_that_stands_twice_is_named() {
        let refusal = plan().members(["a", "b", "a"]).build().unwrap_err();
        assert_eq!(refusal.code(), RefusalCode::DuplicateName);
        assert!(refusal.to_string().contains("\"a\""), "{refusal}");
    }

    #[test]
    fn a_deadline_lies_before_the_last_acknowledgement() {
        let deadline = |by| plan().members(["a"]).deadline(by).build();
        assert!(deadline(Duration::from_secs(60)).is_ok());
        assert!(deadline(LIVES).is_err());
        assert!(deadline(Duration::ZERO).is_err());
        assert!(plan().members(["a"]).on_deadline(OnDeadline::Continue).build().is_err());
    }

    #[test]
    fn a_topic_is_checked_before_anything_is_written() {
        assert!(plan().members(["a"]).continue_with("").build().is_err());
    }
}
