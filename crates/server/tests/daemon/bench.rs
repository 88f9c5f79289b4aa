//! `slidegate bench` against real limiters, as in `docs/bench.md`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use slidegate_testkit::server::RedisServer;

use crate::process::{Daemon, Folder, output};

const LIMITS: &str = "\
slidegate: 1
policies:
  - name: exact
    quotas: [20/second]
  - name: hourly
    quotas: [20/hour]
  - name: leaky
    quotas: [20/second]
    algorithm: fixed
domains:
  - domain: shop
    descriptors:
      - key: user
        rate_limit: {unit: second, requests_per_unit: 20}
";

fn daemon(folder: &Folder) -> Daemon {
    let config = folder.write("limits.yaml", LIMITS);
    Daemon::start(&["--config", config.to_str().unwrap()])
}

/// Runs it with `--json`. Returns the exit code and the report.
fn bench(arguments: &[&str]) -> (Option<i32>, Value) {
    // Nothing fails because the machine is busy.
    let all = [&["bench", "--json", "--connections", "8", "--deadline", "30s"], arguments].concat();
    let output = output(&all);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {said}")))
}

/// Four keys with 50 requests per second each, where 20 may pass.
const LOAD: [&str; 8] = ["--rate", "200", "--for", "4s", "--quota", "20/second", "--keys", "4"];

fn assert_exact(arguments: &[&str]) {
    let (code, report) = bench(&[arguments, &LOAD[..]].concat());
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!((due(&report), &report["failed"]), (800, &0.into()), "{report:#}");
    let wrong = &report["wrong"];
    assert_eq!(
        (&wrong["windows_over"], &wrong["windows_under"]),
        (&0.into(), &0.into()),
        "{report:#}"
    );
    // Each of four keys gets a window of 20 at once, and then at most one per second.
    let windows = report["seconds"].as_f64().unwrap() + 1.0;
    let allowed = report["allowed"].as_f64().unwrap();
    assert!((1.0..=windows).contains(&(allowed / 80.0)), "{report:#}");
}

/// Requests that were sent, and those that a busy machine had no time to send before the end.
fn due(report: &Value) -> u64 {
    report["requests"].as_u64().unwrap() + report["unsent"].as_u64().unwrap()
}

#[test]
fn the_exact_log_has_no_wrong_window_over_any_protocol() {
    let folder = Folder::new("bench-exact");
    let daemon = daemon(&folder);
    assert_exact(&[&format!("http://{}", daemon.http), "--policy", "exact"]);
    assert_exact(&[&format!("resp://{}", daemon.resp), "--policy", "exact"]);
    assert_exact(&[&format!("grpc://{}", daemon.grpc), "--domain", "shop", "--entry", "user"]);
}

#[test]
fn the_exact_log_in_redis_has_no_wrong_window() {
    let redis = RedisServer::start().unwrap();
    assert_exact(&[&format!("redis://127.0.0.1:{}", redis.port())]);
}

#[test]
fn a_fixed_window_is_reported_with_its_wrong_windows() {
    let folder = Folder::new("bench-leaky");
    let daemon = daemon(&folder);
    let target = format!("http://{}", daemon.http);
    let html = folder.path("report.html");
    // Keys are drawn at random, so a window that fills late is followed by one that fills early.
    let page = ["--html", html.to_str().unwrap()];
    let (code, report) =
        bench(&[&[target.as_str(), "--policy", "leaky"], &LOAD[..], &page].concat());
    assert_eq!(code, Some(1), "{report:#}");
    assert!(report["wrong"]["windows_over"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(report["wrong"]["windows_under"], 0, "{report:#}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("Wrong decisions") && page.contains("at least"), "{page}");
}

#[test]
fn keys_are_distributed_as_asked_for() {
    let folder = Folder::new("bench-keys");
    let daemon = daemon(&folder);
    let target = format!("http://{}", daemon.http);
    let run = |policy: &str, quota: &str, arguments: &[&str]| {
        let load = [&target, "--policy", policy, "--quota", quota, "--rate", "400", "--for", "2s"];
        let (code, report) = bench(&[&load[..], arguments].concat());
        assert_eq!(code, Some(0), "{report:#}");
        report
    };
    // Ten keys with 40 requests per second each, where 20 may pass.
    let half = run("exact", "20/second", &["--denials", "50"]);
    assert_eq!(half["keys"], "10 keys, uniform", "{half:#}");
    // 760 of the 800 requests are for the hot key, and 20 of them may pass.
    let hot = run("hourly", "20/hour", &["--distribution", "hot", "--hot", "95", "--keys", "1000"]);
    let denied = |report: &Value| report["denied_share"].as_f64().unwrap();
    assert!(denied(&hot) > 0.8, "{hot:#}");
    // The most frequent of the keys that follow Zipf's distribution has an eighth of the requests.
    let zipf = run("hourly", "20/hour", &["--distribution", "zipf", "--keys", "1000"]);
    assert!(denied(&zipf) > 0.0 && denied(&zipf) < 0.6, "{zipf:#}");
}

/// An HTTP server with one connection at a time that answers every request with `reply`, after a stall before the
/// first one that comes when `stall` is not zero.
#[expect(clippy::disallowed_methods, reason = "the stall that is measured")]
fn server(reply: &'static str, stall: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        // The first connection is the probe's.
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut requests = 0;
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                    requests += 1;
                    if number > 0 && requests == 1 {
                        thread::sleep(stall);
                    }
                    if stream.write_all(reply.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const TOO_MANY: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";

#[test]
fn any_url_can_be_measured_and_status_429_is_a_denial() {
    let target = |reply| format!("http://{}/?user={{key}}", server(reply, Duration::ZERO));
    let load = ["--rate", "50", "--for", "1s", "--keys", "1", "--quota", "10/second"];
    // Allows everything: 50 in a second where 10 may pass.
    let (code, report) = bench(&[&[target(OK).as_str()], &load[..]].concat());
    assert_eq!((code, &report["allowed"]), (Some(1), &50.into()), "{report:#}");
    assert_eq!(report["wrong"]["windows_over"], 1, "{report:#}");
    // Denies everything.
    let (code, report) = bench(&[&[target(TOO_MANY).as_str()], &load[..]].concat());
    assert_eq!((code, &report["denied"]), (Some(1), &50.into()), "{report:#}");
    assert_eq!(report["wrong"]["wrongly_denied"], 50, "{report:#}");
}

#[test]
fn requests_that_were_due_during_a_stall_are_measured_from_when_they_were_due() {
    let target = format!("http://{}/", server(OK, Duration::from_secs(1)));
    let run = |pace: &[&str]| {
        let all =
            [&["bench", "--json", "--connections", "1", "--for", "2s", &target][..], pace].concat();
        let output = output(&all);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let open = run(&["--rate", "100"]);
    // 100 of 200 requests were due during the stall and waited for half a second on average; one was in flight.
    assert_eq!(due(&open), 200, "{open:#}");
    let seconds = |report: &Value, kind: &str, name: &str| report[kind][name].as_f64().unwrap();
    assert!(seconds(&open, "latency", "p90") > 0.5, "{open:#}");
    assert!(seconds(&open, "service_time", "p90") < seconds(&open, "latency", "p90"), "{open:#}");
    assert!(seconds(&open, "service_time", "max") >= 1.0, "{open:#}");
    // A closed loop omits them.
    let closed = run(&[]);
    assert!(seconds(&closed, "latency", "max") >= 1.0, "{closed:#}");
    assert!(seconds(&closed, "latency", "p50") < 0.5, "{closed:#}");
}

#[test]
fn requests_that_were_due_and_not_sent_fail_the_run() {
    let folder = Folder::new("bench-unsent");
    let (target, html) =
        (format!("http://{}/", server(OK, Duration::ZERO)), folder.path("report.html"));
    // One connection would need a microsecond per request.
    let load = ["--rate", "1000000", "--connections", "1", "--for", "1s", "--deadline", "1s"];
    let page = ["--html", html.to_str().unwrap(), "--header", "authorization: Bearer s3cret"];
    let output = output(&[&["bench", "--json", target.as_str()], &load[..], &page].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["unsent"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("were due and not sent"), "{page}");
    assert!(page.contains("authorization: ***") && !page.contains("s3cret"), "{page}");
}

#[test]
fn what_cannot_be_measured_is_reported_with_the_reason() {
    let folder = Folder::new("bench-refused");
    let daemon = daemon(&folder);
    let http = format!("http://{}", daemon.http);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = ["http", "grpc", "resp", "redis"].map(|scheme| format!("{scheme}://{free}"));
    for target in &closed {
        let refused = output(&[
            "bench", target, "--policy", "p", "--domain", "d", "--quota", "1/second", "--for", "1s",
        ]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(69), "{target}: {said}");
        assert!(said.contains("cannot reach") && said.contains(&free.to_string()), "{said}");
    }
    for (arguments, code, expected) in [
        (&[http.as_str(), "--policy", "exakt"][..], 1, "exakt"),
        (&["ftp://host"], 2, "ftp://host"),
        (&["resp://127.0.0.1:1"], 2, "--policy"),
        (&["redis://127.0.0.1:1"], 2, "--quota"),
        (&[&http, "--rate", "0"], 2, "rate"),
    ] {
        let refused = output(&[&["bench"], arguments].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
