//! The layer: gates in front of a service.

mod builder;
mod future;
mod service;

use core::fmt;
use std::sync::Arc;

use slidegate::Error;
use tower_layer::Layer;

pub use builder::RateLimitLayerBuilder;
pub use future::ResponseFuture;
pub use service::RateLimit;

use crate::answer::Http;
use crate::gate::Gate;
use crate::judge::Judge;

/// Puts gates in front of a service.
///
/// Clones share their counts. Placed outside of a router it sees every request, before routing;
/// placed on a route (`route_layer` in axum), those of that route.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_tower::{Gate, RateLimitLayer};
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100)?)?)?;
/// let layer = RateLimitLayer::new(Gate::new(limiter))?;
/// # let _ = layer;
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Clone)]
pub struct RateLimitLayer<A = Http> {
    judge: Arc<Judge>,
    answer: A,
}

impl RateLimitLayer {
    /// One gate, with everything else by default: see [`RateLimitLayerBuilder`].
    ///
    /// # Errors
    ///
    /// When the gate's settings cannot be.
    pub fn new(gate: Gate) -> Result<Self, Error> {
        Self::builder().gate(gate).build()
    }

    /// Starts a layer.
    pub fn builder() -> RateLimitLayerBuilder {
        RateLimitLayerBuilder::new()
    }
}

impl<S, A: Clone> Layer<S> for RateLimitLayer<A> {
    type Service = RateLimit<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.judge), self.answer.clone())
    }
}

impl<A> fmt::Debug for RateLimitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("gates", &self.judge.gates).finish_non_exhaustive()
    }
}
