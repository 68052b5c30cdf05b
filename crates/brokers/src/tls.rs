//! TLS by rustls and ring: the certificates to trust, and a client's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sendoff_core::{Error, ErrorKind, Result};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

const DOING: &str = "preparing TLS";

/// The files that TLS is set up from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificates to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The client's certificate and its key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// Reads the files and, without one, the system's certificates.
///
/// # Errors
/// [`ErrorKind::Invalid`] where there is no certificate to trust, or a file has not what it should.
/// Nothing of a file is quoted.
pub(crate) fn client_config(files: &TlsFiles) -> Result<ClientConfig> {
    let unexpected =
        |error: rustls::Error| Error::new(ErrorKind::Unexpected, DOING).caused_by(error);
    let roots = match &files.ca {
        Some(path) => own_roots(path)?,
        None => system_roots()?,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unexpected)?
        .with_root_certificates(roots);
    if let Some((certificate, key)) = &files.client {
        let chain = certificates(certificate)?;
        return config.with_client_auth_cert(chain, private_key(key)?).map_err(|error| {
            Error::invalid(DOING, format!("the client's certificate and key: {error}"))
                .subject(certificate.display().to_string())
                .advice("name a certificate and the key that belongs to it")
        });
    }
    Ok(config.with_no_client_auth())
}

fn own_roots(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| refused(path, &format!("a certificate in it: {error}")))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unreadable = |error| refused(path, &why(error));
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<_, _>>)
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(refused(path, "there is no certificate in it"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        Error::invalid(DOING, why(error))
            .subject(path.display().to_string())
            .advice("name a PEM file with the private key")
    })
}

/// The parser's own words quote the file.
fn why(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("it cannot be read: {error}"),
        pem::Error::NoItemsFound => "there is no key in it".to_owned(),
        _ => "it is not PEM".to_owned(),
    }
}

fn refused(path: &Path, detail: &str) -> Error {
    Error::invalid(DOING, detail)
        .subject(path.display().to_string())
        .advice("name a PEM file with certificates")
}

fn system_roots() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Error::invalid(DOING, "this system has no root certificates").advice(
            "install them (the package ca-certificates), or name a file with the receiver's \
             authority",
        ));
    }
    Ok(roots)
}
