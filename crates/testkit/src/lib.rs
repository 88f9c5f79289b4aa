//! The reference model of Slidegate and the runner of its conformance traces.
//!
//! Three things that any store, in any language, can be held against:
//!
//! * [`never_over`]: the check that no interval of real time holds more than the limit;
//! * [`definition`]: what every operation means, independent of the code under test;
//! * [`load_all`] and [`run`]: the traces of the `conformance` folder over any [`Subject`], be it
//!   [`DefinedSubject`], [`MemorySubject`] or one of yours.
//!
//! [`search`] tries every sequence of operations in small worlds.
//!
//! And, behind the feature `servers`, what tests of a store need around it: real Redis and Valkey
//! servers, clusters and sentinels that are gone with the test, and a proxy that breaks connections.
//!
//! ```
//! use slidegate_testkit::{MemorySubject, load_all, run};
//!
//! for trace in load_all()? {
//!     let mut subject = MemorySubject::new(&trace)?;
//!     run(&trace, &mut subject)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![expect(
    clippy::missing_errors_doc,
    reason = "in a crate of tests, every error says what was tried and what to do"
)]

mod policy;
mod trace;

mod load;
mod play;
mod runner;
mod subject;

mod defined;
mod memory;

mod compare;
mod random;
pub mod search;

#[cfg(feature = "servers")]
pub mod server;

pub use compare::{compare, compare_with};
pub use defined::{DefinedReceipt, DefinedSubject};
pub use load::{LoadError, load_all, parse};
pub use memory::MemorySubject;
pub use policy::{Algorithm, Mode, PolicySpec, QuotaSpec, quotas};
pub use random::random_trace;
pub use runner::{Mismatch, Report, run};
pub use slidegate_sim::{Bracket, Random, Violation, definition, never_over, surely_over};
pub use subject::{Answer, AnswerAndTaken, Capability, QuotaStatus, Subject, SubjectError, Taken};
pub use trace::{Expect, Op, Step, Trace};
