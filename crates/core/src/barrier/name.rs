//! Names: of barriers and of their members.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};

const NAMING: &str = "checking a barrier's name";
const NAMING_MEMBER: &str = "checking a member's name";

/// Which barrier: a tenant, mostly the empty one, and an id that is unique within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BarrierId {
    tenant: String,
    id: String,
}

impl BarrierId {
    /// A barrier without a tenant.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the id is empty or has a control character,
    /// [`ErrorKind::TooLarge`] over 255 bytes.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        Self::of_tenant("", id)
    }

    /// A tenant's barrier. Two tenants may use the same id.
    ///
    /// # Errors
    /// As [`BarrierId::new`], for either name; the tenant may be empty.
    pub fn of_tenant(tenant: impl Into<String>, id: impl Into<String>) -> Result<Self> {
        let (tenant, id) = (tenant.into(), id.into());
        check("tenant", &tenant)?;
        if id.is_empty() {
            return Err(Error::invalid(NAMING, "the id is empty"));
        }
        check("id", &id)?;
        Ok(Self { tenant, id })
    }

    /// The tenant; empty where there is none.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for BarrierId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tenant.is_empty() {
            return f.write_str(&self.id);
        }
        write!(f, "{}/{}", self.tenant, self.id)
    }
}

pub(super) fn check(what: &'static str, name: &str) -> Result<()> {
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(NAMING, format!("the {what} has a control character")));
    }
    if name.len() > 255 {
        return Err(Error::new(ErrorKind::TooLarge, NAMING)
            .detail(format!("the {what} has {} bytes, the limit is 255", name.len())));
    }
    Ok(())
}

/// A member's name: 1 to 1,024 bytes of any kind, compared byte by byte. Nothing is trimmed, folded
/// or normalised.
///
/// In JSON it is a string where the bytes are UTF-8, and otherwise an object with `base64`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberName(Box<[u8]>);

impl MemberName {
    /// The most bytes of a name.
    pub const BYTES_MAX: usize = 1_024;

    /// Takes a name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where it is empty, [`ErrorKind::TooLarge`] over 1,024 bytes.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::invalid(NAMING_MEMBER, "the name is empty"));
        }
        if name.len() > Self::BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, NAMING_MEMBER).detail(format!(
                "the name has {} bytes, the limit is {}",
                name.len(),
                Self::BYTES_MAX
            )));
        }
        Ok(Self(name.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text, where it is UTF-8.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

/// The SHA-256 of names in the order of their bytes, each behind its length, in hexadecimal digits.
pub(super) fn digest<'a>(names: impl Iterator<Item = &'a MemberName>) -> String {
    let mut names: Vec<&MemberName> = names.collect();
    names.sort_unstable();
    let mut hash = Sha256::new();
    for name in names {
        hash.update(format!("{} ", name.0.len()).as_bytes());
        hash.update(&name.0);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for MemberName {
    /// As text, with what a terminal would act on escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(text) = self.as_text() else {
            return write!(f, "{}", self.0.escape_ascii());
        };
        for character in text.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                fmt::Write::write_char(f, character)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl AsRef<[u8]> for MemberName {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl Serialize for MemberName {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self.as_text() {
            Some(text) => to.serialize_str(text),
            None => Encoded { base64: STANDARD.encode(&self.0) }.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for MemberName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Bytes(Encoded),
        }
        let bytes = match Form::deserialize(from)? {
            Form::Text(text) => text.into_bytes(),
            Form::Bytes(encoded) => {
                STANDARD.decode(encoded.base64).map_err(serde::de::Error::custom)?
            }
        };
        Self::new(bytes).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{BarrierId, MemberName};

    #[test]
    fn a_name_keeps_its_bytes_through_json() {
        for bytes in [&b"a.xml"[..], b" a\n%2F|:/", "\u{1f41f}".as_bytes(), b"\xff\x00", b"\0"] {
            let name = MemberName::new(bytes).unwrap();
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<MemberName>(&json).unwrap(), name, "{json}");
        }
    }

    #[test]
    fn a_shown_name_moves_no_cursor() {
        assert_eq!(MemberName::new("a\u{1b}[2J\n").unwrap().to_string(), "a\\u{1b}[2J\\n");
    }

    #[test]
    fn names_have_bounds() {
        assert!(MemberName::new("").is_err());
        assert!(MemberName::new(vec![b'x'; 1_024]).is_ok());
        assert!(MemberName::new(vec![b'x'; 1_025]).is_err());
        assert!(BarrierId::new("").is_err());
        assert!(BarrierId::new("a\nb").is_err());
        assert!(BarrierId::new("x".repeat(256)).is_err());
    }
}
