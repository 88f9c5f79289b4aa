//! Refusals over the wire.

use std::time::{Duration, SystemTime};

use futures_util::stream;
use http::{HeaderMap, StatusCode};
use slidegate_client::{ErrorKind, PacingReport, Settings};

use crate::server::{Driver, Server, client, refusal, send};

/// Refuses the first request, with a wait of a second, and allows the others.
async fn refuses_once(status: StatusCode) -> Server {
    Server::answering(move |number| match number {
        0 => refusal(status, "1"),
        _ => (StatusCode::OK, HeaderMap::new()),
    })
    .await
}

fn attempts(response: &reqwest::Response) -> u32 {
    response.extensions().get::<PacingReport>().unwrap().attempts
}

#[tokio::test(start_paused = true)]
async fn a_get_is_retried_not_before_the_servers_time() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let server = refuses_once(status).await;
        let pacer = server.pacer().build();
        let response = send(&pacer, client(&pacer).get(server.url())).await.unwrap();
        assert_eq!((response.status(), attempts(&response)), (StatusCode::OK, 2));
        let seen = server.seen();
        assert_eq!(seen.len(), 2);
        assert!(seen[1].at >= seen[0].at + Duration::from_secs(1), "{seen:?}");
    }
}

// A streamed body is gone after it is sent: a second attempt would send nothing, or half.
#[tokio::test(start_paused = true)]
async fn a_post_with_a_streaming_body_is_sent_once() {
    let server = refuses_once(StatusCode::TOO_MANY_REQUESTS).await;
    let parts = stream::iter([Ok::<_, std::io::Error>("some "), Ok("parts")]);
    let pacer = server.pacer().build();
    let request = client(&pacer).post(server.url()).body(reqwest::Body::wrap_stream(parts));
    let response = send(&pacer, request).await.unwrap();
    assert_eq!((response.status(), attempts(&response)), (StatusCode::TOO_MANY_REQUESTS, 1));
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, "some parts");
}

#[tokio::test(start_paused = true)]
async fn a_buffered_post_is_retried_after_429_but_not_503() {
    for (status, expected) in
        [(StatusCode::TOO_MANY_REQUESTS, 2), (StatusCode::SERVICE_UNAVAILABLE, 1)]
    {
        let server = refuses_once(status).await;
        let pacer = server.pacer().build();
        let request = client(&pacer).post(server.url()).body("whole");
        let response = send(&pacer, request).await.unwrap();
        assert_eq!(attempts(&response), expected, "{status}");
        let seen = server.seen();
        assert!(seen.len() == usize::try_from(expected).unwrap(), "{status}: {seen:?}");
        assert!(seen.iter().all(|seen| seen.body == "whole"), "{status}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_until_a_date() {
    // The server starts at a whole second, so its date is two seconds ahead.
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_002);
    let text = httpdate::fmt_http_date(date);
    let server = Server::answering(move |number| match number {
        0 => refusal(StatusCode::TOO_MANY_REQUESTS, &text),
        _ => (StatusCode::OK, HeaderMap::new()),
    })
    .await;
    let pacer = server.pacer().build();
    let response = send(&pacer, client(&pacer).get(server.url())).await.unwrap();
    assert_eq!(attempts(&response), 2);
    let came = SystemTime::UNIX_EPOCH + server.seen()[1].at;
    assert!(came >= date, "{:?} too early", date.duration_since(came));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_leaves_no_state() {
    let server = refuses_once(StatusCode::TOO_MANY_REQUESTS).await;
    let pacer = server.pacer().build();
    let client = client(&pacer);
    let waiting = tokio::spawn(client.get(server.url()).send());
    let driver = Driver::new(&pacer);
    while pacer.stats().waiting == 0 {
        // No time passes: with one more request than exist, it never waits.
        driver.step(2).await;
    }
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(pacer.stats().waiting, 0);
    assert_eq!(server.seen().len(), 1);
    // The next request still waits for the server's time.
    let response = send(&pacer, client.get(server.url())).await.unwrap();
    assert_eq!((response.status(), attempts(&response)), (StatusCode::OK, 1));
    let seen = server.seen();
    assert!(seen[1].at >= seen[0].at + Duration::from_secs(1), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn stops_sending_to_a_server_that_keeps_refusing() {
    let server = Server::answering(|_| refusal(StatusCode::TOO_MANY_REQUESTS, "0")).await;
    let settings = Settings::builder().refusals(3, Duration::from_secs(600));
    let settings = settings.backoff(Duration::ZERO, Duration::ZERO).build().unwrap();
    let pacer = server.pacer().settings(settings).build();
    let client = client(&pacer);
    let response = send(&pacer, client.get(server.url())).await.unwrap();
    assert_eq!((response.status(), attempts(&response)), (StatusCode::TOO_MANY_REQUESTS, 3));
    let error = send(&pacer, client.get(server.url())).await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { unreachable!("{error}") };
    let error: &slidegate_client::Error = error.downcast_ref().unwrap();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    assert_eq!(server.seen().len(), 3);
}

// Requests share a refusal: the first is refused, the others never are.
#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_a_refusal() {
    let server = refuses_once(StatusCode::TOO_MANY_REQUESTS).await;
    let pacer = server.pacer().build();
    let client = client(&pacer);
    let requests = (0..20).map(|_| tokio::spawn(client.get(server.url()).send())).collect();
    for response in Driver::new(&pacer).finish(requests).await {
        assert_eq!(response.unwrap().status(), StatusCode::OK);
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 21);
    assert!(seen[1..].iter().all(|later| later.at >= seen[0].at + Duration::from_secs(1)));
}
