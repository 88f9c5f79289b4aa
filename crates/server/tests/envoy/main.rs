//! Envoy's rate limit service: what descriptors mean, and the protocol over real sockets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, to panic is to fail")]

#[path = "../protocols/frozen_time.rs"]
mod frozen_time;
mod semantics;
mod wire;
