//! From the start to the end.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use slidegate_testkit::server::{Certificates, poll};

use crate::process::{Daemon, Folder, command, exchange, output};

#[test]
fn without_a_file_it_is_useful_at_once_and_the_line_it_shows_works() {
    let daemon = Daemon::start(&[]);
    let said = daemon.said();
    let line = said.lines().find(|line| line.trim_start().starts_with("curl ")).unwrap();
    let shown = Command::new("sh").args(["-c", line]).output().unwrap();
    let answer = String::from_utf8(shown.stdout).unwrap();
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    assert_eq!(daemon.allowed("example", "alice", 20), 9);
    assert_eq!(daemon.admin("GET", "/livez").0, 200);
    assert_eq!(daemon.admin("GET", "/readyz").0, 200);
    assert_eq!(
        daemon.metric(
            "rate_limit_rejected_total{policy=\"example\",mode=\"enforce\",outcome=\"denied\"}"
        ),
        Some(11.0)
    );
    let (ended, said) = daemon.terminate();
    assert!(ended.success(), "{said}");
}

#[test]
fn the_redis_protocol_and_http_count_together() {
    let daemon = Daemon::start(&[]);
    let port = daemon.resp.port().to_string();
    let asked = Command::new("redis-cli")
        .args(["-p", &port, "SG.CHECK", "example", "k", "COST", "9"])
        .output()
        .unwrap();
    assert!(String::from_utf8(asked.stdout).unwrap().starts_with("1\n10\n1\n"));
    assert_eq!(daemon.allowed("example", "k", 5), 1);
}

#[test]
fn check_calls_the_daemon_and_returns_the_decision_as_exit_code() {
    let daemon = Daemon::start(&[]);
    let address = daemon.http.to_string();
    let check = |extra: &[&str]| {
        let mut all = vec!["check", "example", "bob", "--address", &address];
        all.extend_from_slice(extra);
        let output = output(&all);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check(&["--cost", "9"]), (Some(0), "allowed: 1 of 10 left\n".to_owned()));
    assert_eq!(check(&["--peek"]).0, Some(0));
    assert!(check(&["--json"]).1.contains("\"remaining\":0"));
    let (code, text) = check(&[]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("denied: 0 of 10 left, retry after "), "{text}");
    assert_eq!(check(&["--cost", "11"]).1, "denied: the cost is above the limit of 10\n");
    daemon.terminate();
    let gone = output(&["check", "example", "bob", "--address", &address]);
    assert_eq!(gone.status.code(), Some(69));
}

#[test]
fn a_taken_address_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    let refused = output(&[
        "serve",
        "--listen-http",
        &address,
        "--listen-grpc",
        free,
        "--listen-resp",
        free,
        "--listen-admin",
        free,
    ]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains(&format!("cannot listen on {address} for http")), "{said}");
    assert!(said.contains("--listen-http"), "{said}");
}

#[test]
fn a_wrong_configuration_is_shown_and_is_exit_code_78() {
    let folder = Folder::new("wrong");
    let config = folder.write("limits.yaml", "slidegate: 1\npolicies:\n  - nmae: api\n");
    let refused = output(&["serve", "--config", config.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(78));
    assert!(said.contains("limits.yaml:3:5") && said.contains("`name`"), "{said}");
    assert_eq!(output(&["serve", "--no-such-flag"]).status.code(), Some(2));
}

#[test]
fn admin_beyond_loopback_needs_a_token() {
    let refused = output(&["serve", "--listen-admin", "0.0.0.0:0"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("token_file"), "{said}");
    let folder = Folder::new("token");
    let token = folder.write("token", "a-long-enough-token\n");
    let set = format!("admin.token_file={}", token.display());
    let daemon = Daemon::start(&["--set", &set]);
    assert_eq!(daemon.admin("GET", "/metrics").0, 401);
    assert_eq!(daemon.admin("GET", "/livez").0, 200);
}

#[test]
fn systemd_is_notified() {
    let folder = Folder::new("systemd");
    let path = folder.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut serve =
        command(&["serve", "--listen-http", "127.0.0.1:0", "--listen-grpc", "127.0.0.1:0"]);
    serve.args(["--listen-resp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"]);
    serve.env("NOTIFY_SOCKET", &path);
    let daemon = Daemon::with(serve);
    let hear = || {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    };
    assert_eq!(hear(), "READY=1");
    daemon.signal("HUP");
    assert_eq!((hear(), hear()), ("RELOADING=1".to_owned(), "READY=1".to_owned()));
    assert!(daemon.terminate().0.success());
    assert_eq!(hear(), "STOPPING=1");
}

#[test]
fn certificates_are_replaced_while_it_runs() {
    let folder = Folder::new("tls");
    let install = || {
        let made = Certificates::new().unwrap();
        folder.write("server.pem", made.server());
        folder.write("server.key", made.server_key());
        made
    };
    let first = install();
    let config = |limit_mb: u32| {
        let path = |name: &str| folder.path(name).display().to_string();
        let tls = format!("{{certificate: {}, key: {}}}", path("server.pem"), path("server.key"));
        let policies = "[{name: api, quotas: [100/hour]}]";
        let text = format!("memory: {{limit_mb: {limit_mb}}}\ntls: {tls}\npolicies: {policies}\n");
        folder.write("limits.yaml", &text)
    };
    let daemon = Daemon::with_config(&config(16));
    let ask = |trusted: &Certificates| {
        let authority = CertificateDer::from_pem_slice(trusted.authority().as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = std::net::TcpStream::connect(daemon.http).unwrap();
        let mut stream = rustls::StreamOwned::new(client, stream);
        // Whether it is trusted shows with the first byte.
        std::io::Write::flush(&mut stream).ok()?;
        stream.conn.complete_io(&mut stream.sock).ok()?;
        Some(exchange(stream, "GET", "/v1/check?policy=api&key=k").0)
    };
    assert_eq!(ask(&first), Some(200));
    let second = install();
    assert_eq!(ask(&second), None, "before the signal");
    daemon.signal("HUP");
    poll("the new certificate", || Ok(ask(&second).map(|status| assert_eq!(status, 200)))).unwrap();
    assert_eq!(ask(&first), None);
    // Neither does one that comes with limits that are refused.
    config(1);
    let third = install();
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 422 && body.contains("memory.limit_mb"), "{status} {body}");
    assert_eq!((ask(&second), ask(&third)), (Some(200), None));
    config(16);
    poll("the third certificate", || Ok(ask(&third).map(|status| assert_eq!(status, 200))))
        .unwrap();
    // A broken one changes nothing.
    fs::write(folder.path("server.key"), "broken").unwrap();
    daemon.signal("HUP");
    daemon.hears("private key");
    assert_eq!(ask(&third), Some(200));
}

// A configuration that passes the check and stops the daemon at the next restart is worse than no check.
#[test]
fn check_refuses_what_serve_refuses_with_the_same_words_and_code() {
    let folder = Folder::new("refused");
    folder.write("short", "short");
    folder.write("broken.pem", "broken");
    folder.write("file", "");
    let path = |name: &str| folder.path(name).display().to_string();
    let mut cases = vec![
        (format!("audit: {{path: {}}}", path("missing/audit.log")), "does not exist: create it"),
        (format!("audit: {{path: {}}}", path("")), "is a directory: name a file in it"),
        ("audit: {path: audit.log, required: true}".to_owned(), "decisions: all"),
        (format!("snapshot: {{path: {}}}", path("file")), "is a file: use a directory"),
        (format!("admin: {{token_file: {}}}", path("short")), "5 bytes is too short"),
        (format!("tls: {{certificate: {0}, key: {0}}}", path("broken.pem")), "certificate"),
        ("listen: {http: \"192.0.2.1:8080\"}".to_owned(), "cannot listen on 192.0.2.1:8080"),
        ("listen: {http: 127.0.0.1:7001, resp: 0.0.0.0:7001}".to_owned(), "both listen on"),
        ("memory: {limit_mb: 1}\ndomains: []".to_owned(), "set memory.limit_mb to 2 or more"),
    ];
    if cfg!(not(feature = "otlp")) {
        let tracing = "tracing: {endpoint: \"http://127.0.0.1:4317\"}".to_owned();
        cases.push((tracing, "built without tracing"));
    }
    for (settings, words) in cases {
        let policy = |number| format!("  - {{name: p{number}, quotas: [1/hour]}}");
        let policies = (0..100).map(policy).collect::<Vec<_>>().join("\n");
        let text = format!("slidegate: 1\n{settings}\npolicies:\n{policies}\n");
        let config = folder.write("limits.yaml", &text);
        let config = config.to_str().unwrap();
        let checked = output(&["config", "check", config]);
        let served = output(&["serve", "--config", config]);
        for (name, output) in [("check", &checked), ("serve", &served)] {
            let said = [output.stdout.clone(), output.stderr.clone()].concat();
            let said = String::from_utf8(said).unwrap();
            assert_eq!(output.status.code(), Some(78), "{name}, {settings}: {said}");
            assert!(said.contains(words), "{name}, {settings}: {said}");
        }
    }
    assert!(!folder.path("audit.log").exists(), "a check creates nothing");
}
