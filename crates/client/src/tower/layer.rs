//! The layer.

use tower_layer::Layer;

use super::replay::{Cloned, Once};
use super::service::PacingService;
use crate::pacer::Pacer;

/// Wraps a client service so that it learns a server's quotas, paces, waits and retries.
///
/// Unless told how to copy bodies, every request is sent once: it waits before it is sent, and what
/// its answer tells is learned, but it is not retried. [`replay_clones`](PacingLayer::replay_clones)
/// is for bodies that can be cloned.
#[derive(Debug, Clone, Default)]
pub struct PacingLayer<R = Once> {
    pacer: Pacer,
    replay: R,
}

impl PacingLayer {
    /// Paced by `pacer`, together with all that share it.
    pub fn new(pacer: Pacer) -> Self {
        Self { pacer, replay: Once }
    }

    /// Retries requests, with clones of their bodies.
    pub fn replay_clones(self) -> PacingLayer<Cloned> {
        self.replay_with(Cloned)
    }

    /// Retries requests whose bodies `replay` can copy: a [`Replay`](crate::Replay), or a function
    /// from a body to a copy of it, if there can be one.
    pub fn replay_with<R>(self, replay: R) -> PacingLayer<R> {
        PacingLayer { pacer: self.pacer, replay }
    }
}

impl<S, R: Clone> Layer<S> for PacingLayer<R> {
    type Service = PacingService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        PacingService::new(inner, self.pacer.clone(), self.replay.clone())
    }
}
