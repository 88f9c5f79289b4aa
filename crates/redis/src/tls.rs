//! Certificates, for servers that are reached over TLS.

use redis::{Client, ConnectionInfo};

/// What to trust and what to show.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    /// PEM text of the authorities to trust instead of the system's.
    #[cfg(feature = "tls")]
    pub(crate) authority: Option<Vec<u8>>,
    /// PEM text of our own certificate and its key.
    #[cfg(feature = "tls")]
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
}

#[cfg(feature = "tls")]
impl Tls {
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
impl Tls {
    #[expect(clippy::unused_self, reason = "the same call with and without TLS")]
    pub(crate) fn open(&self, info: ConnectionInfo) -> redis::RedisResult<Client> {
        // Says that it was built without TLS.
        Client::open(info)
    }
}
