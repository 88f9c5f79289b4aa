//! The layer between stores and protocols: policies with tiers, rollout, waiting and metrics.
//!
//! A [`Gate`] is a policy with its store, tiers, rollout and metrics. The tower middleware and the
//! daemon translate a request into [`Gate::check`] or [`check_all`], and the resulting
//! [`GateDecision`] into a response.
//!
//! ```
//! use slidegate::{Limiter, Policy, Quota};
//! use slidegate_gate::Gate;
//!
//! let limiter = Limiter::new(Policy::new("api", Quota::per_minute(3))?)?;
//! let gate = Gate::builder(limiter).tier("paid", [Quota::per_minute(6)]).build()?;
//! assert!(gate.tier("paid").is_some());
//! # Ok::<(), slidegate::Error>(())
//! ```
//!
//! # Where to start
//!
//! | task | see |
//! |---|---|
//! | check one request | [`Gate::check`] |
//! | check several policies, all or nothing | [`check_all`] |
//! | other quotas for some keys | [`GateBuilder::tier`] |
//! | roll out a policy step by step | [`GateBuilder::rollout`], [`GateBuilder::enforce_percent`], [`GateBuilder::candidate`] |
//! | wait instead of being denied | [`WaitOptions`] |
//! | export metrics | [`Metrics`] |
//! | audit or trace decisions | [`Observer`] |
//!
//! # Features
//!
//! `redis`, `tokio` and `tracing`; none is on by default.

#![forbid(unsafe_code)]

mod all;
mod builder;
mod counters;
#[cfg(feature = "tracing")]
mod events;
mod exposition;
mod gate;
mod key_part;
mod metrics;
mod observe;
mod operations;
mod process;
mod rollout;
mod wait;
mod without_key;

pub use all::{ASKS_MAX, Ask, check_all};
pub use builder::{GateBuilder, TIERS_MAX};
pub use counters::{BOUNDS, Count, Counters, Histogram};
#[cfg(feature = "tracing")]
pub use events::TraceEvents;
pub use exposition::{Kind, Page};
pub use gate::{Gate, GateDecision, TierId};
pub use key_part::digest_if_long;
pub use metrics::{Metrics, StoreLabels};
pub use observe::{Caller, GateOutcome, GuardEvent, Listener, Observation, Observer, catch_panic};
pub use process::write_process;
pub use rollout::{Rollout, Share};
pub use wait::{Sleep, WaitOptions};

// The names until version 0.1, for the language bindings.
#[doc(hidden)]
pub use gate::GateDecision as Decided;
#[doc(hidden)]
pub use wait::WaitOptions as Waiting;

/// Compiles and runs the code of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
