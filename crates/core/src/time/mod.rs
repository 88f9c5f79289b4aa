//! Where time comes from. Nothing below the limiter reads a clock.

mod any;
mod clock;
mod counter;
mod manual;
mod monotonic;
mod reading;
mod tick;

pub(crate) use any::AnyClock;
pub use clock::Clock;
pub use manual::ManualClock;
pub use monotonic::MonotonicClock;
pub(crate) use tick::{Moment, TICK_BITS, TickScale};
