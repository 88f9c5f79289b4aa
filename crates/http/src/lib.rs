//! Rate limits over HTTP: decisions as header fields and problem bodies, a reader for the fields of
//! other servers, and the client's address.
//!
//! Uses the types of the `http` crate, and no server, client or runtime.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use slidegate::{Limiter, ManualClock, Policy, Quota};
//! use slidegate_http::{AdvertisedLimits, Body, Fields, PolicyDecision, Problem};
//!
//! let policy = Policy::builder("api")
//!     .quota(Quota::per_second(2))
//!     .quota(Quota::per_hour(1000))
//!     .build()?;
//! let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
//! let limiter = Limiter::builder(policy).clock(clock).build()?;
//! let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
//!
//! let _first = limiter.check("alice");
//! let _second = limiter.check("alice");
//! let third = limiter.check("alice");
//!
//! let decisions = [PolicyDecision::new(limiter.policy(), &third)];
//! let problem = Problem::of(&decisions).ok_or("the third in a second is denied")?;
//! let mut response = problem.response(Body::Problem);
//! Fields::new().write(&decisions, now, response.headers_mut());
//!
//! assert_eq!(response.status(), 429);
//! let fields = response.headers();
//! assert_eq!(fields["ratelimit"], r#""api-1s";r=0;t=1, "api-3600s";r=998;t=3600"#);
//! assert_eq!(fields["ratelimit-policy"], r#""api-1s";q=2;w=1, "api-3600s";q=1000;w=3600"#);
//! assert_eq!(fields["x-ratelimit-limit"], "2");
//! assert_eq!(fields["x-ratelimit-remaining"], "0");
//! assert_eq!(fields["x-ratelimit-reset"], "1");
//! assert_eq!(fields["retry-after"], "1");
//! assert_eq!(fields["cache-control"], "no-store");
//! assert_eq!(fields["content-type"], "application/problem+json");
//!
//! // A client reads the same values.
//! let limits = AdvertisedLimits::read(fields, now);
//! assert_eq!(limits.wait(), Duration::from_secs(1));
//! assert_eq!(limits.quotas()[1].remaining(), Some(998));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Fields`] chooses the fields and their forms; `docs/headers.md` shows all of them.
//!
//! # Where to start
//!
//! A [`PolicyDecision`] is a decision with its policy. [`Fields`] writes header fields from it,
//! [`Problem`] the body of a denial. [`AdvertisedLimits`] reads fields, for clients.
//! [`ClientAddress`] finds the client's address, [`Duplicates`] the value of a header field that
//! becomes a key, [`PathPattern`] the requests of a rule, and [`TraceParent`] the trace of a request.
//! See also `docs/headers.md` and `docs/client-address.md`.

#![forbid(unsafe_code)]

mod address;
mod advertised;
mod duplicates;
mod fields;
mod header;
mod json;
mod member;
mod path;
mod policy_decision;
mod policy_fields;
mod problem;
mod quota_unit;
mod trace_parent;

pub use address::{AddressKey, ClientAddress, ClientAddressBuilder, HopField};
pub use advertised::{AdvertisedLimits, AdvertisedQuota};
pub use duplicates::{Duplicates, NoValue};
pub use fields::{Fields, Form, Reset};
pub use header::wait_seconds;
pub use path::{PathPattern, RequestPath};
pub use policy_decision::PolicyDecision;
pub use policy_fields::PolicyFields;
pub use problem::{Body, Problem, ProblemKind};
pub use quota_unit::QuotaUnit;
pub use trace_parent::TraceParent;

/// Compiles and runs the code of the crate's pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/headers.md")]
    struct Headers;
    #[doc = include_str!("../../../docs/client-address.md")]
    struct ClientAddress;
}
