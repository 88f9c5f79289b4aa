//! A loopback port that nobody listens on.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use super::ServerError;

/// Below the ports that Linux gives to outgoing connections (32768 and up), so that no client takes
/// a server's port while the server is down.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// A node of a cluster also listens here, counted from its port.
const BUS_OFFSET: u16 = 10_000;

const TRIES_MAX: u64 = 200;

/// A port that was free a moment ago, with the port of a cluster's bus.
///
/// Somebody may still be quicker: whoever starts a server on it tries again with another.
pub(super) fn free() -> Result<u16, ServerError> {
    // Seeded by the system: processes that run side by side look in different places.
    let random = RandomState::new();
    for number in 0..TRIES_MAX {
        let offset = random.hash_one(number) % u64::from(COUNT);
        let port = FIRST + u16::try_from(offset).unwrap_or_default();
        if is_free(port) && is_free(port + BUS_OFFSET) {
            return Ok(port);
        }
    }
    let message = format!("tried {TRIES_MAX} ports from {FIRST} on: none was free");
    Err(ServerError::new(message))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
