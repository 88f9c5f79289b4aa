//! Reads the state of a running daemon.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use serde_json::Value;

use super::super::ask::{connect, parse};

/// The time between two reads.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum length of the state.
const STATE_MAX: u64 = 16 << 20;

/// A thread that reads the state once per second. It ends with the process.
pub(super) struct Source {
    states: Receiver<io::Result<Value>>,
}

impl Source {
    pub(super) fn start(address: String, token: Option<String>) -> Self {
        let (sender, states) = sync_channel(1);
        thread::spawn(move || {
            loop {
                pause(EVERY);
                if sender.send(read_state(&address, token.as_deref())).is_err() {
                    return;
                }
            }
        });
        Self { states }
    }

    /// Returns the next state, if it has arrived.
    pub(super) fn next(&self) -> Option<io::Result<Value>> {
        self.states.try_recv().ok()
    }
}

#[expect(clippy::disallowed_methods, reason = "the time between two readings of a daemon")]
pub(super) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Reads the state once.
pub(super) fn read_state(address: &str, token: Option<&str>) -> io::Result<Value> {
    let mut stream = connect(address)?;
    let token =
        token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    write!(
        stream,
        "GET /dashboard/state HTTP/1.1\r\nHost: {address}\r\n{token}Connection: close\r\n\r\n"
    )?;
    let mut reply = Vec::new();
    stream.take(STATE_MAX).read_to_end(&mut reply)?;
    let Some((status, body)) = parse(&reply) else {
        return Err(io::Error::other("the reply is not from a slidegate daemon"));
    };
    if status != 200 || !body["policies"].is_array() {
        let detail = body["detail"].as_str().unwrap_or("not the admin listener");
        return Err(io::Error::other(format!("status {status}: {detail}")));
    }
    Ok(body)
}
