//! Configurations: what is loaded, what is refused, and what is said about it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic fails the test"
)]

mod commands;
mod documents;
mod envoy;
mod files;
mod hostile;
mod layers;
mod native;
mod output;
mod reference;
mod simulate;
mod sliding;
