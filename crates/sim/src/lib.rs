//! Replays traffic through rate limiting algorithms, in simulated time, and compares their decisions with
//! those of an exact limiter.
//!
//! * [`definition`] and [`never_over`] are the reference that every implementation is tested with: what every
//!   operation means, and the check that no window contains more than the limit.
//! * [`read`] reads access logs, [`traffic`] makes requests up.
//! * [`advice`] finds the smallest limit that denies little enough.
//! * [`replay`] plays them through limiters and an [exact one](exact).
//! * [`report`] shows the outcome as a table, as JSON or as a page.

#![forbid(unsafe_code)]

pub mod advice;
pub mod definition;
pub mod exact;
pub mod keys;
pub mod number;
mod random;
pub mod read;
pub mod replay;
pub mod report;
mod source;
pub mod traffic;
mod violation;

pub use number::share;
pub use random::Random;
pub use source::Source;
pub use violation::{Bracket, Violation, never_over, over_windows, surely_over};
