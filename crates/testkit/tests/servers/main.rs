//! The servers that tests start, and the proxy that breaks connections to them.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod clusters;
mod proxy;
mod redis_server;
mod valkey;
