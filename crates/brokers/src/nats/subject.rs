//! From a topic to a subject and back. The rule stands in [`crate::nats`]; no two topics give the
//! same subject under one prefix.

use async_nats::Subject;

use crate::percent;

/// The subject of `topic` under `prefix` (without a dot at its end; empty for none).
///
/// ```
/// use sendoff_brokers::nats::subject_of;
/// assert_eq!(subject_of("ORDERS", "orders.placed"), "ORDERS.orders.placed");
/// assert_eq!(subject_of("ORDERS", "50% off *"), "ORDERS.50%25%20off%20%2A");
/// assert_eq!(subject_of("ORDERS", ".a..b."), "ORDERS.%2Ea.%2Eb%2E");
/// ```
#[must_use]
pub fn subject_of(prefix: &str, topic: &str) -> String {
    let mut subject = String::with_capacity(prefix.len() + 1 + topic.len());
    if !prefix.is_empty() {
        subject.push_str(prefix);
        subject.push('.');
    }
    let mut token_is_empty = true;
    let mut rest = topic.chars();
    while let Some(character) = rest.next() {
        let plain = match character {
            '.' => !token_is_empty && !rest.as_str().is_empty(),
            '_' => !subject.is_empty(),
            other => !needs_encoding(other),
        };
        if plain {
            subject.push(character);
        } else {
            percent::push(&mut subject, character);
        }
        token_is_empty = plain && character == '.';
    }
    subject
}

/// The topic whose subject this is; `None` where it is not one under `prefix`.
///
/// ```
/// use sendoff_brokers::nats::topic_of;
/// assert_eq!(topic_of("ORDERS", "ORDERS.a%20b").as_deref(), Some("a b"));
/// assert_eq!(topic_of("ORDERS", "OTHER.a"), None);
/// ```
#[must_use]
pub fn topic_of(prefix: &str, subject: &str) -> Option<String> {
    let encoded = if prefix.is_empty() {
        subject
    } else {
        subject.strip_prefix(prefix)?.strip_prefix('.')?
    };
    let topic = percent::decode(encoded)?.into_owned();
    (subject_of(prefix, &topic) == subject).then_some(topic)
}

fn needs_encoding(character: char) -> bool {
    matches!(character, '%' | '*' | '>' | '$')
        || character.is_whitespace()
        || character.is_control()
}

/// Whether two subject filters, with their wildcards, have a subject in common.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (Some(">"), Some(_)) | (Some(_), Some(">")) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

/// The subject of the topic that was published to last: most messages go where the one before went.
#[derive(Default)]
pub(super) struct Subjects {
    topic: String,
    subject: Option<Subject>,
}

impl Subjects {
    pub(super) fn of(&mut self, prefix: &str, topic: &str) -> Subject {
        match &self.subject {
            Some(subject) if self.topic == topic => subject.clone(),
            _ => {
                topic.clone_into(&mut self.topic);
                let subject = Subject::from(subject_of(prefix, topic));
                self.subject.insert(subject).clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{overlap, subject_of, topic_of};

    /// Text of the characters that matter to the rule, so that near collisions come up often.
    fn tricky() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            Just('.'),
            Just('%'),
            Just('2'),
            Just('E'),
            Just('*'),
            Just('>'),
            Just('$'),
            Just('_'),
            Just(' '),
            Just('a'),
            Just('\u{3000}'),
            any::<char>(),
        ];
        proptest::collection::vec(character, 1..12).prop_map(|c| c.into_iter().collect())
    }

    fn prefix() -> impl Strategy<Value = &'static str> {
        prop_oneof![Just(""), Just("ORDERS"), Just("a.b")]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn every_topic_comes_back_from_its_subject(prefix in prefix(), topic in tricky()) {
            let subject = subject_of(prefix, &topic);
            prop_assert_eq!(topic_of(prefix, &subject), Some(topic));
        }

        #[test]
        fn no_two_topics_share_a_subject(prefix in prefix(), one in tricky(), other in tricky()) {
            prop_assert_eq!(
                subject_of(prefix, &one) == subject_of(prefix, &other),
                one == other
            );
        }

        #[test]
        fn every_subject_is_one_that_nats_takes(prefix in prefix(), topic in tricky()) {
            let subject = subject_of(prefix, &topic);
            prop_assert!(subject.split('.').all(|token| !token.is_empty()), "{}", subject);
            prop_assert!(!subject.contains(['*', '>', '$']), "{}", subject);
            prop_assert!(!subject.contains(|c: char| c.is_whitespace() || c.is_control()));
            prop_assert!(!subject.starts_with('_'), "it could name an inbox: {}", subject);
        }
    }

    #[test]
    fn filters_overlap_as_nats_matches_them() {
        for (one, other, expected) in [
            ("ORDERS.>", "ORDERS.>", true),
            ("ORDERS.>", "ORDERS.a.b", true),
            ("ORDERS.*", "ORDERS.a.b", false),
            ("ORDERS.*.b", "ORDERS.a.>", true),
            ("orders.>", "ORDERS.>", false),
            ("ORDERS", "ORDERS.>", false),
            (">", "ORDERS.a", true),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }
}
