//! Envoy's protocol over real sockets: a tonic client, and Envoy itself.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod files;
mod grpc;
mod proxy;
mod served;
mod traces;
