//! The names of a message, in one piece of memory: a relay has a hundred thousand messages a second
//! to make and to drop.

/// Id, source, topic and key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Names {
    /// One after the other.
    text: Box<str>,
    id_end: usize,
    source_end: usize,
    topic_end: usize,
    has_key: bool,
}

impl Names {
    pub(super) fn new(id: &str, source: &str, topic: &str, key: Option<&str>) -> Self {
        let parts = [id, source, topic, key.unwrap_or_default()];
        let id_end = id.len();
        let source_end = id_end + source.len();
        let topic_end = source_end + topic.len();
        let text = parts.concat().into_boxed_str();
        Self { text, id_end, source_end, topic_end, has_key: key.is_some() }
    }

    pub(super) fn id(&self) -> &str {
        &self.text[..self.id_end]
    }

    pub(super) fn source(&self) -> &str {
        &self.text[self.id_end..self.source_end]
    }

    pub(super) fn topic(&self) -> &str {
        &self.text[self.source_end..self.topic_end]
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.has_key.then(|| &self.text[self.topic_end..])
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn names_come_back_as_they_were_given() {
        for key in [None, Some(""), Some("Zo\u{eb}")] {
            let names = Names::new("1", "\u{1f980}shop", "t.\u{eb}", key);
            assert_eq!((names.id(), names.source()), ("1", "\u{1f980}shop"));
            assert_eq!((names.topic(), names.key()), ("t.\u{eb}", key));
            assert_eq!(names.size_bytes(), 1 + 8 + 4 + key.map_or(0, str::len));
        }
    }

    #[test]
    fn an_empty_key_is_another_than_none() {
        assert!(Names::new("1", "s", "t", Some("")) != Names::new("1", "s", "t", None));
        assert!(Names::new("1", "st", "t", None) != Names::new("1", "s", "tt", None));
    }
}
