//! Envoy's rate limit service: what descriptors mean, and the protocol over real sockets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

#[path = "../protocols/frozen_time.rs"]
mod frozen_time;
#[path = "../daemon/process.rs"]
#[expect(dead_code, reason = "the tests of the daemon use all of it")]
mod process;
mod semantics;
mod wire;
