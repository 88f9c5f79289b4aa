//! Slidegate at the edge of HTTP: decisions as header fields and problem bodies, the fields of
//! other servers read back, and the client's address.
//!
//! Depends on the types of the `http` crate and on no server, client or runtime.
//!
//! # What a response carries
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use slidegate::{Limiter, ManualClock, Policy, Quota};
//! use slidegate_http::{AdvertisedLimits, Body, Fields, PolicyDecision, Problem};
//!
//! let policy = Policy::builder("api")
//!     .quota(Quota::per_second(2)?)
//!     .quota(Quota::per_hour(1000)?)
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
//! // What a client reads from it.
//! let limits = AdvertisedLimits::read(fields, now);
//! assert_eq!(limits.wait(), Duration::from_secs(1));
//! assert_eq!(limits.quotas()[1].remaining(), Some(998));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same decision, field by field:
//!
//! | field | value | chosen by |
//! |---|---|---|
//! | `RateLimit` | `"api-1s";r=0;t=1, "api-3600s";r=998;t=3600` | [`Form::List`], the default |
//! | `RateLimit-Policy` | `"api-1s";q=2;w=1, "api-3600s";q=1000;w=3600` | [`Form::List`] |
//! | `RateLimit` | `limit=2, remaining=0, reset=1` | [`Form::Dictionary`] |
//! | `RateLimit-Limit`, `-Remaining`, `-Reset` | `2`, `0`, `1` | [`Form::Triple`] |
//! | `RateLimit-Policy` | `2;w=1, 1000;w=3600` | both of these |
//! | `X-RateLimit-Limit`, `-Remaining` | `2`, `0` | [`Fields::x_ratelimit`], on by default |
//! | `X-RateLimit-Reset` | `1` | [`Reset::Delta`], the default |
//! | `X-RateLimit-Reset` | `1700000001` | [`Reset::Epoch`] |
//! | `Retry-After` | `1` | a denial; [`Fields::retry_after`], on by default |
//! | `Cache-Control` | `no-store` | a denial, always |
//!
//! # Where to start
//!
//! A [`PolicyDecision`] is a decision with its policy. [`Fields`] writes header fields from it,
//! [`Problem`] the body of a denial. [`AdvertisedLimits`] reads fields, for clients.
//! [`ClientAddress`] finds the client's address, [`TraceParent`] the trace of a request.
//! See also `docs/headers.md` and `docs/client-address.md`.

#![forbid(unsafe_code)]

mod address;
mod advertised;
mod fields;
mod header;
mod json;
mod member;
mod policy_decision;
mod policy_fields;
mod problem;
mod trace_parent;

pub use address::{AddressKey, ClientAddress, ClientAddressBuilder, HopField};
pub use advertised::{AdvertisedLimits, AdvertisedQuota};
pub use fields::{Fields, Form, Reset};
pub use policy_decision::PolicyDecision;
pub use policy_fields::PolicyFields;
pub use problem::{Body, Problem, ProblemKind};
pub use trace_parent::TraceParent;

/// The code of the pages about this crate, compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/headers.md")]
    struct Headers;
    #[doc = include_str!("../../../docs/client-address.md")]
    struct ClientAddress;
}
