//! A reqwest client and a server limited by Slidegate, over real sockets.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod refused;
mod server;
mod together;
