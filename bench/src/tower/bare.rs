//! The service that layers are put in front of, and a layer that does nothing.

use core::convert::Infallible;
use core::future::{Future, Ready, ready};
use core::net::{Ipv4Addr, SocketAddr};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::hint::black_box;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use tower::Service;

use crate::random::Random;

/// Addresses that requests come from, all alike.
const ADDRESSES: u32 = 1000;

/// Answers at once with an empty response.
#[derive(Debug, Clone)]
pub(crate) struct Bare;

impl Service<Request<Body>> for Bare {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline(never)]
    fn call(&mut self, request: Request<Body>) -> Self::Future {
        black_box(&request);
        ready(Ok(Response::new(Body::empty())))
    }
}

/// A layer that passes everything on.
#[derive(Debug, Clone)]
pub(crate) struct Empty<S>(pub(crate) S);

impl<S: Service<Request<Body>>> Service<Request<Body>> for Empty<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        self.0.call(request)
    }
}

/// Sends `requests` requests, each from a random address. Returns the number of replies with 200.
pub(crate) fn send<S>(service: &mut S, seed: u64, requests: u64) -> u64
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let mut random = Random::new(seed);
    let mut cx = Context::from_waker(Waker::noop());
    let mut served = 0;
    for _ in 0..requests {
        let address = Ipv4Addr::from(0x0a00_0000 | random.below(ADDRESSES));
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 4711))));
        let ready = service.poll_ready(&mut cx).is_ready();
        let response = pin!(service.call(request)).poll(&mut cx);
        if let Poll::Ready(Ok(response)) = response {
            served += u64::from(ready && response.status() == 200);
            black_box(response);
        }
    }
    served
}
