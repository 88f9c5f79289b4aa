//! Certificates for a TLS server, created when the test runs.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use redis::TlsCertificates;

use super::ServerError;

/// A new authority and its certificate for `127.0.0.1` and `localhost`.
///
/// Clones share the authority, so that several servers can trust each other.
#[derive(Debug, Clone)]
pub struct Certificates {
    authority: String,
    server: String,
    server_key: String,
}

impl Certificates {
    /// Creates a new authority and a certificate.
    pub fn new() -> Result<Self, ServerError> {
        Self::make().map_err(|error| ServerError::new(format!("cannot make certificates: {error}")))
    }

    fn make() -> Result<Self, rcgen::Error> {
        // The names must differ: OpenSSL treats a certificate with its issuer's name as
        // self-signed.
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.distinguished_name.push(DnType::CommonName, "authority of a test");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let authority = parameters.self_signed(&key)?.pem();
        let issuer = Issuer::new(parameters, key);

        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(names)?;
        parameters.distinguished_name.push(DnType::CommonName, "server of a test");
        let server = parameters.signed_by(&key, &issuer)?.pem();
        Ok(Self { authority, server, server_key: key.serialize_pem() })
    }

    /// Returns the authority's certificate in PEM, which a client must trust.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the settings with which a client of the `redis` crate trusts only this authority.
    pub fn trust(&self) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: Some(self.authority.as_bytes().to_vec()) }
    }

    /// The server's certificate in PEM.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The server's private key in PEM.
    pub fn server_key(&self) -> &str {
        &self.server_key
    }
}
