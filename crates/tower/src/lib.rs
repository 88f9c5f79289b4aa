//! Slidegate's limits in front of services.

#![forbid(unsafe_code)]

mod answer;
mod gate;
mod head;
mod judge;
mod key;
mod layer;
mod observe;
mod overload;
mod peer;
mod route;
mod sleep;
mod store;
mod trace_id;
mod waiting;

#[cfg(feature = "tonic")]
pub use answer::Grpc;
pub use answer::{Answer, Denial, DenialKind, Http};
pub use gate::{Count, Gate, Missing, Served, TierId};
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
