//! Rate limits for tower services: axum, hyper and tonic.
//!
//! ```
//! use axum::{Router, routing::get};
//! use slidegate::{Limiter, Policy, Quota};
//! use slidegate_tower::{RateLimitLayer, Rule};
//!
//! // At most 100 requests in any minute from one address.
//! let limiter = Limiter::new(Policy::new("address", Quota::per_minute(100))?)?;
//! let layer = RateLimitLayer::new(Rule::new(limiter))?;
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layer);
//! # let _ = app;
//! # Ok::<(), slidegate::Error>(())
//! ```
//!
//! # Where to start
//!
//! A [`Rule`] applies a [`Gate`] to requests: it sets the key that they are counted by ([`KeyBy`]),
//! their cost, which responses count ([`Count`]), and which requests it applies to. The gate is a
//! policy with its store, tiers, rollout and metrics. A [`RateLimitLayer`] has one or several
//! rules, and a request takes units from all of them or from none. An [`OverloadLayer`] rejects
//! requests when far more arrive than usual. An [`Observer`] gets every decision, and [`Metrics`]
//! exports them.
//!
//! Rules see the [`Head`] of a request: everything except the body. The response to a rejected
//! request is created from a [`Denial`] by an [`Answer`].
//!
//! The page `docs/tower.md` is the reference, and `docs/how-to` has a page for each task.
//!
//! # Features
//!
//! `axum`, `tonic`, `redis`, `tracing` and `tokio`. None is enabled by default.

#![forbid(unsafe_code)]

mod decision;
mod head;
mod peer;
mod route;

mod key;

mod count;
mod layer;
mod partition_key;
mod rule;
mod rules;

mod answer;

mod overload;

#[cfg(feature = "tonic")]
pub use answer::Grpc;
pub use answer::{Answer, Denial, DenialKind, Http};
pub use count::{Count, Served};
pub use decision::{Charge, RateLimitDecision};
pub use head::Head;
pub use key::{KeyBy, KeyPart};
pub use layer::{RateLimit, RateLimitLayer, RateLimitLayerBuilder, ResponseFuture};
pub use overload::{
    Admission, Arrival, Overload, OverloadFuture, OverloadGuard, OverloadGuardBuilder,
    OverloadLayer, OverloadStats, Queued,
};
pub use partition_key::PartitionKey;
pub use peer::PeerAddr;
pub use route::MatchedRoute;
pub use rule::{Missing, Rule};
pub use slidegate_gate::{
    Gate, GateBuilder, GateDecision, GateOutcome, GuardEvent, Metrics, Observation, Observer,
    Rollout, Sleep, TierId, WaitOptions,
};
pub use slidegate_http::{Duplicates, PathPattern, RequestPath};

/// Compiles and runs the code of the pages about this crate.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/tower.md")]
    struct Tower;
    #[doc = include_str!("../../../docs/how-to/limit-by-ip.md")]
    struct LimitByIp;
    #[doc = include_str!("../../../docs/how-to/limit-by-api-key.md")]
    struct LimitByApiKey;
    #[doc = include_str!("../../../docs/how-to/login-guard.md")]
    struct LoginGuard;
    #[doc = include_str!("../../../docs/how-to/shadow-and-canary.md")]
    struct ShadowAndCanary;
    #[doc = include_str!("../../../docs/how-to/overload-guard.md")]
    struct OverloadGuard;
    #[doc = include_str!("../../../docs/how-to/fake-clock.md")]
    struct FakeClock;
    #[doc = include_str!("../../../docs/how-to/custom-429.md")]
    struct Custom429;
    #[doc = include_str!("../../../docs/how-to/tonic.md")]
    struct Tonic;
    #[doc = include_str!("../../../docs/how-to/llm-token-budget.md")]
    struct LlmTokenBudget;
    #[doc = include_str!("../../../docs/how-to/wait-in-tokio.md")]
    struct WaitInTokio;
    #[doc = include_str!("../../../docs/how-to/unix-socket-nginx.md")]
    struct UnixSocketNginx;
    #[doc = include_str!("../../../docs/how-to/from-governor.md")]
    struct FromGovernor;
    #[doc = include_str!("../../../docs/how-to/from-tower-governor.md")]
    struct FromTowerGovernor;
}
