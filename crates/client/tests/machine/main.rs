//! The machine under made-up time: no clock, no runtime, no socket.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, to panic is to fail")]

mod driver;
mod herd;
mod learned;
mod refused;
mod simulated;
mod walks;
