//! The daemon in the place of envoyproxy/ratelimit.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use slidegate_server::grpc::NAME;
use slidegate_testkit::server::Certificates;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::process::{Daemon, Folder, command, exchange, post};

#[tokio::test]
async fn health_serves_every_name_from_the_start() {
    let daemon = Daemon::start(&[]);
    let channel = Channel::from_shared(format!("http://{}", daemon.grpc)).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    // Kubernetes probes of the reference service ask for `ratelimit`.
    for service in ["", "ratelimit", NAME] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = client.check(request).await.unwrap().into_inner().status;
        assert_eq!(status, 1, "{service:?} is serving");
    }
}

#[test]
fn load_balancers_may_probe_with_head() {
    let daemon = Daemon::start(&[]);
    let probe = |method| exchange(TcpStream::connect(daemon.http).unwrap(), method, "/healthcheck");
    assert_eq!(probe("GET"), (200, "OK".to_owned()));
    assert_eq!(probe("HEAD"), (200, String::new()));
    assert_eq!(probe("POST").0, 405);
}

#[test]
fn metrics_alone_are_served_without_a_token_and_nothing_else() {
    let daemon = Daemon::start(&["--set", "listen.metrics=127.0.0.1:0"]);
    let ask = |method, path| {
        let address = daemon.announced("metrics alone");
        exchange(TcpStream::connect(address).unwrap(), method, path)
    };
    for path in ["/metrics", "/", "/-/reload"] {
        let (status, page) = ask("GET", path);
        assert!(status == 200 && page.contains("slidegate_build_info"), "{path}: {page}");
    }
    assert_eq!(ask("POST", "/-/reload").0, 405);
}

// A stream asks with zero hits when it starts, and reports its usage when it is done. That service
// counts denied requests, so it stops after two of these.
#[test]
fn streams_that_report_their_usage_over_json_stop_at_the_limit() {
    let folder = Folder::new("reference-usage");
    let limit = "{unit: hour, requests_per_unit: 1000}";
    let text = format!("domain: llm\ndescriptors: [{{key: user, rate_limit: {limit}}}]\n");
    let path = folder.write("llm.yaml", &text).display().to_string();
    let mut serve = command(&["serve", "--config", &path, "--listen-resp", "127.0.0.1:0"]);
    for name in ["HOST", "GRPC_HOST", "DEBUG_HOST"] {
        serve.env(name, "127.0.0.1");
    }
    for name in ["PORT", "GRPC_PORT", "DEBUG_PORT"] {
        serve.env(name, "0");
    }
    let daemon = Daemon::with({
        serve.env("USE_STATSD", "false");
        serve
    });
    let is_served = |hits: u32| {
        let entries = r#"[{"key": "user", "value": "a"}]"#;
        let descriptor = format!(r#"{{"entries": {entries}, "hitsAddend": "{hits}"}}"#);
        let body = format!(r#"{{"domain": "llm", "descriptors": [{descriptor}]}}"#);
        match post(TcpStream::connect(daemon.http).unwrap(), "/json", &body) {
            (200, _) => true,
            (429, _) => false,
            other => panic!("{other:?}"),
        }
    };
    let served = (0..12).filter(|_| {
        let served = is_served(0);
        if served {
            is_served(600);
        }
        served
    });
    assert_eq!(served.count(), 2);
}

#[test]
fn config_check_applies_the_variables_that_serve_applies() {
    let folder = Folder::new("reference-check");
    let root = folder.path("config");
    std::fs::create_dir(&root).unwrap();
    for key in ["user", "path"] {
        let text = format!("domain: shop\ndescriptors: [{{key: {key}}}]\n");
        std::fs::write(root.join(format!("{key}.yaml")), text).unwrap();
    }
    let checked = |merge: &str| {
        let mut check = command(&["config", "check", root.to_str().unwrap()]);
        check.env("MERGE_DOMAIN_CONFIG", merge).output().unwrap().status.code()
    };
    assert_eq!(checked("false"), Some(78));
    assert_eq!(checked("true"), Some(0));
}

/// Connects with a client certificate.
pub(crate) fn connect(
    address: SocketAddr,
    certificates: &Certificates,
    protocol: &[u8],
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pem(certificates.authority())).unwrap();
    let key = PrivateKeyDer::from_pem_slice(certificates.server_key().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![pem(certificates.server())], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(client, TcpStream::connect(address).unwrap())
}

/// Whether the gRPC listener sends its settings to a client with this certificate.
fn is_served(daemon: &Daemon, certificates: &Certificates) -> bool {
    let mut stream = connect(daemon.grpc, certificates, b"h2");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut reply = [0; 9];
    stream.write_all(preface).is_ok() && stream.read_exact(&mut reply).is_ok()
}

#[test]
fn grpc_alone_is_served_over_tls_to_clients_with_the_name() {
    let folder = Folder::new("reference-tls");
    let certificates = Certificates::new().unwrap();
    let install = |name: &str, text: &str| folder.write(name, text).display().to_string();
    let limits = install("shop.yaml", "domain: shop\n");
    let files = [
        ("GRPC_SERVER_TLS_CERT", install("server.pem", certificates.server())),
        ("GRPC_SERVER_TLS_KEY", install("server.key", certificates.server_key())),
        ("GRPC_CLIENT_TLS_CACERT", install("clients.pem", certificates.authority())),
    ];
    for (name, expected) in [("localhost", true), ("envoy.internal", false)] {
        let mut serve = command(&["serve", "--config", &limits, "--listen-resp", "127.0.0.1:0"]);
        serve.envs(files.clone()).env("GRPC_SERVER_USE_TLS", "true").env("USE_STATSD", "false");
        serve.env("GRPC_CLIENT_TLS_SAN", name);
        for (name, value) in [("HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1"), ("PORT", "0")] {
            serve.env(name, value);
        }
        serve.env("GRPC_PORT", "0").env("DEBUG_PORT", "0");
        let daemon = Daemon::with(serve);
        assert_eq!(is_served(&daemon, &certificates), expected, "{name}: {}", daemon.said());
        let plain = exchange(TcpStream::connect(daemon.http).unwrap(), "GET", "/healthcheck");
        assert_eq!(plain.0, 200, "HTTP stays plain");
    }
}
