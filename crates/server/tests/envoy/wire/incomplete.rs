//! Messages that are never complete.
//!
//! What could go wrong: a call that holds its stream and its memory for as long as the other calls of the
//! connection keep it busy, and clients that fill the memory with parts of large messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use slidegate_server::domain::Options;
use slidegate_server::net::BodyBudget;
use slidegate_server::spec::Unit;
use slidegate_testkit::server::poll_async;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::grpc::{ask, channel, user};
use super::served::{Served, users};
use crate::frozen_time::FrozenTime;

type Pieces = http_body_util::StreamBody<ReceiverStream<Result<Frame<Bytes>, std::io::Error>>>;
type Piece = mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;

const PATH: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The time for a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the service.
async fn connect(address: SocketAddr) -> http2::SendRequest<Pieces> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A call whose body is sent in pieces.
fn call(address: SocketAddr) -> (Piece, Request<Pieces>) {
    let (pieces, taken) = mpsc::channel(4);
    let request = Request::post(format!("http://{address}/{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Pieces::new(ReceiverStream::new(taken)))
        .unwrap();
    (pieces, request)
}

/// The head of a message of `length` bytes, and some of them.
fn part(length: usize, bytes: &[u8]) -> Frame<Bytes> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    Frame::data([&[0], &length[..], bytes].concat().into())
}

fn grpc_status(response: &Response<Incoming>) -> Option<&str> {
    response.headers().get("grpc-status")?.to_str().ok()
}

#[tokio::test]
async fn a_message_that_never_ends_has_a_deadline_and_other_calls_go_on() {
    let time = FrozenTime::new();
    let served = Served::start(&users(9, Unit::Minute), Options::default()).await;
    let mut sender = connect(served.address).await;
    let (pieces, request) = call(served.address);
    pieces.send(Ok(part(100, &[0; 10]))).await.unwrap();
    let waiting = tokio::spawn(sender.send_request(request));
    let refused = time.until(MESSAGE_TIMEOUT, "the call to be refused", waiting).await;
    assert_eq!(grpc_status(&refused.unwrap().unwrap()), Some("4"));

    let (pieces, request) = call(served.address);
    let message = user("alice").encode_to_vec();
    pieces.send(Ok(part(message.len(), &message))).await.unwrap();
    drop(pieces);
    let answered = sender.send_request(request).await.unwrap();
    assert!(matches!(grpc_status(&answered), None | Some("0")), "{answered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_messages_take_a_bounded_memory_and_small_ones_are_answered() {
    const MAX: usize = 1 << 20;
    let budget = BodyBudget::new(MAX);
    let served = Served::bodies(&users(9, Unit::Minute), Arc::clone(&budget)).await;
    let mut sender = connect(served.address).await;
    let mut held = Vec::new();
    let mut refused = None;
    // Each has 100 KiB and a state that are counted, except for 16 KiB of the connection.
    for _ in 0..30 {
        let (pieces, request) = call(served.address);
        pieces.send(Ok(part(500_000, &vec![0; 100 << 10]))).await.unwrap();
        let before = budget.used();
        let mut waiting = tokio::spawn(sender.send_request(request));
        let arrived = async || {
            if waiting.is_finished() {
                return Some((&mut waiting).await.unwrap().ok());
            }
            (budget.used() >= before + (88 << 10)).then_some(None)
        };
        refused = poll_async("the message", arrived).await.unwrap();
        held.push((pieces, waiting));
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(held.len(), 10, "{} of {MAX}", budget.used());
    assert_eq!(grpc_status(&refused.unwrap()), Some("14"));
    assert!(budget.used() <= MAX);
    let channel = channel(&served).await;
    assert_eq!(ask(&channel, user("alice")).await.unwrap().overall_code, 1);

    drop((held, sender));
    let returned = async || (budget.used() == 0).then_some(());
    poll_async("the memory", returned).await.unwrap();
    let large = ask(&channel, user(&"x".repeat(500_000))).await.unwrap();
    assert_eq!((large.overall_code, budget.used()), (1, 0));
}
