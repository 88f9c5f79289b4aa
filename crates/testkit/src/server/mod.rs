//! Real servers for tests: started on a free loopback port, gone with the test.

mod error;
mod wait;

mod folder;
mod port;
mod process;
mod program;

mod builder;
mod redis_server;

pub use self::builder::ServerBuilder;
pub use self::error::ServerError;
pub use self::redis_server::RedisServer;
pub use self::wait::{PATIENCE, poll, poll_for};
