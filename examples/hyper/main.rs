//! A hyper service that allows five requests per minute and address: see README.md.

#![expect(clippy::print_stdout, reason = "the example prints its address")]

use std::convert::Infallible;
use std::error::Error;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{PeerAddr, RateLimitLayer, Rule};
use tokio::net::TcpListener;
use tower::{ServiceBuilder, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new(Policy::new("address", Quota::per_minute(5))?)?;
    // Cloned for each connection: the clones share the limiter.
    let layer = RateLimitLayer::new(Rule::new(limiter))?;

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = ServiceBuilder::new()
            // hyper does not provide the peer's address.
            .map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddr(peer));
                request
            })
            .layer(layer.clone())
            .service(service_fn(hello));
        let connection = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
