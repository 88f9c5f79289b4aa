//! HTTP/1.1 and the Redis protocol: just enough to send a request and to find the end of the reply.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::Server;
use super::subject::ServerKind;
use super::workload::{LIMIT, Protocol};

/// A connection with a request whose keys are overwritten each time.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    question: Vec<u8>,
    /// Where the digits of each key are.
    keys: Vec<usize>,
    ending: Ending,
    answer: Vec<u8>,
    body: usize,
}

/// How a reply ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    /// With as many bytes after the head as it says.
    Length,
    /// With this number of lines.
    Lines(usize),
}

/// Digits of a key's number.
const DIGITS: usize = 7;
/// A key whose number is yet to be written.
const KEY: &str = "user:#######";

impl Wire {
    pub(super) async fn open(
        which: ServerKind,
        protocol: Protocol,
        server: &Server,
    ) -> Result<Self, String> {
        let (port, question, ending) = match protocol {
            Protocol::Http => (server.ports.http, http_question(which), Ending::Length),
            Protocol::Resp { pipelined } => {
                let (one, lines) = resp_question(which);
                (server.ports.resp, one.repeat(pipelined), Ending::Lines(lines * pipelined))
            }
            Protocol::Grpc => return Err("gRPC goes by channels".to_owned()),
        };
        let keys = question.match_indices('#').map(|(at, _)| at).step_by(DIGITS).collect();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        let stream = stream.map_err(|error| format!("port {port}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let answer = Vec::with_capacity(4096);
        Ok(Self { stream, question: question.into_bytes(), keys, ending, answer, body: 0 })
    }

    pub(super) async fn ask(&mut self, mut key: impl FnMut() -> u32) -> Result<(), String> {
        for at in &self.keys {
            write_digits(&mut self.question[*at..*at + DIGITS], key());
        }
        let failed = |error: std::io::Error| error.to_string();
        self.stream.write_all(&self.question).await.map_err(failed)?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await.map_err(failed)? == 0 {
                return Err(format!("the server hung up after {:?}", self.shown()));
            }
            if self.is_whole()? {
                return Ok(());
            }
        }
    }

    pub(super) fn last_body(&self) -> &[u8] {
        &self.answer[self.body..]
    }

    fn is_whole(&mut self) -> Result<bool, String> {
        match self.ending {
            Ending::Length => {
                let Some(body) = end_of_head(&self.answer) else { return Ok(false) };
                if !self.answer.starts_with(b"HTTP/1.1 200 ") {
                    return Err(format!("an answer that is not 200: {:?}", self.shown()));
                }
                self.body = body;
                let length = length(&self.answer[..body]).ok_or("an answer without a length")?;
                Ok(self.answer.len() >= body + length)
            }
            Ending::Lines(lines) => {
                if self.answer.starts_with(b"-") {
                    return Err(format!("an error: {:?}", self.shown()));
                }
                let found = self.answer.split(|byte| *byte == b'\n').count() - 1;
                Ok(found >= lines)
            }
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.answer[..self.answer.len().min(300)]).into_owned()
    }
}

fn http_question(which: ServerKind) -> String {
    let (path, body) = match which {
        ServerKind::Throttlecrab => {
            let rate = format!(r#""max_burst":{LIMIT},"count_per_period":{LIMIT},"period":60"#);
            ("/throttle", format!(r#"{{"key":"{KEY}",{rate}}}"#))
        }
        _ => ("/v1/check", format!(r#"{{"policy":"api","key":"{KEY}"}}"#)),
    };
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A command, and the number of lines in its reply.
fn resp_question(which: ServerKind) -> (String, usize) {
    let limit = LIMIT.to_string();
    let (words, lines): (&[&str], _) = match which {
        ServerKind::Redis => (&["INCR", KEY], 1),
        ServerKind::Throttlecrab => (&["THROTTLE", KEY, &limit, &limit, "60"], 6),
        _ => (&["SG.CHECK", "api", KEY], 6),
    };
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let command: String = words.iter().map(word).collect();
    (format!("*{}\r\n{command}", words.len()), lines)
}

fn write_digits(place: &mut [u8], number: u32) {
    let mut rest = number;
    for byte in place.iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

fn end_of_head(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))?;
    core::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\ndate: x\r\n\r\nbody";
        let end = end_of_head(answer).unwrap();
        assert_eq!(&answer[end..], b"body");
        assert_eq!(length(&answer[..end]), Some(12));
        assert_eq!(length(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }

    #[test]
    fn every_key_of_a_pipeline_is_written() {
        let (one, lines) = resp_question(ServerKind::Redis);
        assert_eq!((one.as_str(), lines), ("*2\r\n$4\r\nINCR\r\n$12\r\nuser:#######\r\n", 1));
        let mut question = one.repeat(2).into_bytes();
        let first = one.find('#').unwrap();
        write_digits(&mut question[first..first + DIGITS], 42);
        assert!(question.starts_with(b"*2\r\n$4\r\nINCR\r\n$12\r\nuser:0000042\r\n*2"));
    }
}
