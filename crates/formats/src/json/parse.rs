//! Reading: the lexer is hifijson's, which gives a number's own digits; the values and bounds are ours.

use std::fmt;

use hifijson::SliceLexer;
use hifijson::num::LexWrite as _;
use hifijson::str::LexAlloc as _;
use hifijson::token::{Expect, Lex as _};

use super::{Json, Number, Object};

/// What is read at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of the text. 16 MiB unless set otherwise.
    pub bytes_max: usize,
    /// How deep lists and objects are nested. 128 unless set otherwise; more than 512 is taken for 512,
    /// since the reader calls itself.
    pub depth_max: usize,
    /// How many values there are, keys not counted. A million unless set otherwise: two bytes of text
    /// can be a value of fifty bytes.
    pub values_max: usize,
}

/// Deeper than this the reader's own calls would be in danger.
const DEPTH_HARD_MAX: usize = 512;

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 16 << 20, depth_max: 128, values_max: 1_000_000 }
    }
}

/// Why a text was not read. It never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// It is no JSON.
    Malformed {
        /// How many bytes were read before.
        at: usize,
    },
    /// There is something behind the value.
    Trailing {
        /// Where it begins, in bytes.
        at: usize,
    },
    /// It is over [`Limits::bytes_max`].
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// It is over [`Limits::depth_max`].
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// It is over [`Limits::values_max`].
    TooMany {
        /// The limit.
        values_max: usize,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at } => write!(f, "it is no JSON from byte {at} on"),
            Self::Trailing { at } => {
                write!(f, "something stands behind the JSON value, at byte {at}")
            }
            Self::TooLarge { bytes_max } => write!(f, "it has more than {bytes_max} bytes"),
            Self::TooDeep { depth_max } => write!(f, "it is nested more than {depth_max} deep"),
            Self::TooMany { values_max } => write!(f, "it has more than {values_max} values"),
        }
    }
}

impl std::error::Error for ParseError {}

/// What ends the reading from inside.
enum Stop {
    Lexer,
    Trailing,
    Deep,
    Many,
}

impl From<Expect> for Stop {
    fn from(expect: Expect) -> Self {
        if expect == Expect::Eof { Self::Trailing } else { Self::Lexer }
    }
}

pub(super) fn parse(text: &[u8], limits: &Limits) -> Result<Json, ParseError> {
    if text.len() > limits.bytes_max {
        return Err(ParseError::TooLarge { bytes_max: limits.bytes_max });
    }
    let depth_max = limits.depth_max.min(DEPTH_HARD_MAX);
    let mut values_left = limits.values_max;
    let mut lexer = SliceLexer::new(text);
    let read = lexer.exactly_one(SliceLexer::ws_peek, |next, lexer| {
        value(next, lexer, depth_max, &mut values_left)
    });
    read.map_err(|stop| {
        let at = text.len() - lexer.as_slice().len();
        match stop {
            Stop::Lexer => ParseError::Malformed { at },
            Stop::Trailing => ParseError::Trailing { at },
            Stop::Deep => ParseError::TooDeep { depth_max },
            Stop::Many => ParseError::TooMany { values_max: limits.values_max },
        }
    })
}

fn value(
    next: u8,
    lexer: &mut SliceLexer<'_>,
    depth_left: usize,
    values_left: &mut usize,
) -> Result<Json, Stop> {
    *values_left = values_left.checked_sub(1).ok_or(Stop::Many)?;
    match next {
        b'a'..=b'z' => match lexer.null_or_bool().ok_or(Stop::Lexer)? {
            Some(truth) => Ok(Json::Bool(truth)),
            None => Ok(Json::Null),
        },
        b'0'..=b'9' | b'-' => {
            let (digits, _) = lexer.num_string().validated().map_err(|_| Stop::Lexer)?;
            Ok(Json::Number(Number::lexed(digits)))
        }
        b'"' => Ok(Json::String(text(lexer.discarded())?)),
        b'[' => {
            let depth_left = depth_left.checked_sub(1).ok_or(Stop::Deep)?;
            let mut list = Vec::new();
            lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| {
                list.push(value(next, lexer, depth_left, values_left)?);
                Ok::<_, Stop>(())
            })?;
            Ok(Json::Array(list))
        }
        b'{' => {
            let depth_left = depth_left.checked_sub(1).ok_or(Stop::Deep)?;
            let mut object = Object::new();
            lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| {
                if next != b'"' {
                    return Err(Stop::Lexer);
                }
                let key = text(lexer.discarded())?;
                lexer.expect(SliceLexer::ws_peek, b':').ok_or(Stop::Lexer)?;
                let next = lexer.ws_peek().ok_or(Stop::Lexer)?;
                object.set(key, value(next, lexer, depth_left, values_left)?);
                Ok(())
            })?;
            Ok(Json::Object(object))
        }
        _ => Err(Stop::Lexer),
    }
}

/// A text whose opening quote has been read.
fn text(lexer: &mut SliceLexer<'_>) -> Result<String, Stop> {
    lexer.str_string().map(std::borrow::Cow::into_owned).map_err(|_| Stop::Lexer)
}
