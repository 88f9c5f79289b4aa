//! The same API over TLS and over HTTP/2.
//!
//! What could go wrong: a certificate that is replaced only on paper, a client that passes for verified,
//! a stream of HTTP/2 that holds up or ends the others.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use slidegate::Quota;
use slidegate_server::http::{
    Connections, Handle, HttpSettings, HttpState, Peer, Reply, ServeLimits, Server, TlsConfig,
};
use slidegate_server::spec::{PolicySpec, Spec};
use slidegate_testkit::server::Certificates;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::frozen_time::FrozenTime;
use crate::http_client::{Running, api, engine, until};

fn spec() -> Spec {
    let policy = PolicySpec::new("api", vec![Quota::per_minute(100)]);
    Spec { policies: vec![policy], ..Spec::default() }
}

fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

fn roots(certificates: &Certificates) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain(certificates.authority()));
    Arc::new(roots)
}

fn key(certificates: &Certificates) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(certificates.server_key().as_bytes()).unwrap()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// With `clients`, every client must present a certificate of that authority.
fn server_config(own: &Certificates, clients: Option<&Certificates>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots(authority), provider());
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    builder.with_single_cert(chain(own.server()), key(own)).unwrap()
}

fn client_config(trusted: &Certificates, own: Option<&Certificates>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(trusted));
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder.with_client_auth_cert(chain(own.server()), key(own)).unwrap(),
    }
}

/// Serves over TLS for as long as the test runs.
async fn serve<H: Handle>(
    handler: H,
    tls: &TlsConfig,
    limits: ServeLimits,
) -> (SocketAddr, Arc<Connections>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Connections::new("http", 10);
    let server = Server {
        listener,
        handler: Arc::new(handler),
        limits,
        connections: Arc::clone(&connections),
        tls: Some(Arc::clone(tls)),
    };
    tokio::spawn(server.serve(std::future::pending()));
    (address, connections)
}

/// Returns the whole reply to one request over TLS, as text, or `None` if there is no reply.
async fn ask(address: SocketAddr, config: ClientConfig) -> Option<String> {
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let request = "GET /v1/check?policy=api&key=a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

#[tokio::test]
async fn a_certificate_is_replaced_while_it_is_used() {
    let [old, new] = [(); 2].map(|()| Certificates::new().unwrap());
    let tls: TlsConfig = Arc::new(ArcSwap::from_pointee(server_config(&old, None)));
    let (engine, _clock) = engine(&spec());
    let state = HttpState::new(engine, HttpSettings::default());
    let (address, _) = serve(state, &tls, ServeLimits::default()).await;
    let answer = ask(address, client_config(&old, None)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"remaining\":99"), "{answer}");
    assert_eq!(ask(address, client_config(&new, None)).await, None);
    tls.store(Arc::new(server_config(&new, None)));
    assert_eq!(ask(address, client_config(&old, None)).await, None);
    assert!(ask(address, client_config(&new, None)).await.unwrap().contains("\"remaining\":98"));
}

/// A handler that replies with the client's verification status.
struct Verified;

impl Handle for Verified {
    type Body = Full<Bytes>;

    async fn handle(&self, _: &mut Request<Incoming>, peer: &Peer) -> Reply {
        Response::new(Full::from(format!("verified {}", peer.is_verified)))
    }
}

#[tokio::test]
async fn only_who_has_shown_a_certificate_is_verified() {
    let [own, clients, strangers] = [(); 3].map(|()| Certificates::new().unwrap());
    let open: TlsConfig = Arc::new(ArcSwap::from_pointee(server_config(&own, None)));
    let (address, _) = serve(Verified, &open, ServeLimits::default()).await;
    let answer = ask(address, client_config(&own, Some(&clients))).await.unwrap();
    assert!(answer.ends_with("verified false"), "{answer}");

    let closed: TlsConfig = Arc::new(ArcSwap::from_pointee(server_config(&own, Some(&clients))));
    let (address, _) = serve(Verified, &closed, ServeLimits::default()).await;
    let answer = ask(address, client_config(&own, Some(&clients))).await.unwrap();
    assert!(answer.ends_with("verified true"), "{answer}");
    for other in [None, Some(&strangers)] {
        let answer = ask(address, client_config(&own, other)).await;
        assert!(!answer.is_some_and(|answer| answer.contains("verified")));
    }
}

#[tokio::test]
async fn who_does_not_greet_is_cut() {
    let own = Certificates::new().unwrap();
    let tls: TlsConfig = Arc::new(ArcSwap::from_pointee(server_config(&own, None)));
    let time = FrozenTime::new();
    let limits = ServeLimits::default();
    let header_timeout = limits.header_timeout;
    let (address, connections) = serve(Verified, &tls, limits).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    let closed = silent.read_to_end(&mut bytes);
    let closed = time.until(header_timeout, "the connection to be closed", closed).await;
    assert_eq!(closed.unwrap_or(0), 0);
    assert_eq!(connections.cut.get(), 1);
    // A client that does not speak TLS gets no HTTP reply.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP"));
    until("all to be gone", || connections.open() == 0).await;
}

type Sender<B> = http2::SendRequest<B>;

/// A connection of HTTP/2 that is known to speak it.
async fn http2<B>(address: SocketAddr) -> Sender<B>
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn check<B>(address: SocketAddr, body: B) -> Request<B> {
    Request::post(format!("http://{address}/v1/check"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

async fn read(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn many_at_once_on_one_connection() {
    let (server, _clock) = api(&spec()).await;
    let sender = http2(server.address).await;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..150 {
        let mut sender = sender.clone();
        let body = Full::from(json!({"policy": "api", "key": "a"}).to_string());
        let request = check(server.address, body);
        asked.spawn(async move {
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["content-type"], "application/json");
            read(response).await["allowed"] == true
        });
    }
    let allowed = asked.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(allowed, 100);
    assert_eq!(server.connections.accepted.get(), 1);
}

type Pieces =
    StreamBody<tokio_stream::wrappers::ReceiverStream<Result<Frame<Bytes>, std::io::Error>>>;

#[tokio::test]
async fn slow_body_does_not_delay_other_requests() {
    let (engine, _clock) = engine(&spec());
    let time = FrozenTime::new();
    let settings = HttpSettings::default();
    let body_timeout = settings.body_timeout;
    let server = Running::of(Arc::new(HttpState::new(engine, settings))).await;
    let mut sender: Sender<Pieces> = http2(server.address).await;
    let body = || {
        let (pieces, taken) = tokio::sync::mpsc::channel(4);
        (pieces, StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(taken)))
    };
    let (slow, slow_body) = body();
    slow.send(Ok(Frame::data(Bytes::from("{\"policy\":")))).await.unwrap();
    let waiting = sender.send_request(check(server.address, slow_body));
    let (quick, quick_body) = body();
    let text = json!({"policy": "api", "key": "a"}).to_string();
    quick.send(Ok(Frame::data(Bytes::from(text)))).await.unwrap();
    drop(quick);
    let other = sender.clone().send_request(check(server.address, quick_body));
    let waiting = tokio::spawn(waiting);
    assert_eq!(other.await.unwrap().status(), 200);
    let slow_answer = time.until(body_timeout, "the slow body to be refused", waiting).await;
    let slow_answer = slow_answer.unwrap().unwrap();
    assert_eq!(slow_answer.status(), 408);
    assert_eq!(read(slow_answer).await["status"], 408);
    assert_eq!(server.connections.cut.get(), 0);
}
