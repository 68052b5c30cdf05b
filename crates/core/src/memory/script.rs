//! What a [`super::MemoryPublisher`] is told to do, and with which messages.

use std::time::Duration;

use crate::message::Message;
use crate::publisher::PublishError;

/// Which messages a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// Every message.
    Any,
    /// Those with this id.
    Id(String),
    /// Those with this key.
    Key(String),
    /// Those to this topic.
    Topic(String),
}

/// What the target does with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Takes and confirms it.
    Confirm,
    /// Does not take it, and answers with this failure.
    Refuse(PublishError),
    /// Takes it, but the caller gets this failure instead of the confirmation.
    TakeAndFail(PublishError),
    /// Takes and confirms it after this long.
    Delay(Duration),
    /// Answers nothing until [`super::MemoryPublisher::let_go`], then takes and confirms it. A caller who
    /// gives up before that leaves it untaken.
    Hang,
    /// Takes it at once, and answers nothing until [`super::MemoryPublisher::let_go`].
    TakeAndHang,
}

/// Rules, in the order in which they were given.
#[derive(Default)]
pub(super) struct Script {
    rules: Vec<Rule>,
    refused_before: Vec<(On, PublishError)>,
}

struct Rule {
    on: On,
    left: Option<u32>,
    act: Act,
}

impl On {
    fn fits(&self, message: &Message) -> bool {
        match self {
            Self::Any => true,
            Self::Id(id) => message.id() == id,
            Self::Key(key) => message.key() == Some(key),
            Self::Topic(topic) => message.topic() == topic,
        }
    }
}

impl Script {
    pub(super) fn add(&mut self, on: On, left: Option<u32>, act: Act) {
        self.rules.push(Rule { on, left, act });
    }

    pub(super) fn refuse_before(&mut self, on: On, error: PublishError) {
        self.refused_before.push((on, error));
    }

    /// Why a message is refused before any publish.
    pub(super) fn refusal(&self, message: &Message) -> Option<&PublishError> {
        self.refused_before.iter().find(|(on, _)| on.fits(message)).map(|(_, error)| error)
    }

    /// The first rule that fits and is not used up decides.
    pub(super) fn act_for(&mut self, message: &Message) -> Act {
        for rule in &mut self.rules {
            if rule.left == Some(0) || !rule.on.fits(message) {
                continue;
            }
            if let Some(left) = &mut rule.left {
                *left -= 1;
            }
            return rule.act.clone();
        }
        Act::Confirm
    }
}
