//! TLS, and who we are to the server: what is read from files, at each connect.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions};
use tokio_rustls::rustls;

use crate::nats::address::{Login, NatsAddress};
use crate::tls::{TlsFiles, client_config};

/// The files that a URL names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) identity: Option<Identity>,
    pub(crate) tls: TlsFiles,
}

/// A file with a secret of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A JWT and the seed that belongs to it, as NATS' own tools write them.
    Credentials(PathBuf),
    /// The seed of an nkey alone.
    Nkey(PathBuf),
}

/// Adds to the options what the address says about TLS and login. Reads the files anew, so that
/// credentials that were renewed count from the next connect on.
///
/// # Errors
/// A text that says which file is wrong and how, and quotes nothing of it.
pub(super) fn secure(
    mut options: ConnectOptions,
    address: &NatsAddress,
) -> Result<ConnectOptions, String> {
    // Also for nats://, since the server may ask for TLS: the library's own choice of a provider
    // panics where a program has more than one.
    match client_config(&address.files().tls) {
        Ok(config) => options = options.tls_client_config(config),
        Err(error) if address.tls() => return Err(error.to_string()),
        Err(_) => {}
    }
    options = options.require_tls(address.tls());
    options = match address.login() {
        None => options,
        Some(Login::Token(token)) => options.token(token.clone()),
        Some(Login::Password { user, password }) => {
            options.user_and_password(user.clone(), password.clone())
        }
    };
    match &address.files().identity {
        None => Ok(options),
        Some(Identity::Credentials(path)) => {
            let text = read(path)?;
            options.credentials(&text).map_err(|_| {
                format!(
                    "{} has no user JWT with its seed; write it with NATS' own tools (nsc, or nats \
                     auth)",
                    path.display()
                )
            })
        }
        Some(Identity::Nkey(path)) => {
            let text = read(path)?;
            let seed = text.trim();
            nkeys::KeyPair::from_seed(seed).map_err(|_| {
                format!(
                    "{} has no seed of an nkey (SU, then 56 letters and digits); make one: nk -gen \
                     user",
                    path.display()
                )
            })?;
            Ok(options.nkey(seed.to_owned()))
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Why the server did not let us in, and what to do.
pub(super) fn refused(error: &ConnectError) -> String {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let tls = source.and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref());
    let next = match (error.kind(), tls) {
        (_, Some(rustls::Error::InvalidCertificate(_))) => {
            "; if the server has an authority of its own, name its certificate: ?ca=PATH"
        }
        (_, Some(rustls::Error::AlertReceived(_))) => {
            "; if the server asks for a client's certificate, name it: ?cert=PATH&key=PATH"
        }
        (ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication, _) => {
            "; correct the user, the token or the file with credentials"
        }
        _ => "",
    };
    format!("{error}{next}")
}
