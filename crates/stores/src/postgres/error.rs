//! What the driver and the server say, as an error of ours.
//!
//! The server's message and code are passed on, its detail is not: a detail quotes values, such as
//! the row that broke a constraint with its body.

use sendoff_core::{Error, ErrorKind};
use tokio_rustls::rustls;

/// The error of `operation` on the store at `address`.
pub(super) fn from_driver(
    operation: &'static str,
    address: &str,
    error: tokio_postgres::Error,
) -> Error {
    let Some(said) = error.as_db_error() else {
        let kind = kind_of_silence(&error);
        let answer = Error::new(kind, operation).subject(address);
        return match refused_by_tls(&error) {
            Some(advice) => answer.advice(advice).caused_by(error),
            None => answer.caused_by(error),
        };
    };
    let code = said.code().code();
    let answer = Error::new(kind_of(code), operation)
        .subject(address)
        .detail(format!("{} (SQLSTATE {code})", said.message()));
    match code {
        "23505" => answer.advice("this source and id was sent before: use another id, or skip it"),
        "3D000" => answer.advice("create the database first"),
        "26000" | "42P05" => answer.advice(
            "a pooler in transaction mode seems to stand in between: set postgres.pooler = \
             \"transaction\" (PostgresOptions::pooler)",
        ),
        "53300" => answer.advice("raise max_connections, or let fewer programs connect"),
        _ => answer,
    }
}

/// What a driver's error means, for a caller whose send or commit failed with it: a second send of
/// one source and id is [`ErrorKind::Duplicate`], a deadlock is [`ErrorKind::Conflict`].
///
/// ```no_run
/// # use sendoff_core::{ErrorKind, Message, Outbox};
/// # async fn example(client: &mut tokio_postgres::Client, message: Message) {
/// let mut transaction = client.transaction().await.unwrap();
/// if let Err(error) = Outbox::new("shop").send(&mut transaction, &message).await {
///     let kind = sendoff_stores::postgres::error_kind(&error);
///     assert_eq!(kind, ErrorKind::Duplicate, "{error}");
/// }
/// # }
/// ```
#[must_use]
pub fn error_kind(error: &tokio_postgres::Error) -> ErrorKind {
    match error.code() {
        Some(code) => kind_of(code.code()),
        None => kind_of_silence(error),
    }
}

/// No answer came in time.
pub(super) fn timed_out(
    operation: &'static str,
    address: &str,
    after: std::time::Duration,
) -> Error {
    Error::new(ErrorKind::Timeout, operation)
        .subject(address)
        .detail(format!("no answer within {} ms", after.as_millis()))
        .advice("the connection was discarded; the next call connects anew")
}

/// What to do where TLS, and not the network, kept a connection from being made.
fn refused_by_tls(error: &tokio_postgres::Error) -> Option<&'static str> {
    use rustls::{AlertDescription, CertificateError, Error as Tls};
    use std::error::Error as _;
    let mut source = error.source();
    while let Some(cause) = source {
        // An error of I/O does not show what it was made from as its source.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = inner.map_or(cause, |inner| inner);
        match tls.downcast_ref::<Tls>() {
            Some(Tls::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => {
                return Some(
                    "name the host as the server's certificate has it; sslmode=verify-ca asks for no \
                     name",
                );
            }
            Some(Tls::InvalidCertificate(_)) => {
                return Some("name the authority of the server's certificate with sslrootcert");
            }
            Some(Tls::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateUnknown,
            )) => {
                return Some("give a certificate that the server knows, with sslcert and sslkey");
            }
            Some(_) => return Some("look at the TLS settings of both sides"),
            None => {}
        }
        if cause.to_string() == "server does not support TLS" {
            return Some("turn TLS on in the server (ssl = on), or connect with sslmode=disable");
        }
        source = cause.source();
    }
    None
}

/// The kind of an error that the server did not send.
fn kind_of_silence(error: &tokio_postgres::Error) -> ErrorKind {
    use std::error::Error as _;
    if refused_by_tls(error).is_some() {
        return ErrorKind::Denied;
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return match io.kind() {
                // The kernel gave up on a peer that acknowledges nothing.
                std::io::ErrorKind::TimedOut => ErrorKind::Timeout,
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                    ErrorKind::Unexpected
                }
                _ => ErrorKind::Unreachable,
            };
        }
        source = cause.source();
    }
    let text = error.to_string();
    if error.is_closed() || text.starts_with("error connecting") {
        ErrorKind::Unreachable
    } else if text.starts_with("authentication") || text.starts_with("invalid configuration") {
        ErrorKind::Denied
    } else {
        ErrorKind::Unexpected
    }
}

/// What an SQLSTATE means for us.
fn kind_of(code: &str) -> ErrorKind {
    match code {
        "23505" => ErrorKind::Duplicate,
        // Deadlock, serialization, a lock that was not to be had, a plan that a migration outdated.
        "40001" | "40P01" | "55P03" | "0A000" => ErrorKind::Conflict,
        "25006" => ErrorKind::ReadOnly,
        "53100" => ErrorKind::DiskFull,
        "42501" => ErrorKind::Denied,
        "42P01" | "3F000" | "42703" | "42883" => ErrorKind::SchemaMissing,
        "3D000" => ErrorKind::NotFound,
        // The server ended the statement: statement_timeout, or an operator.
        "57014" => ErrorKind::Timeout,
        "53300" | "25P03" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => {
            ErrorKind::Unreachable
        }
        "23502" | "23514" | "22001" | "22021" | "22P05" | "22P02" => ErrorKind::Invalid,
        _ if code.starts_with("08") => ErrorKind::Unreachable,
        _ if code.starts_with("28") => ErrorKind::Denied,
        _ => ErrorKind::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::kind_of;
    use sendoff_core::ErrorKind;
    use sendoff_core::error::Retry;

    #[test]
    fn a_full_disk_a_read_only_database_and_a_lost_server_are_tried_again_later() {
        assert_eq!(kind_of("53100"), ErrorKind::DiskFull);
        assert_eq!(kind_of("25006"), ErrorKind::ReadOnly);
        for code in ["57P01", "57P02", "57P03", "08006", "08P01", "53300"] {
            assert_eq!(kind_of(code), ErrorKind::Unreachable, "{code}");
        }
        for code in ["53100", "25006", "57P01", "42P01", "XX000"] {
            assert_eq!(kind_of(code).retry(), Retry::Later, "{code}");
        }
    }

    #[test]
    fn conflicts_are_tried_again_at_once_and_refusals_never() {
        for code in ["40001", "40P01"] {
            assert_eq!(kind_of(code).retry(), Retry::Now, "{code}");
        }
        for code in ["28P01", "28000", "42501", "23505", "23514"] {
            assert_eq!(kind_of(code).retry(), Retry::Never, "{code}");
        }
        assert_eq!(kind_of("28P01"), ErrorKind::Denied);
        assert_eq!(kind_of("3F000"), ErrorKind::SchemaMissing);
    }
}
