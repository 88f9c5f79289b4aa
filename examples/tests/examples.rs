//! Runs the examples as their pages describe, on free ports. Those of Envoy and nginx run with the tests
//! of the daemon.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use slidegate_testkit::server::RedisServer;

const AXUM: &str = env!("CARGO_BIN_EXE_example-axum");
const HYPER: &str = env!("CARGO_BIN_EXE_example-hyper");
const TONIC: &str = env!("CARGO_BIN_EXE_example-tonic");
const REQWEST: &str = env!("CARGO_BIN_EXE_example-reqwest");
const SHARED_REDIS: &str = env!("CARGO_BIN_EXE_example-shared-redis");

/// A running example. Dropping it ends it.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    /// Starts it on a free port, which it prints.
    fn start(program: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.env("LISTEN", "127.0.0.1:0").envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self { child, url }
    }

    /// Sends a request, and returns the whole reply.
    fn get(&self) -> String {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns what a program prints that ends by itself.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[track_caller]
fn five_are_allowed(services: &[&Service]) {
    for number in 0..5 {
        let reply = services[number % services.len()].get();
        assert!(
            reply.starts_with("HTTP/1.1 200") && reply.ends_with("hello\n"),
            "{number}: {reply}"
        );
    }
    for service in services {
        let denied = service.get();
        assert!(denied.starts_with("HTTP/1.1 429") && denied.contains("retry-after: "), "{denied}");
    }
}

#[test]
fn axum() {
    five_are_allowed(&[&Service::start(AXUM, &[])]);
}

#[test]
fn hyper() {
    five_are_allowed(&[&Service::start(HYPER, &[])]);
}

#[test]
fn tonic() {
    let service = Service::start(TONIC, &[]);
    let text = output(TONIC, &[&service.url]);
    assert_eq!(text.matches(": ok\n").count(), 5, "{text}");
    assert!(text.contains("call 6: ResourceExhausted, retry in Some("), "{text}");
}

#[test]
fn reqwest() {
    let service = Service::start(AXUM, &[("QUOTA", "5/second")]);
    let text = output(REQWEST, &[&service.url, "12"]);
    assert_eq!(text.matches("200 OK, attempts: ").count(), 12, "{text}");
}

#[test]
fn shared_redis() {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    // A busy machine must not let the failure mode decide.
    let variables = [("REDIS_URL", url.as_str()), ("DEADLINE_MS", "10000")];
    let start = || Service::start(SHARED_REDIS, &variables);
    five_are_allowed(&[&start(), &start()]);
}
