//! Keys: acknowledgements that were left somewhere as objects, found by their prefix.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::answer::{Ack, AckedBatch};
use super::name::BarrierId;
use super::refusal::{Refusal, RefusalCode};
use super::{Answer, MEMBERS_MAX};
use crate::error::{Error, ErrorKind, Result};

/// For how long keys are listed where somebody asks for it.
const ON_DEMAND: Duration = Duration::from_secs(300);
/// For how long at a deadline: well under the relay's publish timeout.
const AT_A_DEADLINE: Duration = Duration::from_secs(2);

const PROBING: &str = "listing the keys of a barrier's probe";

/// Where [`super::Probe::Keys`] looks: a folder, a bucket. A store is given one; without it the probe
/// is passed over at a deadline, and refused on demand.
///
/// ```
/// use async_trait::async_trait;
/// use sendoff_core::Result;
/// use sendoff_core::barrier::{Ack, KeyPages, KeySource, MemberName, Outcome};
///
/// /// One object, whatever is asked for.
/// #[derive(Debug)]
/// struct One(bool);
///
/// #[async_trait]
/// impl KeySource for One {
///     async fn keys(&self, _prefix: &str) -> Result<Box<dyn KeyPages>> {
///         Ok(Box::new(One(true)))
///     }
/// }
///
/// #[async_trait]
/// impl KeyPages for One {
///     async fn next(&mut self) -> Result<Vec<Ack>> {
///         let is_there = std::mem::take(&mut self.0);
///         let found = is_there.then(|| MemberName::new("a.xml")).transpose()?;
///         Ok(found.map(|member| Ack { member, outcome: Outcome::ok() }).into_iter().collect())
///     }
/// }
/// # use std::sync::Arc;
/// # use sendoff_core::barrier::{BarrierDesk, Barriers, Probe};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let store = sendoff_core::memory::MemoryStore::new().with_key_source(Arc::new(One(true)));
/// let plan = Barriers::new().plan("batch-7")?.members(["a.xml", "b.xml"]);
/// let plan = plan.probe(Probe::Keys("one:".to_owned())).build()?;
/// store.create_barrier(&plan).await??;
/// assert_eq!(store.reconcile_barrier(plan.id()).await??.resolved(), 1);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait KeySource: fmt::Debug + Send + Sync + 'static {
    /// Begins to list what is under a prefix. What follows the prefix in a key is a member's name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the source knows no such prefix, and its own.
    async fn keys(&self, prefix: &str) -> Result<Box<dyn KeyPages>>;
}

/// What is under a prefix, a page at a time, in any order.
#[async_trait]
pub trait KeyPages: Send {
    /// The next page, at most about 1,000 keys with their outcomes; an empty one is the end. A key
    /// whose rest cannot be a name is left out.
    ///
    /// # Errors
    /// Those of the source.
    async fn next(&mut self) -> Result<Vec<Ack>>;
}

/// A run of a key probe, for the stores: bounded in time and in keys, so that a source that hangs or
/// has no end keeps nobody.
pub struct KeyProbe {
    pages: Box<dyn KeyPages>,
    within: Duration,
    until: Instant,
    found: usize,
}

impl fmt::Debug for KeyProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyProbe").field("found", &self.found).finish_non_exhaustive()
    }
}

impl KeyProbe {
    /// Runs it: `take` acknowledges a page of what was found in a transaction of its own, first an
    /// empty one, which says whether the barrier takes any. With `at_deadline` it comes before a
    /// deadline closes the barrier and has less time than where somebody asked for it.
    ///
    /// # Errors
    /// The source's own, those of `take`, [`ErrorKind::Timeout`], and [`ErrorKind::TooLarge`] past as
    /// many keys as a barrier may have members; what was found before is acknowledged all the same.
    /// Without a source, and where `take` refuses, it is a refusal.
    pub async fn run<T>(
        source: Option<&Arc<dyn KeySource>>,
        id: &BarrierId,
        prefix: &str,
        at_deadline: bool,
        mut take: impl FnMut(Vec<Ack>) -> T + Send,
    ) -> Result<Answer<AckedBatch>>
    where
        T: Future<Output = Result<Answer<AckedBatch>>> + Send,
    {
        let mut probe = match Self::begin(source, id, prefix, at_deadline).await? {
            Ok(probe) => probe,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut whole = match take(Vec::new()).await? {
            Ok(whole) => whole,
            Err(refusal) => return Ok(Err(refusal)),
        };
        while let Some(acks) = probe.next().await? {
            match take(acks).await? {
                Ok(acked) => whole.join(acked),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(whole))
    }

    async fn begin(
        source: Option<&Arc<dyn KeySource>>,
        id: &BarrierId,
        prefix: &str,
        at_deadline: bool,
    ) -> Result<Answer<Self>> {
        let Some(source) = source else {
            return Ok(Err(Refusal::new(
                RefusalCode::Invalid,
                format!(
                    "the probe of the barrier {id} is a prefix of keys, and this store was opened \
                     without a source that lists keys; acknowledge what you find yourself"
                ),
            )));
        };
        let within = if at_deadline { AT_A_DEADLINE } else { ON_DEMAND };
        let until = Instant::now() + within;
        let pages = bounded(until, within, source.keys(prefix)).await?;
        Ok(Ok(Self { pages, within, until, found: 0 }))
    }

    /// The next page; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Ack>>> {
        let page = bounded(self.until, self.within, self.pages.next()).await?;
        self.found += page.len();
        if self.found > MEMBERS_MAX {
            let detail = format!("there are more than {MEMBERS_MAX} keys under the prefix");
            return Err(Error::new(ErrorKind::TooLarge, PROBING)
                .detail(detail)
                .advice("give each barrier a prefix of its own"));
        }
        Ok((!page.is_empty()).then_some(page))
    }
}

async fn bounded<T>(
    until: Instant,
    within: Duration,
    asked: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout_at(until, asked).await.map_err(|_| {
        Error::new(ErrorKind::Timeout, PROBING)
            .detail(format!("it did not end within {within:?}"))
            .advice("reconcile again; take keys away that were acknowledged long ago")
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::barrier::{
        BarrierDesk, BarrierState, Errand, ErrandAct, MemberName, OnDeadline, Outcome, Plan, Probe,
    };
    use crate::memory::MemoryStore;
    use crate::time::Clock;

    /// Hangs, or goes on for ever.
    #[derive(Debug, Clone)]
    struct Endless {
        hangs: bool,
    }

    #[async_trait]
    impl KeySource for Endless {
        async fn keys(&self, _prefix: &str) -> Result<Box<dyn KeyPages>> {
            Ok(Box::new(self.clone()))
        }
    }

    #[async_trait]
    impl KeyPages for Endless {
        async fn next(&mut self) -> Result<Vec<Ack>> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let ack = Ack { member: MemberName::new("a")?, outcome: Outcome::ok() };
            Ok(vec![ack; 1_000])
        }
    }

    async fn ended(hangs: bool, at_deadline: bool) -> (ErrorKind, usize) {
        let source: Arc<dyn KeySource> = Arc::new(Endless { hangs });
        let id = BarrierId::new("b").unwrap();
        let probe = KeyProbe::begin(Some(&source), &id, "p", at_deadline).await.unwrap();
        let mut probe = probe.unwrap();
        loop {
            match probe.next().await {
                Ok(page) => assert!(page.is_some()),
                Err(error) => return (error.kind(), probe.found),
            }
        }
    }

    #[tokio::test]
    async fn without_a_source_it_is_told_and_the_deadline_comes_all_the_same() {
        let clock = Clock::manual();
        let store = MemoryStore::with_clock(clock.clone());
        let plan = Plan::builder(BarrierId::new("b").unwrap()).members(["a"]);
        let plan = plan.deadline(ON_DEMAND).on_deadline(OnDeadline::Continue);
        let plan = plan.probe(Probe::Keys("folder:a/".to_owned())).build().unwrap();
        store.create_barrier(&plan).await.unwrap().unwrap();
        let refusal = store.reconcile_barrier(plan.id()).await.unwrap().unwrap_err();
        assert!(refusal.detail().contains("without a source that lists keys"), "{refusal}");
        clock.advance(ON_DEMAND + AT_A_DEADLINE);
        let status = store.barrier_status(plan.id()).await.unwrap().unwrap();
        let errand = Errand {
            tenant: String::new(),
            barrier: "b".to_owned(),
            incarnation: status.incarnation,
            epoch: 1,
            act: ErrandAct::Deadline,
        };
        assert!(store.run_errand(&errand).await.unwrap());
        let status = store.barrier_status(plan.id()).await.unwrap().unwrap();
        assert_eq!((status.state, status.missing), (BarrierState::Deadline, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_hangs_keeps_nobody() {
        for (at_deadline, within) in [(true, AT_A_DEADLINE), (false, ON_DEMAND)] {
            let begun = Instant::now();
            assert_eq!(ended(true, at_deadline).await.0, ErrorKind::Timeout);
            assert!(begun.elapsed() < within + Duration::from_secs(1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_without_an_end_is_left() {
        assert_eq!(ended(false, true).await, (ErrorKind::TooLarge, MEMBERS_MAX + 1_000));
    }
}
