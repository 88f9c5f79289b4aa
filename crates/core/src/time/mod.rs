//! Clocks. Nothing below the limiter reads a clock.

mod any;
mod boot;
mod cycle_clock;
mod manual;
mod monotonic;
mod tick;

pub(crate) use any::AnyClock;
pub(crate) use boot::BootTime;
pub use manual::ManualClock;
pub use monotonic::MonotonicClock;
pub(crate) use tick::{Moment, TICK_BITS, TickScale};

use core::fmt::Debug;

/// A source of time in nanoseconds since the Unix epoch.
///
/// A clock need not be strictly monotonic: the limiter clamps time that goes back. It must not run
/// ahead of real time, and must report how far it may lag.
pub trait Clock: Debug + Send + Sync {
    /// Returns the nanoseconds since the Unix epoch, never ahead of real time.
    fn now(&self) -> u64;

    /// Returns the maximum number of nanoseconds by which [`now`](Clock::now) may lag behind real
    /// time.
    ///
    /// Entries are recorded that much later, so that a lagging clock never frees a unit early. More
    /// than 13 days are read as 13 days.
    fn lag(&self) -> u64 {
        0
    }
}
