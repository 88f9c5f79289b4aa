//! Load for rate limiters: sends requests at a fixed rate or as fast as they are answered, measures latencies, and
//! counts decisions that are surely wrong.
//!
//! * [`Plan`] is the rate, the duration and the keys; [`Target`] is the limiter to measure.
//! * [`run`] sends them and returns a [`Report`]: a table, JSON or a page with plots.
//! * [`audit`] finds the windows in which more or fewer requests passed than the limit allows.
//!
//! In an open loop, latencies are measured from the time at which a request was due, not from the time at which it
//! could be sent. A server that stalls delays all requests that were due in the meantime, and all of them are measured.

#![forbid(unsafe_code)]

pub mod audit;
mod key_choice;
mod plan;
mod record;
mod report;
mod run;
mod target;

pub use key_choice::KeyChoice;
pub use plan::{Pace, Plan, PlanError};
pub use record::Progress;
pub use report::{Latencies, Report, WrongReport};
pub use run::run;
pub use target::{Failure, HttpRequest, Target, TargetError, Verdict};
