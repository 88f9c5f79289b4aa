//! A reqwest client and a server that Slidegate limits, over real sockets.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod refused;
mod server;
mod together;
