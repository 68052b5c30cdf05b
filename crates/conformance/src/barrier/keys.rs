//! A source of keys that needs no place: its prefix says what is under it.

use async_trait::async_trait;
use sendoff_core::barrier::{Ack, KeyPages, KeySource, MemberName, Outcome};
use sendoff_core::{Error, ErrorKind, Result};

/// The source that the suite expects a store to be opened with.
///
/// Under `keys:a b! c` there are `a`, `b`, which failed, and `c`, two in a page. Under `broken:a` there
/// is `a`, and then an error.
#[derive(Debug, Clone, Copy)]
pub struct WrittenKeys;

struct Pages {
    left: Vec<Ack>,
    breaks: bool,
}

#[async_trait]
impl KeySource for WrittenKeys {
    async fn keys(&self, prefix: &str) -> Result<Box<dyn KeyPages>> {
        let (kind, names) = prefix.split_once(':').unwrap_or(("", prefix));
        if !matches!(kind, "keys" | "broken") {
            return Err(Error::invalid("listing keys", format!("{kind:?} is no kind of keys")));
        }
        let mut left = Vec::new();
        for name in names.split(' ') {
            let (name, outcome) = match name.strip_suffix('!') {
                Some(name) => (name, Outcome::failed().with_error("it failed")),
                None => (name, Outcome::ok()),
            };
            left.push(Ack { member: MemberName::new(name)?, outcome });
        }
        Ok(Box::new(Pages { left, breaks: kind == "broken" }))
    }
}

#[async_trait]
impl KeyPages for Pages {
    async fn next(&mut self) -> Result<Vec<Ack>> {
        if self.left.is_empty() && self.breaks {
            return Err(Error::new(ErrorKind::Unreachable, "listing keys"));
        }
        Ok(self.left.drain(..self.left.len().min(2)).collect())
    }
}
