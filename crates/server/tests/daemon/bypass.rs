//! Ways around a limit, tried on the real program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::{Daemon, post};

/// What the Redis protocol replies to these bytes until the server closes the connection.
fn resp(address: SocketAddr, input: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(input.as_bytes()).unwrap();
    let mut reply = String::new();
    // A server that closes before it has read everything resets the connection.
    let _ = stream.read_to_string(&mut reply);
    reply
}

fn http(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

#[test]
fn key_max_counts_bytes_at_every_listener() {
    let daemon = Daemon::start(&["--set", "limits.key_max=16"]);
    // Sixteen bytes in four characters; then two bytes more.
    for (key, fits) in [("🦀🦀🦀🦀", true), ("🦀🦀🦀🦀é", false)] {
        let body = format!("{{\"policy\":\"example\",\"key\":\"{key}\"}}");
        let (status, text) = post(http(daemon.http), "/v1/check", &body);
        assert_eq!(status, if fits { 200 } else { 400 }, "{text}");
        let reply = resp(daemon.resp, &format!("SG.CHECK example {key}\r\nQUIT\r\n"));
        let refused = "-ERR a key of 18 bytes is out of range: use 1 to 16\r\n+OK\r\n";
        assert_eq!(reply == refused, !fits, "{reply}");
    }
}
