//! A layer for tower clients.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::paced_request::PacedRequest;
use crate::pacer::Pacer;
use crate::pacing::Next;
use crate::repeat::Repeat;
use crate::scope::Target;

/// Wraps a client service so that it learns a server's quotas, paces, waits and retries.
///
/// By default, every request is sent once: it is paced, and its response is learned from, but it is
/// not retried. [`replay_clones`](PacingLayer::replay_clones) is for bodies that can be cloned.
#[derive(Debug, Clone, Default)]
pub struct PacingLayer<R = Once> {
    pacer: Pacer,
    replay: R,
}

impl PacingLayer {
    /// Creates a layer that is paced by `pacer`, together with all clients that share it.
    pub fn new(pacer: Pacer) -> Self {
        Self { pacer, replay: Once }
    }

    /// Retries requests with clones of their bodies.
    pub fn replay_clones(self) -> PacingLayer<Cloned> {
        self.replay_with(Cloned)
    }

    /// Retries requests whose bodies `replay` can copy: a [`Replay`], or a function from a body to
    /// an optional copy.
    pub fn replay_with<R>(self, replay: R) -> PacingLayer<R> {
        PacingLayer { pacer: self.pacer, replay }
    }
}

impl<S, R: Clone> Layer<S> for PacingLayer<R> {
    type Service = PacingService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        PacingService { inner, pacer: self.pacer.clone(), replay: self.replay.clone() }
    }
}

/// Copies request bodies, so that they can be sent again.
pub trait Replay<B> {
    /// Returns a copy of a body that was not sent yet, or `None` if it can be read only once.
    fn copy(&self, body: &B) -> Option<B>;
}

/// Never sends a body again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Once;

/// Clones bodies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cloned;

impl<B> Replay<B> for Once {
    fn copy(&self, _: &B) -> Option<B> {
        None
    }
}

impl<B: Clone> Replay<B> for Cloned {
    fn copy(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

impl<B, F: Fn(&B) -> Option<B>> Replay<B> for F {
    fn copy(&self, body: &B) -> Option<B> {
        self(body)
    }
}

/// A client service that learns a server's quotas, paces, waits and retries.
///
/// It is always ready: a request is paced first and then waits for the inner service, so that it
/// does not occupy that service's capacity while it is paced. Every response has a
/// [`PacingReport`](crate::PacingReport) in its extensions.
#[derive(Debug, Clone)]
pub struct PacingService<S, R = Once> {
    inner: S,
    pacer: Pacer,
    replay: R,
}

/// An error of the inner service, or an [`Error`](crate::Error) if the request was not sent.
type BoxError = Box<dyn core::error::Error + Send + Sync>;

impl<S, R, B, C> Service<Request<B>> for PacingService<S, R>
where
    S: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    R: Replay<B> + Clone + Send + 'static,
    B: Send + 'static,
    C: Send + 'static,
{
    type Response = Response<C>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let target = Target::new(request.method(), request.uri(), request.headers());
        let paced = self.pacer.request(self.pacer.scope(&target));
        Box::pin(run(self.inner.clone(), self.replay.clone(), paced, request))
    }
}

/// Sends a request until there is a response to return.
async fn run<S, R, B, C>(
    mut inner: S,
    replay: R,
    mut paced: PacedRequest,
    request: Request<B>,
) -> Result<Response<C>, BoxError>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Error: Into<BoxError>,
    R: Replay<B>,
{
    let (parts, mut body) = request.into_parts();
    loop {
        paced.ready(tokio::time::sleep).await?;
        poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
        let copy = replay.copy(&body);
        let repeat = match copy {
            Some(_) => Repeat::of(&parts.method, &parts.headers),
            None => Repeat::Never,
        };
        let request = Request::from_parts(parts.clone(), body);
        let mut response = inner.call(request).await.map_err(Into::into)?;
        let next = paced.answered(response.status(), response.headers(), repeat);
        match (next, copy) {
            (Next::Again, Some(copy)) => body = copy,
            _ => {
                response.extensions_mut().insert(paced.report());
                return Ok(response);
            }
        }
    }
}
