//! Slidegate's limits in front of services: tower, axum, hyper and tonic.
//!
//! ```
//! use axum::{Router, routing::get};
//! use slidegate::{Limiter, Policy, Quota};
//! use slidegate_tower::{Gate, RateLimitLayer};
//!
//! // One hundred requests in any minute from one address.
//! let limiter = Limiter::new(Policy::new("address", Quota::per_minute(100)?)?)?;
//! let layer = RateLimitLayer::new(Gate::new(limiter))?;
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layer);
//! # let _ = app;
//! # Ok::<(), slidegate::Error>(())
//! ```
//!
//! # Where to start
//!
//! A [`Gate`] is one policy in front of a service: where it counts ([`AnyStore`]), by what
//! ([`KeyBy`]), which responses count ([`Count`]), and whom it is for. A [`RateLimitLayer`] has one
//! or several gates; a request takes units at all of them or at none. An [`OverloadLayer`] sheds
//! load when more requests come than usual, whoever sends them. An [`Observer`] is told what
//! happens; [`Metrics`] is one.
//!
//! What a request is judged by is its [`Head`]: everything but the body. What a client is told that
//! was turned away is made of a [`Denial`] by an [`Answer`].
//!
//! The page `docs/tower.md` is the reference, and `docs/how-to` has a page for each task.
//!
//! # Features
//!
//! `axum`, `tonic`, `redis`, `tracing` and `tokio`; none is on by default. They only add.

#![forbid(unsafe_code)]

mod head;
mod peer;
mod route;

mod key;
mod store;

mod gate;
mod judge;
mod layer;

mod sleep;
mod waiting;

mod answer;
mod observe;

mod overload;

#[cfg(feature = "tonic")]
pub use answer::Grpc;
pub use answer::{Answer, Denial, DenialKind, Http};
pub use gate::{Count, Gate, Missing, Served, Share, TierId};
pub use head::Head;
pub use key::KeyBy;
pub use layer::{RateLimit, RateLimitLayer, RateLimitLayerBuilder, ResponseFuture};
pub use observe::{Enforcement, Guarded, Happened, Judgement, Metrics, Observer};
pub use overload::{
    Arrival, Overload, OverloadFuture, OverloadGuard, OverloadGuardBuilder, OverloadLayer,
    OverloadStats, Pass, Queued,
};
pub use peer::PeerAddr;
pub use route::MatchedRoute;
pub use sleep::Sleep;
pub use store::AnyStore;
pub use waiting::Waiting;

/// The code of the pages about this crate, compiled and run.
#[cfg(doctest)]
mod pages {
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
}
