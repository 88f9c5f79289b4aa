//! Servers that read a request and reply, and do nothing in between: the cost of the protocol alone.

use core::convert::Infallible;
use core::pin::Pin;
use std::net::Ipv4Addr;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use super::grpc::{Limit, RateLimitRequest, RateLimitResponse, Status, Time};
use super::workload::LIMIT;
use crate::Failure;

/// Serves until it is killed, with as many threads as `TOKIO_WORKER_THREADS` says.
pub(crate) fn run_child(subject: &str, port: u16, bytes: usize) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        // As in the daemon, connections are accepted by a worker.
        let serving = match subject {
            "empty-hyper" => tokio::spawn(serve_http(listener, bytes)),
            "empty-tonic" => tokio::spawn(serve_grpc(listener)),
            other => return Err(format!("{other} is no server that does nothing").into()),
        };
        serving.await??;
        Ok(())
    })
}

async fn serve_http(listener: TcpListener, bytes: usize) -> Result<(), String> {
    let body = Bytes::from(vec![b'x'; bytes]);
    loop {
        let (stream, body) = (accept(&listener).await?, body.clone());
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let body = body.clone();
                async move {
                    // Every server has to read the request.
                    request.into_body().collect().await?;
                    let mut response = Response::new(Full::new(body));
                    let json = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(CONTENT_TYPE, json);
                    Ok::<_, hyper::Error>(response)
                }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            // A client may close its connection at any time.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn serve_grpc(listener: TcpListener) -> Result<(), String> {
    let builder = http2::Builder::new(TokioExecutor::new());
    loop {
        let stream = accept(&listener).await?;
        let service = service_fn(|request: Request<Incoming>| async {
            let mut grpc = Grpc::new(ProstCodec::default());
            Ok::<_, Infallible>(grpc.unary(Empty, request).await)
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let _ = connection.await;
        });
    }
}

async fn accept(listener: &TcpListener) -> Result<TcpStream, String> {
    let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Answers like a limit with room.
struct Empty;

type Answer = Result<tonic::Response<RateLimitResponse>, tonic::Status>;

impl UnaryService<RateLimitRequest> for Empty {
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn call(&mut self, _: tonic::Request<RateLimitRequest>) -> Self::Future {
        let status = Status {
            code: 1,
            limit: Some(Limit { requests: LIMIT, unit: 2, name: String::new() }),
            remaining: LIMIT - 1,
            until_reset: Some(Time { seconds: 60, nanos: 0 }),
        };
        let response = RateLimitResponse { overall_code: 1, statuses: vec![status] };
        Box::pin(async { Ok(tonic::Response::new(response)) })
    }
}
