//! Tokens of a running daemon: rotated, never shown, and missed where they are needed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use slidegate_testkit::server::{Certificates, poll};

use crate::process::{Daemon, Folder, command, output, post};
use crate::reference::connect;

const POLICY: &str = "slidegate: 1\npolicies: [{name: api, quotas: [5/hour]}]\n";

/// The status of a request with this token.
fn status(address: SocketAddr, method: &str, path: &str, token: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n"
    );
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer[9..12].parse().unwrap()
}

#[test]
fn the_admin_token_rotates_with_its_file() {
    let folder = Folder::new("admin_token");
    folder.write("admin.token", "the-first-token-01\n");
    let text = format!("{POLICY}admin: {{token_file: admin.token}}\n");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &text));
    let admin = daemon.announced("admin");
    let version = |token| status(admin, "GET", "/version", token, "");
    let (first, second) = ("the-first-token-01", "the-second-token-02");
    assert_eq!((version(first), version(second)), (200, 401));
    // The file is watched.
    folder.write("admin.token", second);
    poll("the second token", || Ok((version(second) == 200).then_some(())))
        .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    assert_eq!(version(first), 401);
    // A token that protects nothing is refused with the whole reload.
    folder.write("admin.token", "short");
    assert_eq!(status(admin, "POST", "/-/reload", second, ""), 422);
    assert_eq!((version(second), version("short")), (200, 401));
    folder.write("admin.token", first);
    assert_eq!(status(admin, "POST", "/-/reload", second, ""), 200);
    assert_eq!((version(first), version(second)), (200, 401));
    assert!(!daemon.said().contains(first) && !daemon.said().contains("after a restart"));
}

#[test]
fn tokens_of_data_listeners_rotate_with_a_reload() {
    let folder = Folder::new("data_tokens");
    let (first, second) = ("the-first-token-01", "the-second-token-02");
    folder.write("ops.token", first);
    let tokens = "access: {tokens: [{file: ops.token, scopes: [check, look, change]}]}\n";
    let path = folder.write("limits.yaml", &format!("{POLICY}{tokens}"));
    let mut serve = command(&["serve", "--config", path.to_str().unwrap()]);
    serve.args(["--listen-http", "0.0.0.0:0", "--listen-resp", "0.0.0.0:0"]);
    serve.args(["--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"]);
    let daemon = Daemon::with(serve);
    let reset = |token| {
        let body = r#"{"policy":"api","key":"k"}"#;
        status(daemon.http, "POST", "/v1/reset", token, body)
    };
    assert!(daemon.check("api", "k"), "checks need no token");
    assert_eq!((reset(first), reset(second)), (200, 401));
    let mut resp = TcpStream::connect(daemon.resp).unwrap();
    let mut ask = |command: &str| {
        resp.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = vec![0; 1024];
        let length = resp.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    assert!(ask("SG.RESET api k").starts_with("-NOAUTH"));
    assert_eq!(ask(&format!("AUTH {first}")), "+OK\r\n");
    assert_eq!(ask("SG.RESET api k"), ":0\r\n");

    folder.write("ops.token", second);
    assert_eq!(daemon.admin("POST", "/-/reload").0, 200);
    assert_eq!((reset(first), reset(second)), (401, 200));
    assert!(ask("SG.RESET api k").starts_with("-WRONGPASS"));
    assert!(!daemon.said().contains("the-first") && !daemon.said().contains("after a restart"));
}

#[test]
fn tokens_come_from_variables_too_and_are_never_printed() {
    let folder = Folder::new("printed_tokens");
    folder.write("app.token", "a-secret-of-a-file-1");
    folder.write("admin.token", "a-secret-of-admin-2");
    let tokens =
        "access: {tokens: [{file: app.token, scopes: [check]}, {variable: OPS, scopes: [change]}]}";
    let text = format!("{POLICY}{tokens}\nadmin: {{token_file: admin.token}}\n");
    let path = folder.write("limits.yaml", &text);
    let serve = |variable: &str, flags: &[&str]| {
        let mut command = command(&["serve", "--config", path.to_str().unwrap()]);
        command.args(flags).env("OPS", variable).output().unwrap()
    };
    for flags in [&["--print-config"][..], &["--print-config", "--json"]] {
        let printed = serve("a-secret-variable-3", flags);
        let text = String::from_utf8(printed.stdout).unwrap();
        assert!(printed.status.success() && !text.contains("a-secret"), "{text}");
    }
    let refused = serve("short", &["--print-config"]);
    let problems = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(78));
    assert!(problems.contains("a token of 5 bytes is too short"), "{problems}");
}

#[test]
fn config_check_reports_what_is_off_beyond_loopback_and_tokens_that_protect_nothing() {
    let folder = Folder::new("checked_tokens");
    let check = |text: &str| {
        let path = folder.write("limits.yaml", &format!("{POLICY}{text}"));
        let checked = output(&["config", "check", path.to_str().unwrap()]);
        let text = [checked.stdout, checked.stderr].concat();
        (checked.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = check("listen: {http: 0.0.0.0:8080}\n");
    assert!(code == Some(0) && text.contains("note[data-closed]"), "{text}");
    let open = "listen: {resp: 0.0.0.0:6380}\naccess: {anonymous: [check, change]}\n";
    let (code, text) = check(open);
    assert!(code == Some(0) && text.contains("warning[data-open]"), "{text}");
    let (_, text) = check("listen: {http: 127.0.0.1:8080}\n");
    assert!(!text.contains("data-"), "{text}");
    folder.write("short.token", "short");
    for key in [
        "admin: {token_file: short.token}",
        "access: {tokens: [{file: short.token, scopes: [check]}]}",
    ] {
        let (code, text) = check(&format!("{key}\n"));
        assert!(code == Some(78) && text.contains("error[token]"), "{text}");
    }
    let (code, text) = check("access: {tokens: [{scopes: [check]}]}\n");
    assert!(code == Some(78) && text.contains("exactly one of `file` and `variable`"), "{text}");
}

#[test]
fn clients_with_certificates_need_no_token_beyond_loopback() {
    let folder = Folder::new("certified_clients");
    let certificates = Certificates::new().unwrap();
    folder.write("server.pem", certificates.server());
    folder.write("server.key", certificates.server_key());
    folder.write("clients.pem", certificates.authority());
    let tls = "tls: {certificate: server.pem, key: server.key, client_authority: clients.pem}\n";
    let path = folder.write("limits.yaml", &format!("{POLICY}{tls}"));
    let mut serve = command(&["serve", "--config", path.to_str().unwrap()]);
    serve.args(["--listen-http", "0.0.0.0:0", "--listen-resp", "127.0.0.1:0"]);
    serve.args(["--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"]);
    let daemon = Daemon::with(serve);
    let stream = connect(daemon.http, &certificates, b"http/1.1");
    let (status, body) = post(stream, "/v1/reset", r#"{"policy":"api","key":"k"}"#);
    assert_eq!(status, 200, "{body}");
    assert!(!daemon.said().contains("is off"), "{}", daemon.said());
}
