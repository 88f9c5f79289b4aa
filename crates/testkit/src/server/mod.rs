//! Real servers for tests: started on a free loopback port, gone with the test.
//!
//! * [`RedisServer`]: Debian's Redis, or Valkey; with a password, users, TLS, a socket, a memory limit,
//!   a primary to follow, or a clock that jumps; killed, stopped, suspended and restarted at will.
//! * [`Cluster`] and [`Sentinel`]: several of them that step in for each other.
//! * [`ReverseProxy`] and [`Envoy`]: what services stand behind.
//! * [`Proxy`]: what networks do to those who use them.
//! * [`PythonTool`]: what others have written to test servers with.
//! * [`poll`]: how to wait for any of it.
//!
//! Nothing here is faked: where a program is missing, the error names the command that installs it.

mod redis_server;

mod builder;
mod caddy;
mod certificates;
mod fake_clock;
mod valkey;
mod wheel;

mod cluster;
mod topology;

mod sentinel;

mod proxy;

mod folder;
mod port;
mod process;
mod program;
mod python;

mod address;
mod error;
mod info;
mod wait;

mod envoy;
mod reverse_proxy;

pub use self::builder::ServerBuilder;
pub use self::certificates::Certificates;
pub use self::cluster::Cluster;
pub use self::envoy::Envoy;
pub use self::error::ServerError;
pub use self::fake_clock::wall_clock;
pub use self::proxy::{Counters, Door, Proxy, ReplyFault};
pub use self::python::PythonTool;
pub use self::redis_server::RedisServer;
pub use self::reverse_proxy::ReverseProxy;
pub use self::sentinel::Sentinel;
pub use self::wait::{PATIENCE, monotonic, poll, poll_for};
