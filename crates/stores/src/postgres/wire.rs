//! Values on the wire that the driver has no type for: jsonb as its text, timestamps as
//! microseconds. Both are binary formats of PostgreSQL's own.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use sendoff_core::time::Timestamp;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// PostgreSQL counts from 2000-01-01.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The version of jsonb's binary format: one byte before the text.
const JSONB_VERSION: u8 = 1;

/// The text of a jsonb value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<T>(pub(super) T);

impl<T: AsRef<str> + std::fmt::Debug> ToSql for Json<T> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u8(JSONB_VERSION);
        out.put_slice(self.0.as_ref().as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Json<&'a [u8]> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match raw.split_first() {
            Some((&JSONB_VERSION, text)) => Ok(Self(text)),
            _ => Err("jsonb in a format that is not version 1".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }
}

/// A time. Infinity, which PostgreSQL has and we have not, is the last or first time there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Timestamp);

impl Time {
    /// Microseconds as PostgreSQL counts them.
    pub(super) fn micros(self) -> i64 {
        self.0.as_microsecond().saturating_sub(EPOCH_MICROS)
    }
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.micros());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        let edge = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let time = micros
            .checked_add(EPOCH_MICROS)
            .and_then(|micros| Timestamp::from_microsecond(micros).ok());
        Ok(Self(time.unwrap_or(edge)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, Time};
    use bytes::BytesMut;
    use sendoff_core::time::Timestamp;
    use tokio_postgres::types::{FromSql, ToSql, Type};

    #[test]
    fn a_time_comes_back_as_it_went_to_the_microsecond() {
        for micros in [0, 1_893_456_000_123_456, -62_135_596_800_000_000] {
            let time = Time(Timestamp::from_microsecond(micros).unwrap());
            let mut wire = BytesMut::new();
            time.to_sql(&Type::TIMESTAMPTZ, &mut wire).unwrap();
            assert_eq!(Time::from_sql(&Type::TIMESTAMPTZ, &wire).unwrap(), time);
        }
    }

    #[test]
    fn infinity_is_the_end_of_time() {
        let read = |micros: i64| Time::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes()).unwrap();
        assert_eq!(read(i64::MAX).0, Timestamp::MAX);
        assert_eq!(read(i64::MIN).0, Timestamp::MIN);
    }

    #[test]
    fn json_of_another_version_is_refused() {
        assert!(Json::<&[u8]>::from_sql(&Type::JSONB, b"\x02{}").is_err());
        assert!(Json::<&[u8]>::from_sql(&Type::JSONB, b"").is_err());
    }
}
