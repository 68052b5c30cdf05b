//! Fields that a schema marks are encrypted and decrypted.

use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sendoff_formats::babelqueue::gdpr::{
    AesGcmCipher, Cipher, CipherError, protect, sensitive_paths, unprotect,
};
use sendoff_formats::babelqueue::payload::Schema;
use sendoff_formats::json::Json;

const SCHEMA: &str = r#"{
  "type": "object", "x-gdpr-sensitive": true,
  "properties": {
    "email": {"type": "string", "x-gdpr-sensitive": true},
    "name": {"type": "string", "x-gdpr-sensitive": "identity"},
    "address": {"type": "object", "x-gdpr-sensitive": true,
                "properties": {"street": {"x-gdpr-sensitive": true}}},
    "phones": {"type": "array", "items": {"type": "string", "x-gdpr-sensitive": true}},
    "friends": {"type": "array", "items": {"type": "object", "properties": {
                "email": {"x-gdpr-sensitive": true}, "since": {"type": "integer"}}}},
    "a": {"x-gdpr-sensitive": false}, "b": {"x-gdpr-sensitive": ""}, "c": {"x-gdpr-sensitive": 1}
  }
}"#;

const DATA: &str = r#"{"order_id":1042,"email":"ada@example.org","name":null,"address":{"street":"S 1","zip":123456789012345678901},"phones":["1","2"],"friends":[{"email":"b@example.org","since":1},{"since":2}],"a":"open","b":"open","c":"open"}"#;

fn schema() -> Schema {
    Schema::parse(SCHEMA.as_bytes()).unwrap()
}

fn data() -> Json {
    Json::parse(DATA.as_bytes()).unwrap()
}

#[test]
fn marked_places_are_found_and_sorted() {
    assert_eq!(
        sensitive_paths(&schema()),
        ["", "address", "email", "friends[].email", "name", "phones[]"]
    );
}

#[test]
fn what_is_protected_comes_back_as_it_was_with_each_size_of_key() {
    for size in [16, 24, 32] {
        let cipher = AesGcmCipher::new(&vec![7; size]).unwrap();
        let mut protected = data();
        protect(&schema(), &mut protected, &cipher).unwrap();
        let text = protected.to_string();
        for secret in ["ada@", "b@example", "S 1", "12345678901", "\"1\""] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let clear = [
            "order_id\":1042",
            "\"since\":1",
            "\"a\":\"open\"",
            "\"b\":\"open\"",
            "\"c\":\"open\"",
        ];
        assert!(clear.iter().all(|clear| text.contains(clear)), "{text}");
        assert!(protected.as_object().unwrap().get("address").unwrap().as_str().is_some());
        unprotect(&schema(), &mut protected, &cipher).unwrap();
        assert_eq!(protected.to_string(), DATA);
    }
}

#[test]
fn the_cipher_text_is_nonce_cipher_text_and_tag_in_base64() {
    let cipher = AesGcmCipher::new(&[7; 32]).unwrap();
    let text = cipher.encrypt(b"\"x\"").unwrap();
    assert_ne!(text, cipher.encrypt(b"\"x\"").unwrap(), "a new nonce each time");
    let bytes = STANDARD.decode(&text).unwrap();
    assert_eq!(bytes.len(), 12 + 3 + 16);
    // By the library itself, as another program would read it.
    let other = Aes256Gcm::new_from_slice(&[7; 32]).unwrap();
    let nonce = Nonce::try_from(&bytes[..12]).unwrap();
    assert_eq!(other.decrypt(&nonce, &bytes[12..]).unwrap(), b"\"x\"");
}

#[test]
fn keys_of_other_sizes_are_refused() {
    for size in [0, 15, 17, 31, 33] {
        let error = AesGcmCipher::new(&vec![0; size]).unwrap_err();
        assert_eq!(error, CipherError::KeySize { bytes: size });
    }
    let log = format!("{:?}", AesGcmCipher::new(&[99; 16]).unwrap());
    assert!(!log.contains("99"), "{log}");
}

#[test]
fn what_is_no_cipher_text_of_this_key_is_refused_and_nothing_is_changed() {
    let cipher = AesGcmCipher::new(&[7; 32]).unwrap();
    let other = AesGcmCipher::new(&[8; 32]).unwrap();
    let mut protected = data();
    protect(&schema(), &mut protected, &other).unwrap();
    let before = protected.clone();
    let error = unprotect(&schema(), &mut protected, &cipher).unwrap_err();
    assert_eq!(error, CipherError::Decrypt);
    assert_eq!(protected, before);
    // Where the first field can be read and a later one cannot, the first is not changed either.
    let mut half = data();
    protect(&schema(), &mut half, &cipher).unwrap();
    if let Json::Object(fields) = &mut half {
        fields.set("friends", Json::parse(br#"[{"email":"broken"}]"#).unwrap());
    }
    let before = half.clone();
    assert_eq!(unprotect(&schema(), &mut half, &cipher), Err(CipherError::Decrypt));
    assert_eq!(half, before);
    let no_json = cipher.encrypt(b"no json").unwrap();
    for text in ["plain", "", "AAAA", &no_json] {
        let mut one = Json::parse(format!(r#"{{"email":"{text}"}}"#).as_bytes()).unwrap();
        assert_eq!(unprotect(&schema(), &mut one, &cipher), Err(CipherError::Decrypt), "{text}");
    }
    assert!(!error.to_string().contains("ada"));
}

#[test]
fn what_is_not_there_or_of_another_type_is_left_alone() {
    let cipher = AesGcmCipher::new(&[7; 32]).unwrap();
    for text in
        ["{}", "[]", "null", r#"{"phones":"none","friends":{"email":"x"}}"#, r#"{"email":7}"#]
    {
        let before = Json::parse(text.as_bytes()).unwrap();
        let mut once = before.clone();
        unprotect(&schema(), &mut once, &cipher).unwrap();
        assert_eq!(once, before, "{text}");
        protect(&schema(), &mut once, &cipher).unwrap();
        assert_eq!(once == before, text != r#"{"email":7}"#, "{text}");
    }
}
