//! Exact sliding-window rate limiting in memory, at one to two bytes per recorded request.
//!
//! ```
//! use slidegate::{Limiter, Policy, Quota};
//!
//! // At most 100 requests in any minute, separately for each key.
//! const API: Quota = Quota::per_minute(100);
//!
//! let limiter = Limiter::new(Policy::new("api", API)?)?;
//!
//! let decision = limiter.check("alice");
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining(), 99);
//! # Ok::<(), slidegate::Error>(())
//! ```
//!
//! # Guarantees
//!
//! * **Exact.** With the default algorithm, no interval of real time as long as the window
//!   contains more than the limit.
//! * **Denials are free.** A denied request is not recorded, so a flood neither grows memory nor
//!   prolongs a denial.
//! * **`retry_after` is exact.** One tick earlier, the request is denied. At that time, it is
//!   allowed.
//! * **All or nothing.** A request takes units from several quotas and keys together, or from none.
//! * **Memory is bounded.** If the budget is full, usage is over-counted, and never forgotten.
//!
//! # Where to start
//!
//! A [`Quota`] is a limit of units per window. A [`Policy`] has one to eight quotas and an
//! [`Algorithm`]. A [`Limiter`] holds the state of a policy and returns a [`Decision`] for each
//! [`Key`]. Tests use a [`ManualClock`].

mod account;
mod algorithm;
mod coding;
mod cost;
mod decision;
mod degraded;
mod duration;
mod error;
mod fingerprint;
mod key;
mod limiter;
mod memory;
mod policy;
mod quota;
mod receipt;
mod store;
mod sync;
mod time;
mod window;

pub use cost::Cost;
pub use decision::{Decision, Outcome, QuotaDecision, RetryAfter};
pub use degraded::DegradedReason;
pub use duration::{format_duration, parse_duration};
pub use error::{Error, ErrorKind};
pub use key::{Key, KeyHasher, Secret};
pub use limiter::{
    Ask, Event, Limiter, LimiterBuilder, RestoreReport, Stats, StoreId, Tier, Usage, WithQuotas,
    check_all,
};
pub use memory::OnFull;
pub use policy::{Algorithm, FailureMode, Mode, Policy, PolicyBuilder};
pub use quota::Quota;
pub use receipt::Receipt;
pub use store::{
    IntoStore, PendingStore, Quotas, SleepFn, Stat, StatValue, Store, StoreAsk, StoreFuture,
    StoreGroup, StoreResult, Target,
};
pub use time::{Clock, ManualClock, MonotonicClock};

/// Compiles and runs the code of the README and of the pages about the library.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
    #[doc = include_str!("../../../docs/memory.md")]
    struct Memory;
    #[doc = include_str!("../../../docs/tutorials/library.md")]
    struct Tutorial;
    #[doc = include_str!("../../../docs/how-to/tiers.md")]
    struct Tiers;
    #[doc = include_str!("../../../docs/explanation/byte-coded-log.md")]
    struct ByteCodedLog;
    #[doc = include_str!("../../../docs/explanation/gcra.md")]
    struct Gcra;
    #[doc = include_str!("../../../docs/explanation/no-sampling.md")]
    struct NoSampling;
}
