//! From types of Rust to values, without a way over text. Unlike serde_json it refuses not-a-number
//! and infinity, which would arrive as `null` elsewhere.

use std::fmt::{self, Display};

use serde::ser::{self, Serialize};

use super::{Json, Number, Object};

/// What a type of Rust has and JSON cannot say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerializeError(String);

impl Display for SerializeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SerializeError {}

impl ser::Error for SerializeError {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

type Result<T> = std::result::Result<T, SerializeError>;

pub(super) struct Serializer;

/// One key with `value`, as serde writes a variant that carries something.
fn variant(name: &str, value: Json) -> Json {
    Json::Object(Object::from_iter([(name, value)]))
}

macro_rules! integers {
    ($($method:ident: $type:ty as $wide:ty,)*) => {
        $(fn $method(self, value: $type) -> Result<Json> {
            Ok(Json::Number(Number::from(<$wide>::from(value))))
        })*
    };
}

impl ser::Serializer for Serializer {
    type Ok = Json;
    type Error = SerializeError;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    integers! {
        serialize_i8: i8 as i64,
        serialize_i16: i16 as i64,
        serialize_i32: i32 as i64,
        serialize_i64: i64 as i64,
        serialize_i128: i128 as i128,
        serialize_u8: u8 as u64,
        serialize_u16: u16 as u64,
        serialize_u32: u32 as u64,
        serialize_u64: u64 as u64,
        serialize_u128: u128 as u128,
    }

    fn serialize_bool(self, value: bool) -> Result<Json> {
        Ok(Json::Bool(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Json> {
        // By its own digits: 0.1 as a double would be 0.10000000149011612.
        let text = serde_json::to_string(&value).unwrap_or_default();
        match Number::parse(&text) {
            Some(number) if value.is_finite() => Ok(Json::Number(number)),
            _ => Err(no_number(f64::from(value))),
        }
    }

    fn serialize_f64(self, value: f64) -> Result<Json> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| no_number(value))
    }

    fn serialize_char(self, value: char) -> Result<Json> {
        Ok(Json::String(value.to_string()))
    }

    fn serialize_str(self, value: &str) -> Result<Json> {
        Ok(Json::from(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Json> {
        Ok(Json::Array(value.iter().map(|&byte| Json::from(i64::from(byte))).collect()))
    }

    fn serialize_none(self) -> Result<Json> {
        Ok(Json::Null)
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<Json> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Json> {
        Ok(Json::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Json> {
        Ok(Json::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<Json> {
        Ok(Json::from(name))
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Json> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<Json> {
        Ok(variant(name, value.serialize(self)?))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<List> {
        Ok(List { items: Vec::new(), variant: None })
    }

    fn serialize_tuple(self, _len: usize) -> Result<List> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<List> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _len: usize,
    ) -> Result<List> {
        Ok(List { items: Vec::new(), variant: Some(name) })
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Fields> {
        Ok(Fields { object: Object::new(), key: None, variant: None })
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Fields> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _len: usize,
    ) -> Result<Fields> {
        Ok(Fields { object: Object::new(), key: None, variant: Some(name) })
    }
}

fn no_number(value: f64) -> SerializeError {
    SerializeError(format!("{value} is no number in JSON"))
}

pub(super) struct List {
    items: Vec<Json>,
    variant: Option<&'static str>,
}

impl List {
    fn push<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
        self.items.push(value.serialize(Serializer)?);
        Ok(())
    }

    fn finish(self) -> Json {
        let list = Json::Array(self.items);
        match self.variant {
            Some(name) => variant(name, list),
            None => list,
        }
    }
}

macro_rules! list {
    ($($trait:ident::$method:ident),*) => {
        $(impl ser::$trait for List {
            type Ok = Json;
            type Error = SerializeError;

            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
                self.push(value)
            }

            fn end(self) -> Result<Json> {
                Ok(self.finish())
            }
        })*
    };
}

list!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

pub(super) struct Fields {
    object: Object,
    key: Option<String>,
    variant: Option<&'static str>,
}

impl Fields {
    fn finish(self) -> Json {
        let object = Json::Object(self.object);
        match self.variant {
            Some(name) => variant(name, object),
            None => object,
        }
    }
}

impl ser::SerializeMap for Fields {
    type Ok = Json;
    type Error = SerializeError;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<()> {
        // As elsewhere: a number or a truth as a key is its text.
        self.key = Some(match key.serialize(Serializer)? {
            Json::String(text) => text,
            Json::Number(number) => number.as_str().to_owned(),
            Json::Bool(truth) => truth.to_string(),
            _ => return Err(SerializeError("a key of an object has to be a text".to_owned())),
        });
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
        let key =
            self.key.take().ok_or_else(|| SerializeError("a value without a key".to_owned()))?;
        self.object.set(key, value.serialize(Serializer)?);
        Ok(())
    }

    fn end(self) -> Result<Json> {
        Ok(self.finish())
    }
}

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Fields {
            type Ok = Json;
            type Error = SerializeError;

            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<()> {
                self.object.set(key, value.serialize(Serializer)?);
                Ok(())
            }

            fn end(self) -> Result<Json> {
                Ok(self.finish())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

impl Serialize for Json {
    /// Numbers of more than 128 bits, and fractions, are passed on as the nearest `f64`: other formats
    /// have no other. To keep every digit, write the value with [`Json::to_vec`].
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Number(number) => {
                let text = number.as_str();
                if let Ok(integer) = text.parse::<i64>() {
                    serializer.serialize_i64(integer)
                } else if let Ok(integer) = text.parse::<u64>() {
                    serializer.serialize_u64(integer)
                } else if let Ok(integer) = text.parse::<i128>() {
                    serializer.serialize_i128(integer)
                } else {
                    serializer.serialize_f64(number.to_f64())
                }
            }
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(list) => serializer.collect_seq(list),
            Self::Object(object) => serializer.collect_map(object.iter()),
        }
    }
}
