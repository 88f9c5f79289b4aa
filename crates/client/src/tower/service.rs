//! The service.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::replay::{Once, Replay};
use crate::pacer::Pacer;
use crate::pacing::Next;
use crate::repeat::Repeat;
use crate::scope::Target;
use crate::turn::Turn;

/// A client service that learns a server's quotas, paces, waits and retries.
///
/// Always ready: a request waits for its turn first and for the service inside afterwards, so that
/// it holds none of that one's places while it waits. Every response carries a
/// [`Paced`](crate::Paced) in its extensions.
#[derive(Debug, Clone)]
pub struct PacingService<S, R = Once> {
    inner: S,
    pacer: Pacer,
    replay: R,
}

/// What went wrong inside, or an [`Error`](crate::Error) for what was not sent.
type BoxError = Box<dyn core::error::Error + Send + Sync>;

impl<S, R> PacingService<S, R> {
    pub(super) fn new(inner: S, pacer: Pacer, replay: R) -> Self {
        Self { inner, pacer, replay }
    }
}

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
        let turn = self.pacer.turn(self.pacer.scope(&target));
        Box::pin(run(self.inner.clone(), self.replay.clone(), turn, request))
    }
}

/// Sends a request until there is an answer to hand on.
async fn run<S, R, B, C>(
    mut inner: S,
    replay: R,
    mut turn: Turn,
    mut request: Request<B>,
) -> Result<Response<C>, BoxError>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Error: Into<BoxError>,
    R: Replay<B>,
{
    loop {
        turn.ready(tokio::time::sleep).await?;
        poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
        let copy = copy(&request, &replay);
        let repeat =
            copy.as_ref().map_or(Repeat::Never, |copy| Repeat::of(copy.method(), copy.headers()));
        let mut response = inner.call(request).await.map_err(Into::into)?;
        let next = turn.answered(response.status(), response.headers(), repeat);
        match (next, copy) {
            (Next::Again, Some(copy)) => request = copy,
            _ => {
                response.extensions_mut().insert(turn.paced());
                return Ok(response);
            }
        }
    }
}

/// The same request once more, if its body can be sent twice.
fn copy<B>(request: &Request<B>, replay: &impl Replay<B>) -> Option<Request<B>> {
    let mut copy = Request::new(replay.copy(request.body())?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
