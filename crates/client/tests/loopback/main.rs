//! A reqwest client and a server that Slidegate limits, over real sockets.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod refused;
mod server;
mod together;
