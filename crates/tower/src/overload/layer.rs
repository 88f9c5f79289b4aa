//! The layer that applies a guard to a service.

use core::fmt;
use std::sync::Arc;

use http::Response;
use slidegate_gate::{GuardEvent, Observer, Sleep, catch_panic};
use tower_layer::Layer;

use super::guard::OverloadGuard;
use super::service::Overload;
use crate::answer::{Denial, Http};

/// Applies an [`OverloadGuard`] to a service. Rejected requests get a 503 with
/// `Retry-After`.
///
/// Make it the outermost layer, so that a rejected request costs as little as possible. A request
/// is in service until its response is returned. A body that is sent afterwards does not count.
///
/// ```
/// use slidegate_tower::{OverloadGuard, OverloadLayer, Sleep};
///
/// let guard = OverloadGuard::builder("front").concurrency_max(512).build()?;
/// let layer = OverloadLayer::new(guard).sleep(Sleep::tokio());
/// # let _ = layer;
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Clone)]
pub struct OverloadLayer<A = Http> {
    shared: Arc<Shared>,
    answer: A,
}

/// What the services of a layer share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) guard: OverloadGuard,
    pub(super) sleep: Option<Sleep>,
    observer: Option<Arc<dyn Observer>>,
    #[cfg(feature = "tracing")]
    events: Arc<slidegate_gate::TraceEvents>,
}

impl OverloadLayer {
    /// Creates a layer with a guard. Without [`sleep`](OverloadLayer::sleep), requests are rejected
    /// instead of queued.
    pub fn new(guard: OverloadGuard) -> Self {
        let shared = Shared {
            guard,
            sleep: None,
            observer: None,
            #[cfg(feature = "tracing")]
            events: Arc::default(),
        };
        Self { shared: Arc::new(shared), answer: Http::new() }
    }
}

impl<A> OverloadLayer<A> {
    /// Sets how queued requests sleep.
    #[must_use]
    pub fn sleep(self, sleep: Sleep) -> Self {
        self.with(|shared| shared.sleep = Some(sleep))
    }

    /// Reports the decisions of the guard to an observer.
    #[must_use]
    pub fn observer(self, observer: Arc<impl Observer>) -> Self {
        self.with(|shared| shared.observer = Some(observer))
    }

    /// Creates the responses to rejected requests with a function. `Retry-After` and
    /// `Cache-Control: no-store` are added if the response does not have them.
    pub fn answer<F, R>(self, answer: F) -> OverloadLayer<F>
    where
        F: Fn(&Denial) -> Response<R>,
    {
        self.answer_with(answer)
    }

    /// Creates the responses to rejected requests with an [`Answer`](crate::Answer), such as
    /// `Http::new().body(Body::Json)`.
    pub fn answer_with<B>(self, answer: B) -> OverloadLayer<B> {
        OverloadLayer { shared: self.shared, answer }
    }

    /// Responds to rejected requests with gRPC statuses.
    #[cfg(feature = "tonic")]
    pub fn grpc(self) -> OverloadLayer<crate::answer::Grpc> {
        self.answer_with(crate::answer::Grpc)
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::make_mut(&mut self.shared));
        self
    }
}

impl Shared {
    pub(super) fn report(&self, shed: bool, queued: core::time::Duration) {
        let event = GuardEvent { guard: self.guard.name(), is_shed: shed, queued };
        #[cfg(feature = "tracing")]
        self.events.guarded(&event);
        if let Some(observer) = &self.observer {
            catch_panic(|| observer.guarded(&event));
        }
    }
}

impl<S, A: Clone> Layer<S> for OverloadLayer<A> {
    type Service = Overload<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Overload::new(inner, Arc::clone(&self.shared), self.answer.clone())
    }
}

impl<A> fmt::Debug for OverloadLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverloadLayer").field("guard", &self.shared.guard).finish_non_exhaustive()
    }
}
