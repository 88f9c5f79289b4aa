//! Certificates for connections over TLS.

use redis::{Client, ConnectionInfo};
use slidegate::Error;

/// The certificates to trust and to present.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    /// PEM text of the authorities to trust instead of the system's.
    #[cfg(feature = "tls")]
    pub(crate) authority: Option<Vec<u8>>,
    /// PEM text of the client certificate and its key.
    #[cfg(feature = "tls")]
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
}

#[cfg(feature = "tls")]
impl Tls {
    /// Checks that the certificates are present and will be used.
    ///
    /// # Errors
    ///
    /// Returns an error if a text contains no certificate or no key, or an address does not use
    /// TLS. No text is shown, because it may contain a key.
    pub(crate) fn check(&self, addresses: &[ConnectionInfo]) -> Result<(), Error> {
        use redis::ConnectionAddr::TcpTls;
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        use slidegate::ErrorKind;

        let refuse = |message: &str| Err(Error::new(ErrorKind::Setting, message));
        let holds = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).any(|found| found.is_ok());
        if self.authority.as_ref().is_some_and(|pem| !holds(pem)) {
            return refuse("the TLS authority contains no certificate: use PEM text");
        }
        if let Some((certificate, key)) = &self.certificate {
            if !holds(certificate) {
                return refuse("the TLS certificate contains no certificate: use PEM text");
            }
            if PrivateKeyDer::from_pem_slice(key).is_err() {
                return refuse("the key of the TLS certificate is not a key: use PEM text");
            }
        }
        let given = self.authority.is_some() || self.certificate.is_some();
        if given && !addresses.iter().all(|info| matches!(info.addr(), TcpTls { .. })) {
            return refuse("certificates are set, but an address does not use TLS: use rediss://");
        }
        Ok(())
    }

    pub(crate) fn open(&self, info: ConnectionInfo) -> redis::RedisResult<Client> {
        if self.authority.is_none() && self.certificate.is_none() {
            return Client::open(info);
        }
        let client_tls = self
            .certificate
            .clone()
            .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key });
        let root_cert = self.authority.clone();
        Client::build_with_tls(info, redis::TlsCertificates { client_tls, root_cert })
    }
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_self, reason = "the same calls with and without TLS")]
impl Tls {
    #[expect(clippy::unnecessary_wraps, reason = "the same call with and without TLS")]
    pub(crate) fn check(&self, _: &[ConnectionInfo]) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn open(&self, info: ConnectionInfo) -> redis::RedisResult<Client> {
        // Returns the error that TLS is not compiled in.
        Client::open(info)
    }
}
