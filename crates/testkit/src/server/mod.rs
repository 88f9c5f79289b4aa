//! Real servers for tests: started on a free loopback port, gone with the test.
//!
//! * [`RedisServer`]: Debian's Redis, or Valkey; with a password, users, TLS, a socket, a memory limit,
//!   a primary to follow, or a clock that jumps; killed, stopped, suspended and restarted at will.
//! * [`Cluster`] and [`Sentinel`]: several of them that step in for each other.
//! * [`ReverseProxy`]: what services stand behind: nginx, HAProxy, Caddy, Envoy.
//! * [`Proxy`]: delays, cuts and black holes between a client and a server.
//! * [`PythonTool`]: what others have written to test servers with.
//! * [`poll`] and [`poll_async`]: how to wait for any of it.
//!
//! Nothing here is faked: where a program is missing, the error names the command that installs it.

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
mod wait;

use core::fmt;

pub use self::builder::ServerBuilder;
pub use self::certificates::Certificates;
pub use self::cluster::Cluster;
pub use self::fake_clock::wall_clock;
pub use self::pip::PythonTool;
pub use self::proxy::{Counters, Door, Proxy, ReplyFault};
pub use self::redis_server::RedisServer;
pub use self::reverse_proxy::ReverseProxy;
pub use self::sentinel::Sentinel;
pub use self::wait::{PATIENCE, monotonic, poll, poll_async, poll_for};

/// Why a server could not be started, reached or made to do something.
///
/// Shown the same by `{}` and `{:?}`, so that `unwrap` in a test prints the server's log in lines.
#[derive(Clone)]
pub struct ServerError {
    message: String,
}

impl ServerError {
    /// An error that says what was tried, what happened and what to do.
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
        Self::new(format!("the server was asked and: {error}"))
    }
}
