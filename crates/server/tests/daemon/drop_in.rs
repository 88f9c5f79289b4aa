//! The daemon in the place of envoyproxy/ratelimit: an environment, limits and an Envoy as that
//! project's compose file has them, and a test for each of its end-to-end scripts. `docs/envoy.md`
//! describes both.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use slidegate_testkit::server::{RedisServer, ReverseProxy, poll};

use crate::process::Daemon;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/drop_in").join(name)
}

/// A text with the names in braces replaced.
fn filled(name: &str, values: &[(&str, &str)]) -> String {
    let text = fs::read_to_string(file(name)).unwrap();
    let replaced =
        |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
    values.iter().fold(text, replaced)
}

/// A service that answers every request with its name.
pub(crate) fn service(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
                    if line == "\r\n" {
                        let length = name.len();
                        let reply =
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
                        stream.get_mut().write_all(reply.as_bytes()).unwrap();
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

/// A StatsD server over TCP that keeps every line.
fn statsd() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let read = BufReader::new(stream.unwrap()).lines().map_while(Result::ok);
            read.for_each(|line| kept.lock().unwrap().push(line));
        }
    });
    (address, lines)
}

/// Redis, the daemon, two services and Envoy in front of them.
struct Stack {
    envoy: ReverseProxy,
    daemon: Daemon,
    redis: RedisServer,
    statistics: Arc<Mutex<Vec<String>>>,
}

impl Stack {
    fn start() -> Self {
        let redis = RedisServer::start().unwrap();
        let (statsd, statistics) = statsd();
        let environment = filled(
            "environment",
            &[
                ("statsd", &statsd.port().to_string()),
                ("redis", &format!("127.0.0.1:{}", redis.port())),
                ("limits", file("limits").to_str().unwrap()),
            ],
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_slidegate"));
        // No flag but the Redis protocol's port, which that service does not have.
        command.args(["--listen-resp", "127.0.0.1:0"]).env_clear();
        let set = environment.lines().filter(|line| !line.starts_with('#'));
        command.envs(set.map(|line| line.split_once('=').unwrap()));
        let daemon = Daemon::with(command);
        let ports = [daemon.grpc, service("first"), service("second")];
        let [ratelimit, first, second] = ports.map(|address| address.port().to_string());
        let config = |port: u16| {
            filled(
                "envoy.yaml",
                &[
                    ("port", &port.to_string()),
                    ("ratelimit", &ratelimit),
                    ("first", &first),
                    ("second", &second),
                ],
            )
        };
        Self { envoy: ReverseProxy::envoy(config).unwrap(), daemon, redis, statistics }
    }

    /// Sends a request and returns the whole reply.
    fn get(&self, path: &str, headers: &[(&str, &str)]) -> String {
        let mut stream = TcpStream::connect(self.envoy.address()).unwrap();
        let mut head = format!("GET {path} HTTP/1.1\r\nhost: edge\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// The status codes of as many requests as `codes` has.
    #[track_caller]
    fn expect(&self, path: &str, headers: &[(&str, &str)], codes: &[u16]) {
        for (index, code) in codes.iter().enumerate() {
            let reply = self.get(path, headers);
            let got = reply.get(9..12).unwrap_or_default();
            let said = self.daemon.said();
            assert_eq!(got, code.to_string(), "request {index} to {path} with {headers:?}\n{said}");
        }
    }

    /// Waits until the StatsD server has received a counter with this sum.
    fn counted(&self, name: &str, expected: u64) {
        let start = format!("{name}:");
        let sum = || {
            let lines = self.statistics.lock().unwrap();
            let values = lines.iter().filter_map(|line| line.strip_prefix(&start));
            values.filter_map(|value| value.strip_suffix("|c")?.parse::<u64>().ok()).sum::<u64>()
        };
        poll(name, || Ok((sum() == expected).then_some(())))
            .unwrap_or_else(|error| panic!("{error}: {:#?}", self.statistics.lock().unwrap()));
    }
}

#[test]
fn a_request_below_its_limit_passes() {
    let stack = Stack::start();
    stack.expect("/route", &[("client", "a"), ("route", "trial")], &[200]);
    stack.expect("/route", &[("client", "a"), ("route", "free")], &[200; 5]);
    let said = stack.daemon.said();
    assert!(said.contains("environment of envoyproxy/ratelimit detected"), "{said}");
    // The counts are in Redis, under the prefix of the environment.
    let mut redis = stack.redis.connection().unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis).unwrap();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.starts_with("ratelimit:")), "{keys:?}");
    // The debug port of the reference service has these too.
    let (status, stats) = stack.daemon.admin("GET", "/stats");
    let line = "ratelimit.service.rate_limit.edge.client.route_trial.total_hits: 1\n";
    assert!(status == 200 && stats.contains(line), "{stats}");
    let (status, limits) = stack.daemon.admin("GET", "/rlconfig");
    assert!(status == 200 && limits.contains("edge.client.route_strict: unit=MINUTE"), "{limits}");
}

#[test]
fn a_request_over_its_limit_is_rejected() {
    let stack = Stack::start();
    let headers = [("client", "a"), ("route", "strict")];
    stack.expect("/route", &headers, &[200, 200, 200, 429]);
    assert!(stack.get("/route", &headers).starts_with("HTTP/1.1 429 Too Many Requests"));
    stack.expect("/route", &[("client", "b"), ("route", "strict")], &[200]);
}

#[test]
fn a_limit_in_shadow_mode_rejects_nothing() {
    let stack = Stack::start();
    let headers = [("client", "a"), ("route", "trial")];
    stack.expect("/route", &headers, &[200; 5]);
    let reply = stack.get("/route", &headers);
    assert!(reply.contains("x-ratelimit-remaining: 0\r\n"), "{reply}");
    stack.counted("ratelimit.service.rate_limit.edge.client.route_trial.shadow_mode", 3);
}

#[test]
fn a_limit_replaces_those_that_it_names() {
    let stack = Stack::start();
    // A closed plan, which one target opens.
    let closed = [("client", "a"), ("plan", "closed")];
    let with = |target| [&closed[..], &[("zone", "front"), ("target", target)]].concat();
    stack.expect("/replaces", &closed, &[429]);
    stack.expect("/replaces", &with("plain"), &[429]);
    stack.expect("/replaces", &with("opened"), &[200, 200, 429]);

    // A replaced limit is neither charged nor lifted for other requests.
    let basic = |client, target| {
        [("client", client), ("plan", "basic"), ("zone", "front"), ("target", target)]
    };
    stack.expect("/replaces", &basic("b", "raised"), &[200, 200, 429]);
    stack.expect("/replaces", &basic("b", "unknown"), &[200, 429]);
    stack.expect("/replaces", &basic("b", "raised"), &[429]);

    // One limit replaces several.
    let partner = [&basic("c", "named")[..], &[("account", "partner")]].concat();
    stack.expect("/replaces", &partner, &[200, 200, 200, 200, 429]);
    stack.expect("/replaces", &[("client", "d"), ("plan", "basic")], &[200, 429]);
    let named = [("client", "e"), ("plan", "other"), ("zone", "front"), ("target", "named")];
    stack.expect("/replaces", &named, &[200, 200, 429]);
    stack.expect("/replaces", &partner, &[429]);
}

#[test]
fn statistics_carry_the_value_of_a_detailed_metric() {
    let stack = Stack::start();
    stack.expect("/tenant", &[("tenant", "10.0.0.1:80")], &[200, 200, 429]);
    // Colons and the dots of addresses mean something to StatsD.
    let name = "ratelimit.service.rate_limit.edge.tenant_10_0_0_1_80";
    stack.counted(&format!("{name}.over_limit"), 1);
    stack.counted(&format!("{name}.total_hits"), 3);
    stack.counted("ratelimit.service.config_load_success", 1);
    stack.counted("ratelimit_server.ShouldRateLimit.total_requests", 3);
    let timed = || {
        let lines = stack.statistics.lock().unwrap();
        let mut times = lines.iter();
        Ok(times
            .any(|line| line.starts_with("ratelimit_server.ShouldRateLimit.response_time:"))
            .then_some(()))
    };
    poll("response times", timed).unwrap();
    // The same for Prometheus, with the labels of that service's mapping.
    for (line, value) in [
        ("rate_limit_over_limit{domain=\"edge\",key1=\"tenant_10_0_0_1_80\"}", 1.0),
        ("config_load_success", 1.0),
        ("total_requests{grpc_method=\"ShouldRateLimit\"}", 3.0),
        ("response_time_seconds_count{grpc_method=\"ShouldRateLimit\"}", 3.0),
        ("should_rate_limit_error{err_type=\"redis_error\"}", 0.0),
    ] {
        let name = format!("ratelimit_service_{line}");
        assert_eq!(stack.daemon.metric(&name), Some(value), "{name}");
    }
    stack.expect("/route", &[("client", "a"), ("route", "strict")], &[200]);
    let name = "ratelimit_service_rate_limit_within_limit\
                {domain=\"edge\",key1=\"client\",key2=\"route_strict\"}";
    assert_eq!(stack.daemon.metric(name), Some(1.0));
}

#[test]
fn a_request_passes_while_one_of_its_quotas_has_units_left() {
    let stack = Stack::start();
    stack.expect("/quota", &[], &[200, 200, 429]);
}

/// A look passes once more after the last unit was charged, as in the reference service.
#[test]
fn a_quota_that_is_charged_afterwards_passes_one_more() {
    let stack = Stack::start();
    let charged = "ratelimit.service.rate_limit.edge.service_second.total_hits";
    for number in 1..=3 {
        stack.expect("/charged-afterwards", &[], &[200]);
        // Envoy charges when the response is complete.
        stack.counted(charged, number);
    }
    stack.expect("/charged-afterwards", &[], &[429, 429]);
}

#[test]
fn metadata_chooses_a_service_with_units_left() {
    let stack = Stack::start();
    let mut charges = [0, 0];
    for (index, name) in [(0, "first"), (0, "first"), (1, "second"), (1, "second"), (1, "second")] {
        let reply = stack.get("/chosen-service", &[]);
        assert!(reply.ends_with(name), "{charges:?}: {reply}");
        charges[index] += 1;
        let counter = format!("ratelimit.service.rate_limit.edge.service_{name}.total_hits");
        stack.counted(&counter, charges[index]);
    }
    stack.expect("/chosen-service", &[], &[429]);
}
