//! The files in `deploy/` with the programs that they are for. `cargo xtask deploy` lints the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use slidegate_testkit::server::{ReverseProxy, k6};

use crate::drop_in::service;
use crate::process::{Daemon, Folder, output};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

/// Replaces texts that the file contains once.
fn replaced(mut text: String, replacements: &[(&str, String)]) -> String {
    for (before, after) in replacements {
        assert_eq!(text.matches(before).count(), 1, "{before}");
        text = text.replace(before, after);
    }
    text
}

/// Sends a request to a proxy, and returns the head and the body of its reply.
fn reply(proxy: &ReverseProxy, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\n");
    stream.write_all((head + "connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn envoy_enforces_both_limits_of_its_files() {
    let daemon = Daemon::with_config(&file("envoy/limits.yaml"));
    let (grpc, shop) = (daemon.grpc.port(), service("shop").port());
    let envoy = ReverseProxy::envoy(|port| {
        let ports = [
            ("port_value: 9901", "port_value: 0".to_owned()),
            ("port_value: 8000", format!("port_value: {port}")),
            ("port_value: 3000", format!("port_value: {shop}")),
            ("port_value: 8081", format!("port_value: {grpc}")),
            // A busy machine must not let requests pass.
            ("timeout: 0.02s", "timeout: 10s".to_owned()),
            ("connect_timeout: 0.25s", "connect_timeout: 10s".to_owned()),
            ("failure_mode_deny: false", "failure_mode_deny: true".to_owned()),
        ];
        replaced(text("envoy/envoy.yaml"), &ports)
    })
    .unwrap();
    for number in 0..5 {
        let reply = reply(&envoy, "POST", "/login");
        assert!(reply.starts_with("HTTP/1.1 200"), "{number}: {reply}{}", envoy.output());
    }
    let denied = reply(&envoy, "POST", "/login");
    assert!(denied.starts_with("HTTP/1.1 429"), "{denied}");
    for field in ["x-envoy-ratelimited: true", "retry-after: ", "5;w=60;name=\"logins\""] {
        assert!(denied.contains(field), "{field} is missing: {denied}");
    }
    // The other limit has units left. The denied request took none of them.
    let other = reply(&envoy, "GET", "/");
    assert!(other.starts_with("HTTP/1.1 200"), "{other}");
    assert!(other.contains("x-ratelimit-remaining: 94\r\n"), "{other}");
}

fn load(daemon: &Daemon, policy: &str) -> Output {
    // No threshold of latency by default: this machine may be busy.
    let p99 = std::env::var("K6_P99_MS").unwrap_or_else(|_| "0".to_owned());
    let mut k6 = Command::new(k6().unwrap());
    k6.args(["run", "--quiet", "--no-usage-report", "--address", "127.0.0.1:0"]);
    let settings = [
        format!("ADDRESS=http://{}", daemon.http),
        format!("POLICY={policy}"),
        format!("P99_MS={p99}"),
        "RATE=20".to_owned(),
        "SECONDS=3".to_owned(),
    ];
    for setting in settings {
        k6.arg("-e").arg(setting);
    }
    k6.arg(file("k6/check.js")).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn k6_finds_wrong_decisions_and_no_others() {
    let folder = Folder::new("deploy_k6");
    // The script expects ten per ten seconds. One policy allows more.
    let policies = "policies: [{name: right, quotas: [10/10s]}, {name: wrong, quotas: [1000/10s]}]";
    let daemon = Daemon::with_config(&folder.write("limits.yaml", policies));
    let right = load(&daemon, "right");
    let said = String::from_utf8_lossy(&right.stdout) + String::from_utf8_lossy(&right.stderr);
    assert!(right.status.success(), "{said}");
    let wrong = load(&daemon, "wrong");
    let said = String::from_utf8_lossy(&wrong.stderr);
    // The code of k6 for a threshold that was crossed.
    assert_eq!(wrong.status.code(), Some(99), "{said}");
    assert!(said.contains("11 were allowed within"), "{said}");
}

#[test]
fn the_edge_worker_caches_denials() {
    let daemon = Daemon::with_config(&file("forward-auth/limits.yaml"));
    let mut node = Command::new("node");
    node.arg(file("edge/worker.test.mjs")).env("SLIDEGATE", format!("http://{}", daemon.http));
    let output = node.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"ok\n", "{said}");
}

// The server block that it includes runs with the tests of forward auth.
#[test]
fn the_nginx_example_is_valid() {
    let folder = Folder::new("deploy_nginx");
    let mut nginx = Command::new("/usr/sbin/nginx");
    nginx.args(["-t", "-p"]).arg(folder.path("")).arg("-c");
    let output = nginx.arg(file("../examples/nginx/nginx.conf")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_version_describes_the_build() {
    let said = |flag| String::from_utf8(output(&[flag]).stdout).unwrap();
    let version = format!("slidegate {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(said("-V"), format!("{version}\n"));
    let long = said("--version");
    let lines: Vec<&str> = long.lines().collect();
    assert!(lines[0].starts_with(&version), "{long}");
    let features = lines[1].strip_prefix("features: ").unwrap();
    assert_eq!(features.contains("jemalloc"), cfg!(feature = "jemalloc"), "{long}");
    assert!(lines[2].starts_with("rustc "), "{long}");
    assert!(lines[3].contains(std::env::consts::ARCH), "{long}");
}
