//! The layers, called without a network and with a test clock.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod answers;
mod app;
mod decisions;
mod gates;
mod line;
mod modes;
mod overload;
#[path = "../../../gate/tests/gates/remote.rs"]
mod remote;
mod shared;
