//! Clients that hold connections, and listeners that must not suffer from it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use slidegate_testkit::server::poll;

use crate::process::{Daemon, Folder, command, free_ports};

fn daemon(folder: &Folder, limits: &str) -> Daemon {
    let text = format!("limits: {limits}\npolicies: [{{name: api, quotas: [1000/h]}}]\n");
    Daemon::with_config(&folder.write("limits.yaml", &text))
}

/// Opens connections that send `bytes` and nothing more.
fn hold(address: SocketAddr, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // One that was refused may be closed already.
        let _ = stream.write_all(bytes);
        stream
    };
    (0..count).map(open).collect()
}

fn wait_for(daemon: &Daemon, metric: &str, least: f64) {
    poll(metric, || Ok(daemon.metric(metric).filter(|value| *value >= least)))
        .unwrap_or_else(|error| panic!("{error}: {:?}", daemon.metric(metric)));
}

#[test]
fn partial_commands_are_cut_and_leave_other_listeners_their_connections() {
    let folder = Folder::new("slow_commands");
    let daemon = daemon(&folder, "{connections: 50, header_timeout: 2s}");
    let held = hold(daemon.resp, 60, b"*");
    wait_for(&daemon, "slidegate_connections_evicted_total{listener=\"resp\"}", 10.0);
    assert!(daemon.check("api", "k"));
    daemon.hears("listener resp: all 50 connections are in use");
    // One byte at a time does not extend the deadline.
    for mut stream in &held {
        let _ = stream.write_all(b"2");
    }
    wait_for(&daemon, "slidegate_connections_cut_total{listener=\"resp\"}", 50.0);
    assert_eq!(daemon.metric("slidegate_connections_open{listener=\"resp\"}"), Some(0.0));
    for listener in ["http", "grpc", "admin"] {
        let metric = format!("slidegate_connections_cut_total{{listener=\"{listener}\"}}");
        assert_eq!(daemon.metric(&metric), Some(0.0));
    }
}

/// A request that keeps its connection. Returns `false` if the connection was closed.
fn checks(stream: &mut TcpStream) -> bool {
    let request = b"GET /v1/check?policy=api&key=k HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut reply = Vec::new();
    let mut buffer = [0; 1024];
    let mut is_open = stream.write_all(request).is_ok();
    while is_open && !reply.ends_with(b"}") {
        let read = stream.read(&mut buffer).unwrap_or(0);
        reply.extend_from_slice(&buffer[..read]);
        is_open = read > 0;
    }
    reply.starts_with(b"HTTP/1.1 200 OK")
}

#[test]
fn idle_connections_do_not_lock_out_new_clients_and_strangers_are_closed_first() {
    let folder = Folder::new("idle_connections");
    let daemon = daemon(&folder, "{connections: 50, header_timeout: 1m}");
    let mut known = TcpStream::connect(daemon.http).unwrap();
    assert!(checks(&mut known));
    let body = b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
        content-length: 10\r\n\r\n";
    let kinds: [&[u8]; 3] = [b"", b"GET / HT", body];
    for bytes in kinds {
        let _held = hold(daemon.http, 120, bytes);
        assert!(daemon.check("api", "k"), "{bytes:?}");
    }
    let _held = hold(daemon.resp, 120, b"*");
    let mut client = TcpStream::connect(daemon.resp).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply, *b"+PONG\r\n");
    assert!(checks(&mut known), "a client that was served is closed after the strangers");
    // Some of the 360 are closed by the test before the daemon accepts them.
    wait_for(&daemon, "slidegate_connections_evicted_total{listener=\"http\"}", 50.0);
    assert_eq!(daemon.metric("slidegate_connections_refused_total{listener=\"http\"}"), Some(0.0));
}

// 64 connections without a request silenced it for 78 s, and the supervisor killed the daemon.
#[test]
fn idle_connections_do_not_silence_the_admin_listener() {
    let folder = Folder::new("idle_admin");
    let daemon = daemon(&folder, "{}");
    let admin = daemon.announced("admin");
    for bytes in [&b""[..], b"GET /livez HT", b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n"] {
        let _held = hold(admin, 150, bytes);
        for path in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(daemon.admin("GET", path).0, 200, "{bytes:?}");
        }
    }
}

#[test]
fn slow_heads_and_openings_are_cut_at_every_listener() {
    let folder = Folder::new("slow_heads");
    let daemon = daemon(&folder, "{header_timeout: 200ms}");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [&preface[..], &[0, 0, 6, 4, 0, 0, 0, 0, 0], &[0, 3, 0, 0, 0, 9]].concat();
    let openings: [&[u8]; 4] = [b"", b"PRI", preface, &settings];
    let _held: Vec<_> = openings.iter().flat_map(|bytes| hold(daemon.grpc, 3, bytes)).collect();
    wait_for(&daemon, "slidegate_connections_cut_total{listener=\"grpc\"}", 12.0);
    let openings: [&[u8]; 3] = [b"GET / HT", preface, &settings];
    let _held: Vec<_> = openings.iter().flat_map(|bytes| hold(daemon.http, 3, bytes)).collect();
    wait_for(&daemon, "slidegate_connections_cut_total{listener=\"http\"}", 9.0);
}

#[test]
fn floods_of_control_frames_are_ended() {
    let folder = Folder::new("control_frames");
    let daemon = daemon(&folder, "{}");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
    let floods: [&[u8]; 3] = [
        b"\0\0\0\x04\0\0\0\0\0",                   // SETTINGS
        b"\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0", // PING
        b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01",       // WINDOW_UPDATE
    ];
    for (listener, address) in [("grpc", daemon.grpc), ("http", daemon.http)] {
        for flood in floods {
            let mut stream = TcpStream::connect(address).unwrap();
            let mut reader = stream.try_clone().unwrap();
            // A client that reads: it is ended for what it sends.
            let reading = thread::spawn(move || reader.read_to_end(&mut Vec::new()));
            stream.write_all(preface).unwrap();
            // Ends with an error when the other side closes.
            let sent = (0..1_000_000).find(|_| stream.write_all(flood).is_err());
            assert!(sent.is_some(), "{listener} {flood:?}");
            drop(stream);
            let _ = reading.join();
        }
        let metric = format!("slidegate_connections_cut_total{{listener=\"{listener}\"}}");
        wait_for(&daemon, &metric, 3.0);
    }
    assert!(daemon.check("api", "k"));
}

/// A daemon that a shell starts after `ulimit` with this argument.
fn with_ulimit(limit: &str, settings: &[&str]) -> Daemon {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh"]);
    shell.arg(command(&[]).get_program()).arg("serve").args(free_ports()).args(settings);
    Daemon::with(shell)
}

#[test]
fn a_low_limit_of_file_descriptors_leaves_health_and_metrics_reachable() {
    let daemon = with_ulimit("-n 160", &["--set", "limits.connections=100"]);
    daemon.hears("with a limit of 160 file descriptors");
    let _held: Vec<_> = [daemon.http, daemon.grpc, daemon.resp]
        .into_iter()
        .flat_map(|address| hold(address, 100, b""))
        .collect();
    wait_for(&daemon, "slidegate_connections_evicted_total{listener=\"http\"}", 1.0);
    assert_eq!(daemon.admin("GET", "/livez").0, 200);
    assert_eq!(daemon.admin("GET", "/readyz").0, 200);
    assert_eq!(daemon.metric("slidegate_connections_failed_total{listener=\"http\"}"), Some(0.0));
    daemon.hears("connections are in use");
}

#[test]
fn the_default_number_of_connections_follows_the_limit_of_file_descriptors_without_a_warning() {
    let daemon = with_ulimit("-n 1024", &[]);
    let max = daemon.metric("slidegate_connections_max{listener=\"http\"}").unwrap();
    assert!((200.0..341.0).contains(&max), "{max}");
    assert!(!daemon.said().contains("WARN"), "{}", daemon.said());
}

#[test]
fn the_soft_limit_of_file_descriptors_is_raised() {
    assert!(with_ulimit("-Sn 64", &[]).metric("process_max_fds").unwrap() > 64.0);
}

// The queue of connections that wait to be accepted: the daemon is stopped, so none is.
#[test]
fn hundreds_of_connections_wait_in_the_backlog() {
    let folder = Folder::new("backlog");
    let daemon = daemon(&folder, "{}");
    daemon.signal("STOP");
    let connect = |_| TcpStream::connect_timeout(&daemon.http, Duration::from_secs(5));
    let waiting: Vec<_> = (0..300).map_while(|number| connect(number).ok()).collect();
    daemon.signal("CONT");
    assert_eq!(waiting.len(), 300);
}

// With glibc's allocator, all of it stayed, and more after every round.
#[cfg(feature = "jemalloc")]
#[test]
fn memory_of_closed_connections_is_returned() {
    /// In bytes. The connections take 25 MB in a debug build while they are open.
    const KEPT_MAX: f64 = 12e6;
    let folder = Folder::new("closed_connections");
    let daemon = daemon(&folder, "{header_timeout: 1m}");
    let rss = || daemon.metric("process_resident_memory_bytes").unwrap();
    let head = format!("GET /v1/check HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(300));
    let start = rss();
    for round in 0..3 {
        for (address, name, bytes) in [
            (daemon.http, "http", head.as_bytes()),
            (daemon.grpc, "grpc", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
            (daemon.resp, "resp", b"*3\r\n$8\r\nSG.CHECK\r\n$7\r\nexa"),
        ] {
            let open = format!("slidegate_connections_open{{listener=\"{name}\"}}");
            let held = hold(address, 1000, bytes);
            wait_for(&daemon, &open, 1000.0);
            drop(held);
            poll("the end", || Ok((daemon.metric(&open) == Some(0.0)).then_some(()))).unwrap();
        }
        let kept = || Ok(Some(rss() - start).filter(|kept| *kept < KEPT_MAX));
        poll("the memory", kept).unwrap_or_else(|error| {
            panic!("{error}: round {round}, {} above {start}", rss() - start)
        });
    }
}

/// The bytes of a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A connection whose calls each announce a message and send ten bytes of it.
fn announce(path: &str, message: u32, calls: u32) -> Vec<u8> {
    let mut head = vec![0x83, 0x86];
    for (name, value) in [(":path", path), ("content-type", "application/grpc")] {
        for text in [name, value] {
            if text == name {
                head.push(0);
            }
            head.push(u8::try_from(text.len()).unwrap());
            head.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, b""));
    bytes.extend(frame(4, 1, 0, b""));
    let part = [&[0][..], &message.to_be_bytes(), &[0; 10]].concat();
    for stream in (1..2 * calls).step_by(2) {
        bytes.extend(frame(1, 4, stream, &head));
        bytes.extend(frame(0, 0, stream, &part));
    }
    bytes
}

// tonic reserves what a client announces, and a buffer for each call: 16 KB for 140 bytes.
#[cfg(feature = "jemalloc")]
#[test]
fn announced_bytes_take_no_memory_before_they_arrive() {
    /// In bytes, for a debug build.
    const TAKEN_MAX: f64 = 60e6;
    let folder = Folder::new("announced");
    let daemon = daemon(&folder, "{bodies_max_mb: 8}");
    let rss = || daemon.metric("process_resident_memory_bytes").unwrap();
    let refused = || daemon.metric("slidegate_bodies_refused_total").unwrap();
    for (path, message) in [
        ("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", 900_000),
        ("/grpc.health.v1.Health/Check", 4000),
        ("/grpc.health.v1.Health/Watch", 4000),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 4000),
    ] {
        let (before, refused_before) = (rss(), refused());
        let held = hold(daemon.grpc, 80, &announce(path, message, 125));
        // 8 MiB are for about 1,900 of them; the rest is refused.
        poll("refusals", || Ok((refused() > refused_before + 5000.0).then_some(())))
            .unwrap_or_else(|error| panic!("{error}: {path}: {} {}", refused(), rss() - before));
        let taken = rss() - before;
        assert!(taken < TAKEN_MAX, "{path}: {taken}");
        drop(held);
        let used = "slidegate_incomplete_body_bytes";
        poll("the end", || Ok((daemon.metric(used) == Some(0.0)).then_some(()))).unwrap();
    }
    // A client that sends whole requests is served meanwhile.
    let parts =
        [&b"*16\r\n"[..], &[b"$60000\r\n", &vec![b'x'; 60_000][..], b"\r\n"].concat().repeat(15)];
    let (before, refused_before) = (rss(), refused());
    let held = hold(daemon.resp, 50, &parts.concat());
    assert!(daemon.check("api", "k"));
    wait_for(&daemon, "slidegate_bodies_refused_total", refused_before + 1.0);
    assert!(rss() - before < TAKEN_MAX, "commands: {}", rss() - before);
    drop(held);
}
