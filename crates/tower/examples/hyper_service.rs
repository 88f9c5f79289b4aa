//! A hyper service behind a limit and an overload guard.
//!
//! `cargo run -p slidegate-tower --example hyper_service`

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use http::{Request, Response};
use http_body_util::{Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{OverloadGuard, OverloadLayer, PeerAddr, RateLimitLayer, Rule, Sleep};
use tokio::net::TcpListener;
use tower::{ServiceBuilder, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

/// Serves every connection of a listener.
async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error + Send + Sync>> {
    let limiter = Limiter::new(Policy::new("address", Quota::per_minute(3))?)?;
    let gates = RateLimitLayer::new(Rule::new(limiter))?;
    let guard = OverloadGuard::builder("front").concurrency_max(256).build()?;
    let guard = OverloadLayer::new(guard).sleep(Sleep::tokio());
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = ServiceBuilder::new()
            // The guard is the outermost layer, so that a rejected request costs as little as
            // possible.
            .layer(guard.clone())
            // hyper does not provide the peer's address.
            .map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddr(peer));
                request
            })
            .layer(gates.clone())
            .service(service_fn(hello));
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address: SocketAddr = listener.local_addr()?;
    let server = tokio::spawn(serve(listener));
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    for number in 1..=4 {
        let response = client.get(format!("http://{address}/").parse()?).await?;
        let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        println!(
            "request {number}: {}, remaining {}, retry after {}",
            response.status(),
            field("x-ratelimit-remaining").unwrap_or("-"),
            field("retry-after").unwrap_or("-"),
        );
    }
    server.abort();
    Ok(())
}
