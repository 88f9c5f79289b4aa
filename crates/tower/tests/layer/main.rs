//! The layers, called without a network, by a clock of the tests'.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

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
