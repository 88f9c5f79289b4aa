//! Middleware for reqwest.

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next as Rest, Result};

use crate::pacer::Pacer;
use crate::pacing::Next;
use crate::repeat::Repeat;
use crate::scope::Target;

/// Middleware for reqwest that learns a server's quotas, paces, waits and retries.
///
/// Make it the innermost middleware, so that it sees every attempt of the others. A request with a
/// streaming body is sent once. Every response has a [`PacingReport`](crate::PacingReport) in its
/// extensions. A request that is not sent fails with an [`Error`](crate::Error) inside
/// [`Error::Middleware`].
///
/// ```
/// use reqwest_middleware::ClientBuilder;
/// use slidegate_client::{Pacer, PacingMiddleware};
///
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(PacingMiddleware::new(Pacer::new()))
///     .build();
/// # drop(client);
/// ```
#[derive(Debug, Clone, Default)]
pub struct PacingMiddleware {
    pacer: Pacer,
}

impl PacingMiddleware {
    /// Creates middleware that is paced by `pacer`, together with all clients that share it.
    pub fn new(pacer: Pacer) -> Self {
        Self { pacer }
    }
}

#[async_trait]
impl Middleware for PacingMiddleware {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        rest: Rest<'_>,
    ) -> Result<Response> {
        let scope = {
            let target = Target::of_url(request.method(), request.url(), request.headers());
            self.pacer.scope(&target)
        };
        let mut paced = self.pacer.request(scope);
        loop {
            paced.ready(tokio::time::sleep).await.map_err(Error::middleware)?;
            let copy = request.try_clone();
            let mut response = rest.clone().run(request, extensions).await?;
            let repeat = copy
                .as_ref()
                .map_or(Repeat::Never, |copy| Repeat::of(copy.method(), copy.headers()));
            let next = paced.answered(response.status(), response.headers(), repeat);
            match (next, copy) {
                (Next::Again, Some(copy)) => request = copy,
                _ => {
                    response.extensions_mut().insert(paced.report());
                    return Ok(response);
                }
            }
        }
    }
}
