//! Envoy's protocol over real sockets: a tonic client, and Envoy itself.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, to panic is to fail")]

mod files;
mod grpc;
mod overload;
mod proxy;
mod served;
mod traces;
