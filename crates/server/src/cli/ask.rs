//! `check`: sends a check to a running daemon.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use serde_json::{Value, json};

use super::arguments::CheckArguments;
use super::exit;

/// The maximum time for a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum length of a reply.
const ANSWER_MAX: u64 = 1 << 20;

pub(super) fn run(arguments: &CheckArguments) -> u8 {
    let mut err = io::stderr().lock();
    let (status, answer) = match ask(arguments) {
        Ok(answered) => answered,
        Err(error) => {
            let address = &arguments.address;
            let _ = writeln!(err, "slidegate: no reply from {address}: {error}");
            let _ = writeln!(err, "Is the daemon running there? Use --address for another one.");
            return exit::UNAVAILABLE;
        }
    };
    let Some(allowed) = answer["allowed"].as_bool() else {
        let detail = answer["detail"].as_str().or(answer["title"].as_str());
        let _ = writeln!(err, "slidegate: {status}: {}", detail.unwrap_or("not understood"));
        return exit::FAILED;
    };
    let mut out = io::stdout().lock();
    let _ = if arguments.json { writeln!(out, "{answer}") } else { print(&mut out, &answer) };
    if allowed { exit::OK } else { exit::FAILED }
}

fn print(out: &mut impl Write, answer: &Value) -> io::Result<()> {
    let number = |name: &str| answer[name].as_f64().unwrap_or(0.0);
    if answer["allowed"] == true {
        writeln!(out, "allowed: {} of {} left", number("remaining"), number("limit"))
    } else if answer["retry_after"].is_null() {
        writeln!(out, "denied: the cost is above the limit of {}", number("limit"))
    } else {
        writeln!(
            out,
            "denied: {} of {} left, retry after {} s",
            number("remaining"),
            number("limit"),
            number("retry_after")
        )
    }
}

fn ask(arguments: &CheckArguments) -> io::Result<(u16, Value)> {
    let CheckArguments { policy, key, cost, tier, peek, address, token_file, .. } = arguments;
    let mut body = json!({ "policy": policy, "key": key, "cost": cost });
    if let Some(tier) = tier {
        body["tier"] = json!(tier);
    }
    let path = if *peek { "/v1/peek" } else { "/v1/check" };
    let mut stream = connect(address)?;
    let body = body.to_string();
    let token = match token_file {
        Some(path) => {
            format!("Authorization: Bearer {}\r\n", std::fs::read_to_string(path)?.trim())
        }
        None => String::new(),
    };
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{token}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other("the reply is not from a slidegate daemon"))
}

pub(super) fn connect(address: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the host name has no address");
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Parses status and body of a reply that ends with its connection.
pub(super) fn parse(answer: &[u8]) -> Option<(u16, Value)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = core::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, serde_json::from_slice(&answer[end + 4..]).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_status_and_body() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"allowed\":true}";
        assert_eq!(parse(answer), Some((200, json!({ "allowed": true }))));
        for bad in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\nno json", b"SSH-2.0\r\n\r\n{}"] {
            assert_eq!(parse(bad), None);
        }
    }
}
