//! `tracing` events of single servers. Those of an outage as a whole are in `outage.rs`.

use super::failure::Failure;

/// Reports a failure. `what` is its consequence. Connections and breakers fail after growing pauses, so
/// this is at a bounded rate.
#[cfg(feature = "tracing")]
pub(super) fn failed(address: &str, what: &'static str, failure: &Failure) {
    let reason = failure.reason().name();
    tracing::debug!(target: "slidegate", address, reason, "{what}: {failure}");
}

/// Reports that a server is connected.
#[cfg(feature = "tracing")]
pub(super) fn connected(address: &str) {
    tracing::debug!(target: "slidegate", address, "connected to Redis");
}

/// Reports that Sentinels named another primary.
#[cfg(feature = "tracing")]
pub(super) fn switched(service: &str, from: &str, to: &str) {
    tracing::info!(target: "slidegate", service, from, to, "Redis has another primary");
}

#[cfg(not(feature = "tracing"))]
pub(super) fn failed(_: &str, _: &'static str, _: &Failure) {}

#[cfg(not(feature = "tracing"))]
pub(super) fn connected(_: &str) {}

#[cfg(not(feature = "tracing"))]
pub(super) fn switched(_: &str, _: &str, _: &str) {}
