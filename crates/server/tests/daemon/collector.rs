//! A collector of OpenTelemetry: takes spans over gRPC and keeps them.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

/// `ExportTraceServiceRequest`, as far as it is looked at.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Export {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resources: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scopes: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(fixed64, tag = "7")]
    pub(crate) began: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) ended: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, optional, tag = "1")]
    pub(crate) text: Option<String>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) number: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exported {}

impl Span {
    /// An attribute that is a text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| attribute.key == key)?;
        found.value.as_ref()?.text.as_deref()
    }
}

/// What has come.
#[derive(Clone, Default)]
pub(crate) struct ReceivedSpans(Arc<Mutex<Vec<Export>>>);

impl ReceivedSpans {
    pub(crate) fn spans(&self) -> Vec<Span> {
        let exports = self.0.lock().unwrap();
        let resources = exports.iter().flat_map(|export| &export.resources);
        resources.flat_map(|resource| &resource.scopes).flat_map(|it| it.spans.clone()).collect()
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.0.lock().unwrap().clone()
    }
}

impl UnaryService<Export> for ReceivedSpans {
    type Response = Exported;
    type Future = Ready<Result<tonic::Response<Exported>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<Export>) -> Self::Future {
        self.0.lock().unwrap().push(request.into_inner());
        ready(Ok(tonic::Response::new(Exported {})))
    }
}

/// A collector on a free port, gone with the test.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    pub(crate) came: ReceivedSpans,
    _runtime: Runtime,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, came) = (listener.local_addr().unwrap(), ReceivedSpans::default());
        runtime.spawn(take(listener, came.clone()));
        Self { address, came, _runtime: runtime }
    }
}

async fn take(listener: TcpListener, came: ReceivedSpans) {
    while let Ok((stream, _)) = listener.accept().await {
        let came = came.clone();
        let answer = service_fn(move |request| {
            let came = came.clone();
            async move {
                let mut grpc = Grpc::new(ProstCodec::default());
                Ok::<_, Infallible>(grpc.unary(came, request).await)
            }
        });
        tokio::spawn(
            http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), answer),
        );
    }
}
