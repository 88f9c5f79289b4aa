//! Each way in which the proxy breaks a connection, with a real server behind it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::time::Duration;

use redis::{Connection, RedisResult};
use slidegate_testkit::server::{
    AcceptMode, Certificates, Proxy, RedisServer, ReplyFault, monotonic, poll,
};

/// Enough time for a reply. Absent replies are awaited for less.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

fn pair() -> (RedisServer, Proxy) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    (server, proxy)
}

/// Returns a connection through the proxy with this timeout.
fn connect(proxy: &Proxy, patience: Duration) -> Connection {
    let client = redis::Client::open(proxy.url()).unwrap();
    let connection = client.get_connection_with_timeout(LONG).unwrap();
    connection.set_read_timeout(Some(patience)).unwrap();
    connection
}

fn count_up(connection: &mut Connection) -> RedisResult<u64> {
    redis::cmd("INCR").arg("count").query(connection)
}

/// Returns the value in the server, without the proxy.
fn count(server: &RedisServer) -> Option<u64> {
    redis::cmd("GET").arg("count").query(&mut server.connection().unwrap()).unwrap()
}

/// Returns a plain connection.
fn raw(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn read_exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn forwards_and_counts_by_default() {
    let (_server, proxy) = pair();
    let mut stream = raw(&proxy);
    stream.write_all(b"PING\r\n").unwrap();
    assert_eq!(read_exactly(&mut stream, 7), b"+PONG\r\n");
    let mut stream = raw(&proxy);
    stream.write_all(b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nab\r\n").unwrap();
    assert_eq!(read_exactly(&mut stream, 15), b"+PONG\r\n$2\r\nab\r\n");
    let counters = proxy.counters();
    assert_eq!((counters.connections, counters.refused, counters.cuts), (2, 0, 0));
    assert_eq!((counters.bytes_to_server, counters.bytes_to_clients), (6 + 36, 7 + 15));
    assert_eq!((counters.requests, counters.replies), (3, 3));
}

#[test]
fn a_swallowed_reply_leaves_the_request_counted_once() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy, SHORT);
    proxy.fail_replies(ReplyFault::Swallow);
    assert!(count_up(&mut connection).unwrap_err().is_timeout());
    let swallowed = || Ok((proxy.counters().replies_swallowed > 0).then_some(()));
    poll("the reply to be swallowed", swallowed).unwrap();
    assert_eq!(count(&server), Some(1));
    let counters = proxy.counters();
    assert_eq!((counters.replies_swallowed, counters.bytes_swallowed), (1, 4));
    proxy.pass_replies();
    assert_eq!(count_up(&mut connect(&proxy, LONG)).unwrap(), 2);
}

#[test]
fn only_the_next_replies_fail() {
    let (server, proxy) = pair();
    for (count, fault) in [(3, ReplyFault::Cut { after: 0 }), (2, ReplyFault::Cut { after: 1 })] {
        let mut connections: Vec<_> = (0..=count).map(|_| connect(&proxy, LONG)).collect();
        proxy.fail_next(count, fault);
        let answers = connections.iter_mut().map(|connection| count_up(connection).is_ok());
        let passed: Vec<bool> = answers.collect();
        assert_eq!(passed.iter().filter(|passed| !**passed).count() as u64, count);
        assert_eq!(passed.last(), Some(&true));
    }
    assert_eq!(count(&server), Some(4 + 3));
    assert_eq!(proxy.counters().cuts, 5);
}

// Replies in one piece are distinguished: the second of three is missing, not the first or all.
#[test]
fn one_reply_of_a_pipeline_is_swallowed() {
    let (_server, proxy) = pair();
    let mut stream = raw(&proxy);
    stream.write_all(b"PING\r\n").unwrap();
    read_exactly(&mut stream, 7);
    proxy.fail_next(1, ReplyFault::Swallow);
    stream.write_all(b"ECHO a\r\nECHO b\r\nECHO c\r\n").unwrap();
    assert_eq!(read_exactly(&mut stream, 14), b"$1\r\nb\r\n$1\r\nc\r\n");
    assert_eq!(proxy.counters().replies, 4);
}

#[test]
fn a_deaf_connection_stays_deaf_and_others_do_not() {
    let (_server, proxy) = pair();
    let mut deaf = raw(&proxy);
    proxy.fail_next(1, ReplyFault::Deafen);
    for number in 1..=3 {
        deaf.write_all(b"PING\r\n").unwrap();
        let swallowed = || Ok((proxy.counters().replies_swallowed == number).then_some(()));
        poll("the reply to be swallowed", swallowed).unwrap();
    }
    deaf.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(deaf.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(count_up(&mut connect(&proxy, LONG)).unwrap(), 1);
    assert_eq!(proxy.counters().bytes_swallowed, 3 * 7);
}

#[test]
fn a_connection_is_cut_in_the_middle_of_a_reply() {
    let (_server, proxy) = pair();
    let mut stream = raw(&proxy);
    proxy.fail_next(1, ReplyFault::Cut { after: 3 });
    stream.write_all(b"PING\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"+PO");
    let counters = proxy.counters();
    assert_eq!((counters.bytes_to_clients, counters.bytes_swallowed, counters.cuts), (3, 4, 1));
}

#[test]
fn bytes_are_injected_before_a_reply() {
    let (_server, proxy) = pair();
    let mut stream = raw(&proxy);
    proxy.fail_next(1, ReplyFault::Inject(b"?garbage\r\n".to_vec()));
    stream.write_all(b"PING\r\nPING\r\n").unwrap();
    assert_eq!(read_exactly(&mut stream, 24), b"?garbage\r\n+PONG\r\n+PONG\r\n");

    let mut connection = connect(&proxy, LONG);
    proxy.fail_next(1, ReplyFault::Inject(b"?garbage\r\n".to_vec()));
    assert_eq!(count_up(&mut connection).unwrap_err().kind(), redis::ErrorKind::Parse);
}

#[test]
fn a_delayed_request_does_not_reach_the_server_yet() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy, SHORT);
    proxy.delay_requests(NEVER);
    assert!(count_up(&mut connection).unwrap_err().is_timeout());
    assert_eq!(count(&server), None);
}

#[test]
fn a_delayed_reply_comes_when_it_is_due_and_not_before() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy, SHORT);
    proxy.delay_replies(NEVER);
    assert!(count_up(&mut connection).unwrap_err().is_timeout());
    poll("the request", || Ok((count(&server) == Some(1)).then_some(()))).unwrap();

    let mut stream = raw(&proxy);
    proxy.delay_replies(SHORT);
    let asked = monotonic();
    stream.write_all(b"PING\r\n").unwrap();
    assert_eq!(read_exactly(&mut stream, 7), b"+PONG\r\n");
    assert!(monotonic() >= asked + SHORT);
}

#[test]
fn a_throttled_reply_drips() {
    let (server, proxy) = pair();
    let set = redis::cmd("SETRANGE").arg("key").arg(99_999).arg("x").to_owned();
    set.exec(&mut server.connection().unwrap()).unwrap();
    let mut stream = raw(&proxy);
    proxy.throttle_replies(NonZeroU32::new(1));
    stream.write_all(b"GET key\r\n").unwrap();
    // A hundred thousand bytes would take more than a day.
    let length = "$100000\r\n\r\n".len() + 100_000;
    let first = stream.read(&mut vec![0; length]).unwrap();
    assert!(first < length / 2, "{first} bytes at once");
    proxy.throttle_replies(None);
    read_exactly(&mut stream, length - first);
}

#[test]
fn a_throttled_request_drips() {
    let (server, proxy) = pair();
    let mut connection = connect(&proxy, SHORT);
    proxy.throttle_requests(NonZeroU32::new(1));
    assert!(count_up(&mut connection).unwrap_err().is_timeout());
    assert_eq!(count(&server), None);
    proxy.throttle_requests(None);
    poll("the request", || Ok((count(&server) == Some(1)).then_some(()))).unwrap();
}

#[test]
fn a_black_hole_accepts_and_never_answers() {
    let (server, proxy) = pair();
    let mut open = connect(&proxy, SHORT);
    proxy.set_accept_mode(AcceptMode::BlackHole).unwrap();
    assert!(count_up(&mut open).unwrap_err().is_timeout());
    let mut stream = raw(&proxy);
    stream.write_all(b"INCR count\r\n").unwrap();
    stream.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(count(&server), None);

    // Held data arrives, as after a network outage.
    proxy.heal().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(read_exactly(&mut stream, 1), b":");
    poll("both requests", || Ok((count(&server) == Some(2)).then_some(()))).unwrap();
}

#[test]
fn a_shut_proxy_accepts_no_clients_and_keeps_open_connections() {
    let (_server, proxy) = pair();
    let address = SocketAddr::from(([127, 0, 0, 1], proxy.port()));
    let mut inside = connect(&proxy, LONG);
    proxy.set_accept_mode(AcceptMode::Shut).unwrap();
    for _ in 0..3 {
        let outside = TcpStream::connect_timeout(&address, SHORT).unwrap_err();
        assert_eq!(outside.kind(), ErrorKind::TimedOut);
    }
    assert_eq!(count_up(&mut inside).unwrap(), 1);
    let connections = proxy.counters().connections;

    proxy.set_accept_mode(AcceptMode::Open).unwrap();
    assert_eq!(count_up(&mut connect(&proxy, LONG)).unwrap(), 2);
    // The proxy's own connections are not counted.
    assert_eq!(proxy.counters().connections, connections + 1);
}

#[test]
fn all_connections_close_at_once() {
    let (_server, proxy) = pair();
    let mut streams = [raw(&proxy), raw(&proxy)];
    for stream in &mut streams {
        stream.write_all(b"PING\r\n").unwrap();
        read_exactly(stream, 7);
    }
    proxy.close_all();
    for stream in &mut streams {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(count_up(&mut connect(&proxy, LONG)).unwrap(), 1);
}

#[test]
fn connections_are_bounded() {
    let (_server, proxy) = pair();
    let open: Vec<TcpStream> = (0..256).map(|_| raw(&proxy)).collect();
    let accepted = || Ok((proxy.counters().connections == 256).then_some(()));
    poll("all to be accepted", accepted).unwrap();
    assert_eq!(raw(&proxy).read(&mut [0]).unwrap(), 0);
    assert_eq!(proxy.counters().refused, 1);
    drop(open);
    let again = || Ok(redis::Client::open(proxy.url())?.get_connection().ok());
    poll("room for another", again).unwrap();
}

#[test]
fn a_server_may_be_restarted_behind_it() {
    let (mut server, proxy) = pair();
    let mut connection = connect(&proxy, LONG);
    server.kill().unwrap();
    assert!(count_up(&mut connection).is_err());
    assert!(redis::Client::open(proxy.url()).unwrap().get_connection().is_err());
    server.restart().unwrap();
    assert_eq!(count_up(&mut connect(&proxy, LONG)).unwrap(), 1);
}

#[test]
fn tls_and_passwords_go_through() {
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().tls(&certificates).password("secret").start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    let mut connection = server.client_at(proxy.url()).unwrap().get_connection().unwrap();
    assert_eq!(count_up(&mut connection).unwrap(), 1);
    proxy.fail_replies(ReplyFault::Deafen);
    connection.set_read_timeout(Some(SHORT)).unwrap();
    assert!(count_up(&mut connection).is_err());
    poll("the request", || Ok((count(&server) == Some(2)).then_some(()))).unwrap();
}
