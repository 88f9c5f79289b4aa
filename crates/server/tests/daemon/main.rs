//! The program `slidegate`, as its users run it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod access;
mod bad_night;
mod bench;
mod bypass;
#[cfg(feature = "otlp")]
mod collector;
mod dashboard;
mod deploy;
mod drop_in;
mod floods;
mod grafana;
mod guide;
mod outage;
mod overload;
mod process;
mod redis;
mod reference;
mod reference_pages;
mod reload;
mod snapshot;
mod spans;
mod start;
mod state_log;
mod watch;
