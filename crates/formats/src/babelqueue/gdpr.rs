//! Protection of personal data: fields that a schema marks as sensitive are encrypted, one by one.
//!
//! A mark is the keyword `x-gdpr-sensitive`: `true`, or a category as a text. It changes nothing for the
//! check of a payload, so check the clear text: before [`protect`], after [`unprotect`].
//!
//! ```
//! use sendoff_formats::babelqueue::gdpr::{AesGcmCipher, protect, unprotect};
//! use sendoff_formats::babelqueue::payload::Schema;
//! use sendoff_formats::json::Json;
//!
//! let schema = Schema::parse(
//!     br#"{"type":"object","properties":{"email":{"type":"string","x-gdpr-sensitive":true}}}"#,
//! )?;
//! let cipher = AesGcmCipher::new(&[7; 32])?;
//! let mut data = Json::parse(br#"{"email":"ada@example.org","order_id":1042}"#)?;
//! let clear = data.clone();
//! protect(&schema, &mut data, &cipher)?;
//! assert!(!data.to_string().contains("ada"));
//! unprotect(&schema, &mut data, &cipher)?;
//! assert_eq!(data, clear);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;

use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::aes::{Aes128, Aes192, Aes256};
use aes_gcm::{AesGcm, aead::consts::U12};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::payload::Schema;
use crate::json::{Json, Object};

/// The keyword of a schema that marks a field.
pub const KEYWORD: &str = "x-gdpr-sensitive";

/// Encrypts and decrypts the value of one field.
pub trait Cipher {
    /// The text that takes the place of the value.
    ///
    /// # Errors
    /// [`CipherError`]
    fn encrypt(&self, clear: &[u8]) -> Result<String, CipherError>;

    /// The bytes that were encrypted.
    ///
    /// # Errors
    /// [`CipherError::Decrypt`] for a text that is none of this key's.
    fn decrypt(&self, text: &str) -> Result<Vec<u8>, CipherError>;
}

/// Why a field could not be protected or read. It never quotes the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CipherError {
    /// A key has 16, 24 or 32 bytes.
    KeySize {
        /// This one's size.
        bytes: usize,
    },
    /// The machine gave no random numbers.
    Random,
    /// Encrypting failed.
    Encrypt,
    /// The text is no cipher text, belongs to another key, was changed, or its content is no JSON.
    Decrypt,
}

impl fmt::Display for CipherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeySize { bytes } => {
                write!(f, "a key for AES has 16, 24 or 32 bytes, this one has {bytes}")
            }
            Self::Random => f.write_str("encrypting a field: the machine gave no random numbers"),
            Self::Encrypt => f.write_str("encrypting a field failed"),
            Self::Decrypt => f.write_str(
                "decrypting a field: it is no cipher text, belongs to another key, or was changed",
            ),
        }
    }
}

impl std::error::Error for CipherError {}

/// The places that a schema marks, sorted: names with points between, `name[]` for the values of a list,
/// empty for the whole. Within a marked place no further ones are listed: it is encrypted as one.
#[must_use]
pub fn sensitive_paths(schema: &Schema) -> Vec<String> {
    let mut paths = BTreeSet::new();
    collect(schema.object(), &mut String::new(), &mut paths);
    paths.into_iter().collect()
}

fn is_marked(schema: &Object) -> bool {
    match schema.get(KEYWORD) {
        Some(Json::Bool(marked)) => *marked,
        Some(Json::String(category)) => !category.is_empty(),
        _ => false,
    }
}

fn collect(schema: &Object, path: &mut String, paths: &mut BTreeSet<String>) {
    if is_marked(schema) {
        paths.insert(path.clone());
        // The whole is not protected as one, so that what it has inside still counts.
        if !path.is_empty() {
            return;
        }
    }
    let length = path.len();
    for (name, inner) in inner_schemas(schema) {
        match name {
            Some(name) => {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
            }
            None => path.push_str("[]"),
        }
        collect(inner, path, paths);
        path.truncate(length);
    }
}

/// The schemas of properties with their names, and that of a list's values without one.
fn inner_schemas(schema: &Object) -> impl Iterator<Item = (Option<&str>, &Object)> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let named = properties.into_iter().flat_map(Object::iter);
    let named = named.filter_map(|(name, inner)| Some((Some(name), inner.as_object()?)));
    let items = schema.get("items").and_then(Json::as_object).map(|items| (None, items));
    named.chain(items)
}

/// Encrypts every marked field in place. A field that is not there, or whose surroundings have another
/// type than the schema says, is left alone; so is a mark on the whole.
///
/// # Errors
/// [`CipherError`]; then the data is as it was.
pub fn protect(schema: &Schema, data: &mut Json, cipher: &dyn Cipher) -> Result<(), CipherError> {
    let mut changed = data.clone();
    each_marked(schema.object(), &mut changed, true, &mut |value| {
        *value = Json::String(cipher.encrypt(&value.to_vec())?);
        Ok(())
    })?;
    *data = changed;
    Ok(())
}

/// Decrypts every marked field in place. A field that is no text is left alone, so that it can be run
/// again after a part of it was done elsewhere.
///
/// # Errors
/// [`CipherError::Decrypt`]; then the data is as it was.
pub fn unprotect(schema: &Schema, data: &mut Json, cipher: &dyn Cipher) -> Result<(), CipherError> {
    let mut changed = data.clone();
    each_marked(schema.object(), &mut changed, true, &mut |value| {
        if let Json::String(text) = value {
            let clear = cipher.decrypt(text)?;
            *value = Json::parse(&clear).map_err(|_| CipherError::Decrypt)?;
        }
        Ok(())
    })?;
    *data = changed;
    Ok(())
}

fn each_marked(
    schema: &Object,
    value: &mut Json,
    is_whole: bool,
    change: &mut dyn FnMut(&mut Json) -> Result<(), CipherError>,
) -> Result<(), CipherError> {
    if is_marked(schema) && !is_whole {
        return change(value);
    }
    for (name, inner) in inner_schemas(schema) {
        match (name, &mut *value) {
            (Some(name), Json::Object(fields)) => {
                if let Some(field) = fields.get_mut(name) {
                    each_marked(inner, field, false, change)?;
                }
            }
            (None, Json::Array(items)) => {
                for item in items {
                    each_marked(inner, item, false, change)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The reference cipher: AES-GCM with a random nonce of 12 bytes and a tag of 128 bits. The text is
/// Base64 of nonce, cipher text and tag.
pub struct AesGcmCipher(Key);

enum Key {
    Bits128(Box<AesGcm<Aes128, U12>>),
    Bits192(Box<AesGcm<Aes192, U12>>),
    Bits256(Box<AesGcm<Aes256, U12>>),
}

const NONCE_BYTES: usize = 12;

impl fmt::Debug for AesGcmCipher {
    /// Never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcmCipher").finish_non_exhaustive()
    }
}

impl AesGcmCipher {
    /// A cipher with a key of 16, 24 or 32 bytes.
    ///
    /// # Errors
    /// [`CipherError::KeySize`]
    pub fn new(key: &[u8]) -> Result<Self, CipherError> {
        let wrong = |_| CipherError::KeySize { bytes: key.len() };
        Ok(Self(match key.len() {
            16 => Key::Bits128(Box::new(AesGcm::new_from_slice(key).map_err(wrong)?)),
            24 => Key::Bits192(Box::new(AesGcm::new_from_slice(key).map_err(wrong)?)),
            32 => Key::Bits256(Box::new(AesGcm::new_from_slice(key).map_err(wrong)?)),
            bytes => return Err(CipherError::KeySize { bytes }),
        }))
    }
}

impl Cipher for AesGcmCipher {
    fn encrypt(&self, clear: &[u8]) -> Result<String, CipherError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| CipherError::Random)?;
        let sealed = match &self.0 {
            Key::Bits128(cipher) => cipher.encrypt(&nonce.into(), clear),
            Key::Bits192(cipher) => cipher.encrypt(&nonce.into(), clear),
            Key::Bits256(cipher) => cipher.encrypt(&nonce.into(), clear),
        };
        let sealed = sealed.map_err(|_| CipherError::Encrypt)?;
        Ok(STANDARD.encode([&nonce[..], &sealed].concat()))
    }

    fn decrypt(&self, text: &str) -> Result<Vec<u8>, CipherError> {
        let bytes = STANDARD.decode(text).map_err(|_| CipherError::Decrypt)?;
        let (nonce, sealed) =
            bytes.split_first_chunk::<NONCE_BYTES>().ok_or(CipherError::Decrypt)?;
        let nonce = (*nonce).into();
        let clear = match &self.0 {
            Key::Bits128(cipher) => cipher.decrypt(&nonce, sealed),
            Key::Bits192(cipher) => cipher.decrypt(&nonce, sealed),
            Key::Bits256(cipher) => cipher.decrypt(&nonce, sealed),
        };
        clear.map_err(|_| CipherError::Decrypt)
    }
}
