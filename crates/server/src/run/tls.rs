//! TLS certificates that can be reloaded.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::TlsAcceptor;

use crate::config::{TlsSettings, read_file};

/// A TLS configuration. New connections use the latest one.
#[derive(Debug, Clone)]
pub(super) struct ReloadableTls {
    settings: TlsSettings,
    protocols: &'static [&'static [u8]],
    current: Arc<ArcSwap<ServerConfig>>,
}

/// The ALPN protocols of an HTTP listener, in order of preference.
pub(super) const HTTP: &[&[u8]] = &[b"h2", b"http/1.1"];
/// The ALPN protocols of a gRPC listener.
pub(super) const GRPC: &[&[u8]] = &[b"h2"];
/// No ALPN.
pub(super) const PLAIN: &[&[u8]] = &[];

impl ReloadableTls {
    /// Reads the files.
    pub(super) fn new(
        settings: &TlsSettings,
        protocols: &'static [&'static [u8]],
    ) -> Result<Self, String> {
        let current = Arc::new(ArcSwap::from_pointee(read(settings, protocols)?));
        Ok(Self { settings: settings.clone(), protocols, current })
    }

    /// Returns the settings that it was created with.
    pub(super) fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Reads the files again, for [`replace`](ReloadableTls::replace).
    pub(super) fn read_again(&self) -> Result<ServerConfig, String> {
        read(&self.settings, self.protocols)
    }

    /// Replaces the configuration of new connections.
    pub(super) fn replace(&self, config: ServerConfig) {
        self.current.store(Arc::new(config));
    }

    /// Returns the configuration for an HTTP listener.
    pub(super) fn shared(&self) -> Arc<ArcSwap<ServerConfig>> {
        Arc::clone(&self.current)
    }

    /// Returns the acceptor for one connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

fn read(
    settings: &TlsSettings,
    protocols: &'static [&'static [u8]],
) -> Result<ServerConfig, String> {
    let TlsSettings { certificate, key, client_authority, client_name } = settings;
    let chain = certificates(certificate)?;
    let secret = read_file(key).map_err(|problem| format!("private key {problem}"))?;
    let secret = PrivateKeyDer::from_pem_slice(&secret)
        .map_err(|error| format!("private key {}: {error}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier =
                verifier.build().map_err(|error| format!("{}: {error}", path.display()))?;
            builder.with_client_cert_verifier(match client_name {
                None => verifier,
                Some(name) => Arc::new(NamedClient::new(verifier, name)?),
            })
        }
    };
    let mut config = builder
        .with_single_cert(chain, secret)
        .map_err(|error| format!("certificate {}: {error}", certificate.display()))?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Accepts client certificates with one name only.
#[derive(Debug)]
struct NamedClient {
    inner: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl NamedClient {
    fn new(inner: Arc<dyn ClientCertVerifier>, name: &str) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| format!("client_name {name:?}: {error}; use a DNS name"))?;
        Ok(Self { inner, name })
    }
}

impl ClientCertVerifier for NamedClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(certificate, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed =
        |error: &dyn core::fmt::Display| format!("certificate {}: {error}", path.display());
    let pem = read_file(path).map_err(|problem| format!("certificate {problem}"))?;
    let found = CertificateDer::pem_slice_iter(&pem);
    let all = found.collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
    if all.is_empty() { Err(failed(&"the file contains none")) } else { Ok(all) }
}
