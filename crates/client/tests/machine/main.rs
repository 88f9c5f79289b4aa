//! The state machine with simulated time: no clock, no runtime, no socket.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod driver;
mod herd;
mod learned;
mod refused;
mod simulated;
mod walks;
