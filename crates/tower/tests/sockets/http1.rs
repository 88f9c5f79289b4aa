//! One HTTP/1.1 request over a real socket, written by hand to control every byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;

/// A response. Its head is in lowercase.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends a request with these header lines from one of the machine's addresses.
pub(crate) async fn get(from: Ipv4Addr, to: SocketAddr, path: &str, lines: &[String]) -> Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    exchange(socket.connect(to).await.unwrap(), path, lines).await
}

/// Sends a request over a connection, and reads until the server closes.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    lines: &[String],
) -> Answer {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    for line in lines {
        request += line;
        request += "\r\n";
    }
    stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
    let mut response = String::new();
    let reading = stream.read_to_string(&mut response);
    tokio::time::timeout(Duration::from_secs(30), reading).await.unwrap().unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}
