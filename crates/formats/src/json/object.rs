//! Objects: keys with values, in their order.

use indexmap::IndexMap;

use super::Json;

/// Keys with values, in the order in which they were written. A key stands once; of two the later value
/// counts, at the earlier place.
///
/// Two objects are equal where they have the same keys with the same values, in whatever order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Box<IndexMap<String, Json>>);

impl Object {
    /// No keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.get(key)
    }

    /// The value of a key, to be changed.
    #[must_use]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        self.0.get_mut(key)
    }

    /// Sets a value: at its place where the key is there already, else at the end.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        self.0.insert(key.into(), value.into())
    }

    /// Takes a key out; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        self.0.shift_remove(key)
    }

    /// Moves a key to a place, from 0; answers whether it is there.
    pub(crate) fn place(&mut self, key: &str, place: usize) -> bool {
        let Some(from) = self.0.get_index_of(key) else { return false };
        if from != place {
            self.0.move_index(from, place);
        }
        true
    }

    /// Keys and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<String>, V: Into<Json>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value.into()));
        Self(Box::new(pairs.collect()))
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = indexmap::map::IntoIter<String, Json>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
