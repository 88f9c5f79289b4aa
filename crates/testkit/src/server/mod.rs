//! Real servers for tests: started on a free loopback port, gone with the test.

mod error;
mod wait;

mod address;
mod fake_clock;
mod folder;
mod info;
mod port;
mod process;
mod program;

mod builder;
mod certificates;
mod redis_server;
mod valkey;

mod cluster;
mod sentinel;
mod topology;

mod reverse_proxy;

pub use self::builder::ServerBuilder;
pub use self::certificates::Certificates;
pub use self::cluster::Cluster;
pub use self::error::ServerError;
pub use self::redis_server::RedisServer;
pub use self::reverse_proxy::ReverseProxy;
pub use self::sentinel::Sentinel;
pub use self::wait::{PATIENCE, poll, poll_for};
