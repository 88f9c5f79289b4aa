//! The servers that tests start, and the proxy that breaks connections to them.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod clusters;
mod proxy;
mod redis_server;
mod valkey;
