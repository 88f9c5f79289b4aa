//! The engine and everything that speaks to it but Envoy: HTTP, forward auth, the Redis protocol and the
//! admin listener, over real sockets in this process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod frozen_time;
mod http_client;

mod access;
mod admin;
mod audit;
mod auth;
mod conformance;
mod engine;
mod fields;
mod http_api;
mod http_limits;
mod http_protocols;
mod overload;
mod resp;
mod same_gate;
mod schemathesis;
mod trace_ids;
mod waiting;
