//! Writing: compact, with as few escapes as JSON allows.

use super::{Json, Object};

pub(super) fn value(out: &mut Vec<u8>, json: &Json) {
    match json {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
        Json::String(text) => string(out, text),
        Json::Array(list) => {
            out.push(b'[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                value(out, item);
            }
            out.push(b']');
        }
        Json::Object(fields) => object(out, fields),
    }
}

pub(crate) fn object(out: &mut Vec<u8>, fields: &Object) {
    out.push(b'{');
    for (index, (key, item)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        string(out, key);
        out.push(b':');
        value(out, item);
    }
    out.push(b'}');
}

fn string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut plain_from = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            0..=0x1f => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[plain_from..index]);
        plain_from = index + 1;
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'0', b'0', high, low]);
        }
    }
    out.extend_from_slice(&bytes[plain_from..]);
    out.push(b'"');
}
