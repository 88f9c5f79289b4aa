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
use crate::rule::Rule;
use crate::rules::LayerRules;

/// Limits the requests to a service with one or more rules.
///
/// Clones share their counts. Around a router, the layer applies to every request, before routing.
/// On a route (`route_layer` in axum), it applies to the requests of that route.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_tower::{RateLimitLayer, Rule};
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100))?)?;
/// let layer = RateLimitLayer::new(Rule::new(limiter))?;
/// # let _ = layer;
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Clone)]
pub struct RateLimitLayer<A = Http> {
    rules: Arc<LayerRules>,
    answer: A,
}

impl RateLimitLayer {
    /// Creates a layer of one rule, with the defaults of [`RateLimitLayerBuilder`].
    ///
    /// # Errors
    ///
    /// Returns an error if the rule's settings are invalid.
    pub fn new(rule: Rule) -> Result<Self, Error> {
        Self::builder().rule(rule).build()
    }

    /// Returns a builder.
    pub fn builder() -> RateLimitLayerBuilder {
        RateLimitLayerBuilder::new()
    }
}

impl<S, A: Clone> Layer<S> for RateLimitLayer<A> {
    type Service = RateLimit<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.rules), self.answer.clone())
    }
}

impl<A> fmt::Debug for RateLimitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("rules", &self.rules.rules).finish_non_exhaustive()
    }
}
