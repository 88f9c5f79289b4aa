//! The layers over real sockets: axum, hyper, tonic, and behind real proxies.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod grpc;
mod http1;
mod proxies;
mod web;
