//! TLS to the server by rustls and ring: what the URL says of it, as libpq reads it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use sendoff_core::{Error, ErrorKind, Result};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

const DOING: &str = "preparing TLS to the database";

/// How much is asked of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// What a URL says of TLS.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TlsParameters {
    mode: Mode,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl TlsParameters {
    /// Takes `sslmode`, `sslrootcert`, `sslcert` and `sslkey` out of a URL. What is left is the
    /// driver's.
    pub(super) fn take(url: &str) -> Result<(Self, String)> {
        let mut tls = Self { mode: Mode::Prefer, roots: None, certificate: None, key: None };
        let Some((base, query)) = url.split_once('?') else {
            return Ok((tls, url.to_owned()));
        };
        let mut others: Vec<&str> = Vec::new();
        let mut system = false;
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => tls.mode = Mode::parse(value)?,
                "sslrootcert" if value == "system" => system = true,
                "sslrootcert" => tls.roots = Some(path(name, value)?),
                "sslcert" => tls.certificate = Some(path(name, value)?),
                "sslkey" => tls.key = Some(path(name, value)?),
                _ => others.push(pair),
            }
        }
        tls.check(system)?;
        let left = match others.as_slice() {
            [] => base.to_owned(),
            others => format!("{base}?{}", others.join("&")),
        };
        Ok((tls, left))
    }

    /// As libpq has it, `require` with an authority verifies the certificate by it.
    fn check(&mut self, system: bool) -> Result<()> {
        let refuse = |detail: &str, advice: &str| Err(Error::invalid(DOING, detail).advice(advice));
        let named = system || self.roots.is_some();
        match self.mode {
            Mode::Require if named => self.mode = Mode::VerifyCa,
            Mode::Disable | Mode::Prefer if named => {
                return refuse(
                    "sslrootcert is given, and sslmode asks for no verification",
                    "add sslmode=verify-full",
                );
            }
            Mode::Disable if self.certificate.is_some() => {
                return refuse("sslcert is given with sslmode=disable", "leave one of them out");
            }
            _ => {}
        }
        if self.certificate.is_some() != self.key.is_some() {
            return refuse("sslcert and sslkey go together", "give both, or none");
        }
        Ok(())
    }

    /// The driver's mode.
    pub(super) fn mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Reads the files, and where verification is asked and no authority named, the system's.
    pub(super) fn connect(&self) -> Result<MakeRustlsConnect> {
        let provider = Arc::new(ring::default_provider());
        let unexpected =
            |error: rustls::Error| Error::new(ErrorKind::Unexpected, DOING).caused_by(error);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unexpected)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(self, provider)?));
        let mut config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| {
                    Error::invalid(DOING, format!("sslcert and sslkey: {error}"))
                        .subject(certificate.display().to_string())
                        .advice("name a certificate and the key that belongs to it")
                })?,
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }
}

impl Mode {
    fn parse(word: &str) -> Result<Self> {
        Ok(match word {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(Error::invalid(DOING, "sslmode is none that is known")
                    .advice("write sslmode=disable, prefer, require, verify-ca or verify-full"));
            }
        })
    }
}

fn path(name: &str, value: &str) -> Result<PathBuf> {
    match percent_decode_str(value).decode_utf8() {
        Ok(path) if !path.is_empty() => Ok(PathBuf::from(Cow::into_owned(path))),
        _ => Err(Error::invalid(DOING, format!("{name} names no file"))),
    }
}

/// Looks at the server's certificate as far as the mode asks; the handshake's signatures always.
#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    any_name: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(tls: &TlsParameters, provider: Arc<CryptoProvider>) -> Result<Self> {
        let chain = match tls.mode {
            Mode::Disable | Mode::Prefer | Mode::Require => None,
            Mode::VerifyCa | Mode::VerifyFull => {
                let roots = match &tls.roots {
                    Some(path) => own_roots(path)?,
                    None => system_roots()?,
                };
                let built = WebPkiServerVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(&provider),
                )
                .build();
                Some(built.map_err(|error| Error::invalid(DOING, error.to_string()))?)
            }
        };
        Ok(Self { chain, any_name: tls.mode == Mode::VerifyCa, provider })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is looked at after everything else was found good.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
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

fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::invalid(DOING, "this system has no root certificates").advice(
            "install them (the package ca-certificates), or name the server's authority with \
             sslrootcert",
        ));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<_, _>>)
        .map_err(|error| refused(path, &why(error)))?;
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

#[cfg(test)]
mod tests {
    use super::{Mode, TlsParameters};

    #[test]
    fn what_is_said_of_tls_is_taken_out_of_the_url_and_the_rest_is_left() {
        let (tls, left) = TlsParameters::take(
            "postgres://u:p@h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fa%20b.pem",
        )
        .unwrap();
        assert_eq!(left, "postgres://u:p@h/d?connect_timeout=3");
        assert_eq!(tls.mode, Mode::VerifyFull);
        assert_eq!(tls.roots.unwrap().to_str(), Some("/etc/a b.pem"));
        let (tls, left) = TlsParameters::take("postgres://h/d?sslmode=disable").unwrap();
        assert_eq!((tls.mode, left.as_str()), (Mode::Disable, "postgres://h/d"));
        assert_eq!(TlsParameters::take("postgres://h/d").unwrap().0.mode, Mode::Prefer);
    }

    #[test]
    fn require_with_an_authority_verifies_by_it() {
        let (tls, _) = TlsParameters::take("postgres://h/d?sslmode=require").unwrap();
        assert_eq!(tls.mode, Mode::Require);
        for authority in ["/ca.pem", "system"] {
            let url = format!("postgres://h/d?sslmode=require&sslrootcert={authority}");
            assert_eq!(TlsParameters::take(&url).unwrap().0.mode, Mode::VerifyCa);
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_what_to_write() {
        for (query, word) in [
            ("sslmode=allow", "verify-full"),
            ("sslmode=VERIFY-FULL", "verify-full"),
            ("sslrootcert=/ca.pem", "sslmode=verify-full"),
            ("sslmode=disable&sslcert=/c&sslkey=/k", "leave one"),
            ("sslmode=require&sslcert=/c", "sslkey"),
            ("sslmode=require&sslkey=/k", "sslcert"),
            ("sslmode=verify-ca&sslrootcert=", "names no file"),
        ] {
            let error =
                TlsParameters::take(&format!("postgres://u:s3cret@h/d?{query}")).unwrap_err();
            assert!(error.to_string().contains(word), "{query}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"));
        }
    }
}
