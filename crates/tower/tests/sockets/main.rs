//! The layers over real sockets: axum, hyper, tonic, and behind real proxies.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod grpc;
mod http1;
mod proxies;
mod web;
