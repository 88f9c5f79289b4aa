//! Everything at once, behind a real Envoy: Redis dies, the daemon dies, the disk is full, descriptors run
//! out, and all listeners are flooded.
//!
//! No client may get more than its limit, the health endpoints must be true, and clients that have done
//! nothing wrong should notice as little as possible. How much they notice is printed, not asserted.

#![expect(clippy::print_stdout, reason = "a test reports what it measured")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use slidegate_testkit::server::{RedisServer, ReverseProxy, poll};

use crate::process::{Daemon, Folder, command};

const LIMIT: u64 = 20;

/// Requests of the normal client in each stage.
const STAGE: u64 = 50;

const ENVOY: &str = r#"
static_resources:
  clusters:
    - name: slidegate
      type: STATIC
      connect_timeout: 1s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: slidegate
        endpoints:
          - lb_endpoints:
              - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: GRPC}}}
    - name: service
      type: STATIC
      connect_timeout: 1s
      load_assignment:
        cluster_name: service
        endpoints:
          - lb_endpoints:
              - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: SERVICE}}}
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: PORT}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: edge
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: night
                      timeout: 2s
                      failure_mode_deny: true
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: {envoy_grpc: {cluster_name: slidegate}}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {prefix: /}
                          route:
                            cluster: service
                            rate_limits:
                              - actions:
                                  - request_headers: {header_name: x-user, descriptor_key: user}
"#;

/// A service that answers every request with 200.
fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut lines = BufReader::new(stream);
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
                    if line == "\r\n" {
                        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        let _ = lines.get_mut().write_all(reply);
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

/// Ports that were free a moment ago, so that a daemon can be restarted on the same ports.
fn ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// What a client has seen.
#[derive(Default)]
struct ClientTotals {
    is_over: AtomicBool,
    allowed: AtomicU64,
    limited: AtomicU64,
    failed: AtomicU64,
}

impl ClientTotals {
    fn all(&self) -> u64 {
        [&self.allowed, &self.limited, &self.failed]
            .map(|count| count.load(Ordering::Relaxed))
            .iter()
            .sum()
    }

    /// Waits for more requests.
    fn more(&self, count: u64) {
        let wanted = self.all() + count;
        poll("requests", || Ok((self.all() >= wanted).then_some(()))).unwrap();
    }
}

/// Sends requests of `user` through Envoy until it is over, and returns how long each took.
fn client(
    envoy: SocketAddr,
    user: impl Fn(u64) -> String + Send + 'static,
    pause: Duration,
    seen: &Arc<ClientTotals>,
) -> JoinHandle<Vec<Duration>> {
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        let mut took = Vec::new();
        for number in 0.. {
            if seen.is_over.load(Ordering::Relaxed) {
                break;
            }
            let began = now();
            let outcome = match status(envoy, &user(number)) {
                Some(200) => &seen.allowed,
                Some(429) => &seen.limited,
                _ => &seen.failed,
            };
            took.push(began.elapsed());
            outcome.fetch_add(1, Ordering::Relaxed);
            rest(pause);
        }
        took
    })
}

#[expect(clippy::disallowed_methods, reason = "how long clients wait is printed")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the pace of a client")]
fn rest(time: Duration) {
    thread::sleep(time);
}

fn status(envoy: SocketAddr, user: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&envoy, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-user: {user}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    reply.get(9..12)?.parse().ok()
}

struct Night {
    folder: Folder,
    redis: RedisServer,
    /// HTTP, gRPC, the Redis protocol, admin.
    ports: [u16; 4],
}

impl Night {
    fn new() -> Self {
        // What Redis has confirmed survives its end.
        let redis = RedisServer::builder().config("appendonly yes").config("appendfsync always");
        let night = Self {
            folder: Folder::new("bad_night"),
            redis: redis.start().unwrap(),
            ports: ports(),
        };
        night.folder.write(
            "limits.yaml",
            &format!(
                "stores: {{shared: {{redis: \"{}\", deadline: 1s}}}}\n\
                 snapshot: {{path: \"{}\", interval: 1s, start_empty_if_damaged: true}}\n\
                 audit: {{path: \"{}\", decisions: all}}\n\
                 policies: [{{name: memory, quotas: [1000/h]}}]\n\
                 domains:\n\
                 - domain: night\n  store: shared\n  descriptors:\n\
                 \x20 - {{key: user, rate_limit: {{unit: hour, requests_per_unit: {LIMIT}}}}}\n",
                night.redis.url(),
                night.folder.path("snapshot").display(),
                night.folder.path("audit.log").display(),
            ),
        );
        fs::create_dir_all(night.folder.path("snapshot")).unwrap();
        night
    }

    /// Restarts the daemon on the same ports, with files of at most 16 KiB and 220 file descriptors.
    fn daemon(&self) -> Daemon {
        let mut shell = Command::new("sh");
        // A file that grows beyond the limit is an error then, and not the end of the process.
        shell.args(["-c", "trap '' XFSZ; ulimit -f 32 && ulimit -n 220 && exec \"$@\"", "sh"]);
        shell.arg(command(&[]).get_program()).args(["serve", "--config"]);
        shell.arg(self.folder.path("limits.yaml"));
        for (flag, port) in ["http", "grpc", "resp", "admin"].into_iter().zip(self.ports) {
            shell.args([format!("--listen-{flag}"), format!("127.0.0.1:{port}")]);
        }
        Daemon::with(shell)
    }
}

fn until_ready(daemon: &Daemon, status: u16) {
    poll("readiness", || Ok((daemon.admin("GET", "/readyz").0 == status).then_some(())))
        .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    assert_eq!(daemon.admin("GET", "/livez").0, 200);
}

/// Holds connections that send nothing more, and sends as fast as it can over a few others.
fn flood(daemon: &Daemon, is_over: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let check = b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
        content-length: 32\r\n\r\n{\"policy\":\"memory\",\"key\":\"flood\"}";
    let ping = b"\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut threads = Vec::new();
    for (address, part, whole, opening) in [
        (daemon.http, &b"GET / HT"[..], &check[..], &b""[..]),
        (
            daemon.grpc,
            b"PRI * HTTP/2.0\r\n",
            ping,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        ),
        (daemon.resp, b"*3\r\n$8", b"SG.CHECK memory flood\r\n", b""),
    ] {
        for number in 0..4 {
            let is_over = Arc::clone(is_over);
            threads.push(thread::spawn(move || {
                let mut held = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    if number > 0 && held.len() < 100 {
                        let _ = stream.write_all(part);
                        held.push(stream);
                        continue;
                    }
                    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
                    let _ = stream.write_all(opening);
                    // The replies are not read: the listener has to cope with that too.
                    let _ = (0..1000).find(|_| stream.write_all(whole).is_err());
                }
            }));
        }
    }
    threads
}

fn percentile(took: &mut [Duration], of: usize) -> Duration {
    took.sort_unstable();
    took.get(took.len().saturating_sub(1) * of / 100).copied().unwrap_or_default()
}

/// The clients of the night.
struct Traffic {
    greedy: Arc<ClientTotals>,
    normal: Arc<ClientTotals>,
    greedy_clients: Vec<JoinHandle<Vec<Duration>>>,
    normal_client: JoinHandle<Vec<Duration>>,
}

impl Traffic {
    fn start(envoy: SocketAddr) -> Self {
        let (greedy, normal) =
            (Arc::new(ClientTotals::default()), Arc::new(ClientTotals::default()));
        let start = |_| {
            let name = |_| "greedy".to_owned();
            client(envoy, name, Duration::from_millis(5), &greedy)
        };
        let greedy_clients = (0..2).map(start).collect();
        // Another user every ten requests, far from the limit.
        let name = |number: u64| format!("user-{}", number / 10);
        let normal_client = client(envoy, name, Duration::from_millis(10), &normal);
        Self { greedy, normal, greedy_clients, normal_client }
    }

    /// Waits for more requests of the normal client, and compares what was allowed with the limit.
    fn stage(&self, name: &str) {
        self.normal.more(STAGE);
        self.report(name);
    }

    fn report(&self, stage: &str) {
        for (name, seen) in [("greedy", &self.greedy), ("normal", &self.normal)] {
            let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (allowed, limited) = (get(&seen.allowed), get(&seen.limited));
            let failed = get(&seen.failed);
            println!("{stage}: {name} {allowed} allowed, {limited} limited, {failed} failed");
        }
        assert!(self.greedy.allowed.load(Ordering::Relaxed) <= LIMIT, "{stage}");
        assert_eq!(self.normal.limited.load(Ordering::Relaxed), 0, "{stage}");
    }

    fn end(self) {
        for seen in [&self.greedy, &self.normal] {
            seen.is_over.store(true, Ordering::Relaxed);
        }
        for client in self.greedy_clients {
            client.join().unwrap();
        }
        let mut took = self.normal_client.join().unwrap();
        let [half, most, all] = [50, 99, 100].map(|of| percentile(&mut took, of));
        let count = took.len();
        println!("a normal client: {count} requests, p50 {half:?}, p99 {most:?}, longest {all:?}");
    }
}

fn redis_dies(night: &mut Night, daemon: &Daemon, traffic: &Traffic) {
    night.redis.kill().unwrap();
    // The domain's requests are answered with errors, and Envoy denies them.
    until_ready(daemon, 503);
    traffic.stage("without Redis");
    night.redis.restart().unwrap();
    until_ready(daemon, 200);
    traffic.stage("with Redis again");
}

fn daemon_dies(night: &Night, daemon: Daemon, traffic: &Traffic) -> Daemon {
    daemon.kill();
    assert!(TcpStream::connect(("127.0.0.1", night.ports[3])).is_err());
    traffic.stage("without the daemon");
    let daemon = night.daemon();
    until_ready(&daemon, 200);
    traffic.stage("with the daemon again");
    daemon
}

fn disk_fills(daemon: &Daemon, traffic: &Traffic) {
    // More keys than fit into a snapshot of 16 KiB. The audit log is as full.
    for key in 0..1500 {
        assert!(daemon.check("memory", &format!("key{key}")));
    }
    daemon.hears("cannot write, lines wait");
    let failed = "slidegate_snapshots_total{result=\"failed\"}";
    poll(failed, || Ok(daemon.metric(failed).filter(|count| *count > 0.0)))
        .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    until_ready(daemon, 200);
    traffic.stage("with a full disk");
}

fn listeners_are_flooded(daemon: &Daemon, traffic: &Traffic) {
    let is_over = Arc::new(AtomicBool::new(false));
    let floods = flood(daemon, &is_over);
    for listener in ["http", "grpc", "resp"] {
        let evicted = format!("slidegate_connections_evicted_total{{listener=\"{listener}\"}}");
        poll(&evicted, || Ok(daemon.metric(&evicted).filter(|count| *count > 0.0))).unwrap();
    }
    for _ in 0..10 {
        until_ready(daemon, 200);
        traffic.normal.more(STAGE / 10);
    }
    traffic.report("flooded, out of connections");
    is_over.store(true, Ordering::Relaxed);
    for thread in floods {
        thread.join().unwrap();
    }
}

#[test]
fn a_bad_night_admits_no_client_beyond_its_limit() {
    let mut night = Night::new();
    let daemon = night.daemon();
    let (grpc, service) = (night.ports[1].to_string(), service().port().to_string());
    let envoy = ReverseProxy::envoy(|port| {
        ENVOY
            .replace("GRPC", &grpc)
            .replace("SERVICE", &service)
            .replace("port_value: PORT", &format!("port_value: {port}"))
    });
    let envoy = envoy.unwrap();
    until_ready(&daemon, 200);
    let traffic = Traffic::start(envoy.address());
    traffic.stage("calm");
    redis_dies(&mut night, &daemon, &traffic);
    let daemon = daemon_dies(&night, daemon, &traffic);
    disk_fills(&daemon, &traffic);
    listeners_are_flooded(&daemon, &traffic);
    // A user that was not there before is served again.
    poll("calm", || Ok((status(envoy.address(), "late") == Some(200)).then_some(()))).unwrap();
    until_ready(&daemon, 200);
    traffic.report("in the end");
    assert!(traffic.greedy.allowed.load(Ordering::Relaxed) > 0);
    traffic.end();
    // Redis remembers what was used.
    assert_eq!(status(envoy.address(), "greedy"), Some(429));
}
