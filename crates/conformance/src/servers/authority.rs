//! A certificate authority of a test's own.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// A certificate authority that nobody else trusts.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// Where the machine has no randomness.
    pub fn new() -> std::io::Result<Self> {
        let mut params = named("a test's own authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(std::io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(std::io::Error::other)?;
        Ok(Self { pem: certificate.pem(), issuer: Issuer::new(params, key) })
    }

    /// The authority's own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for servers and clients with these names and addresses; the first one is also
    /// its common name.
    ///
    /// # Errors
    /// Where a name cannot stand in a certificate.
    pub fn certify(&self, names: &[&str]) -> std::io::Result<Certified> {
        let mut params = named(names.first().copied().unwrap_or("nobody"), names)?;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(std::io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(std::io::Error::other)?;
        Ok(Certified { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn named(common: &str, names: &[&str]) -> std::io::Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(std::io::Error::other)?;
    params.distinguished_name.push(DnType::CommonName, common);
    Ok(params)
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
