//! The tower layer, with tokio's paused clock.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, Request, Response, StatusCode};
use slidegate::{Clock, Limiter, Policy, Quota};
use slidegate_client::{ErrorKind, Pacer, PacingLayer, PacingReport, Random, Replay, Settings};
use slidegate_http::{Fields, PolicyDecision};
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// Tokio's time since an epoch, which tests can pause.
#[derive(Debug, Clone)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> u64 {
        let time = Duration::from_secs(1_700_000_000) + self.0.elapsed();
        u64::try_from(time.as_nanos()).unwrap()
    }
}

fn clock() -> TokioClock {
    TokioClock(Instant::now())
}

fn pacer() -> Pacer {
    Pacer::builder().clock(clock()).random(Random::from_seed(5)).build()
}

fn request(method: Method) -> Request<String> {
    let request = Request::builder().method(method).uri("https://api.example.com/path");
    request.header("x-own", "kept").body("body".to_owned()).unwrap()
}

fn response(status: StatusCode, headers: HeaderMap) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The inner service.
type Inner = BoxCloneService<Request<String>, Response<String>, BoxError>;

/// Refuses the first request with `status` and a wait of half a minute.
fn refuses_once(status: StatusCode, sent: &Arc<AtomicU32>) -> Inner {
    let sent = Arc::clone(sent);
    BoxCloneService::new(service_fn(move |request: Request<String>| {
        assert_eq!(
            (request.body().as_str(), &request.headers()["x-own"]),
            ("body", &"kept".parse().unwrap())
        );
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "30".parse().unwrap());
        let status = if number == 0 { status } else { StatusCode::OK };
        async move { Ok(response(status, headers)) }
    }))
}

async fn call<R>(
    layer: PacingLayer<R>,
    method: Method,
    status: StatusCode,
) -> (StatusCode, PacingReport, Duration)
where
    R: Replay<String> + Clone + Send + 'static,
{
    let sent = Arc::new(AtomicU32::new(0));
    let service = ServiceBuilder::new().layer(layer).service(refuses_once(status, &sent));
    let start = clock();
    let response = service.oneshot(request(method)).await.unwrap();
    let paced = *response.extensions().get::<PacingReport>().unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), paced.attempts);
    (response.status(), paced, start.0.elapsed())
}

#[tokio::test(start_paused = true)]
async fn cloneable_requests_are_retried_after_the_servers_time() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let layer = PacingLayer::new(pacer()).replay_clones();
        let (last, paced, took) = call(layer, Method::GET, status).await;
        assert_eq!((last, paced.attempts), (StatusCode::OK, 2));
        let expected = Duration::from_secs(30)..=Duration::from_millis(33_002);
        assert!(expected.contains(&took) && expected.contains(&paced.waited), "{took:?} {paced:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_requests_are_sent_once() {
    let refused = StatusCode::TOO_MANY_REQUESTS;
    let streaming = |_: &String| None;
    let (status, paced, took) = call(PacingLayer::new(pacer()), Method::GET, refused).await;
    assert_eq!((status, paced.attempts, took), (refused, 1, Duration::ZERO));
    let layer = PacingLayer::new(pacer()).replay_with(streaming);
    let (status, paced, _) = call(layer, Method::POST, refused).await;
    assert_eq!((status, paced.attempts), (refused, 1));
    let layer = PacingLayer::new(pacer()).replay_clones();
    let (status, paced, _) = call(layer, Method::POST, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!((status, paced.attempts), (StatusCode::SERVICE_UNAVAILABLE, 1));
}

/// Enforces a limiter, with its fields.
fn limited(limit: u32, statuses: &Arc<Mutex<Vec<StatusCode>>>) -> Inner {
    let policy = Policy::new("api", Quota::per_minute(limit)).unwrap();
    let limiter = Arc::new(Limiter::builder(policy).clock(clock()).build().unwrap());
    let statuses = Arc::clone(statuses);
    BoxCloneService::new(service_fn(move |_| {
        let (limiter, statuses) = (Arc::clone(&limiter), Arc::clone(&statuses));
        async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let decision = limiter.check("client");
            let allowed = decision.is_allowed();
            let status = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
            statuses.lock().unwrap().push(status);
            let mut headers = HeaderMap::new();
            let decisions = [PolicyDecision::new(limiter.policy(), &decision)];
            Fields::new().write(&decisions, SystemTime::UNIX_EPOCH, &mut headers);
            Ok(response(status, headers))
        }
    }))
}

// Twenty at once with ten per minute: the first learns, and none is refused.
#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_learned_quotas() {
    let statuses = Arc::default();
    let layer = PacingLayer::new(pacer());
    let service = ServiceBuilder::new().layer(layer).service(limited(10, &statuses));
    let start = clock();
    let calls: Vec<_> =
        (0..20).map(|_| tokio::spawn(service.clone().oneshot(request(Method::GET)))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(*statuses.lock().unwrap(), [StatusCode::OK; 20]);
    let took = start.0.elapsed();
    assert!((Duration::from_secs(60)..Duration::from_secs(70)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_frees_its_place() {
    let pacer = pacer();
    let statuses = Arc::default();
    let layer = PacingLayer::new(pacer.clone());
    let service = ServiceBuilder::new().layer(layer).service(limited(1, &statuses));
    service.clone().oneshot(request(Method::GET)).await.unwrap();
    let start = clock();
    let place = |wait| {
        let call = service.clone().oneshot(request(Method::GET));
        tokio::time::timeout(Duration::from_secs(wait), call)
    };
    let (given_up, served) = tokio::join!(place(5), place(90));
    assert!(given_up.is_err());
    assert_eq!(served.unwrap().unwrap().status(), StatusCode::OK);
    // Behind the cancelled request, it would have been served after two minutes.
    let took = start.0.elapsed();
    assert!((Duration::from_secs(59)..Duration::from_secs(62)).contains(&took), "{took:?}");
    assert_eq!(pacer.stats().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn unsent_requests_fail_with_a_reason() {
    let settings = Settings::builder().deadline(Duration::from_secs(10)).build().unwrap();
    let pacer = Pacer::builder().settings(settings).clock(clock()).build();
    let statuses = Arc::default();
    let layer = PacingLayer::new(pacer);
    let service = ServiceBuilder::new().layer(layer).service(limited(1, &statuses));
    service.clone().oneshot(request(Method::GET)).await.unwrap();
    let error = service.oneshot(request(Method::GET)).await.unwrap_err();
    let error: &slidegate_client::Error = error.downcast_ref().unwrap();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(error.wait().unwrap() > Duration::from_secs(50));
}

#[tokio::test(start_paused = true)]
async fn inner_errors_are_returned_and_the_next_request_is_sent() {
    let fails = service_fn(|_: Request<String>| async {
        Err::<Response<String>, BoxError>("the wire is cut".into())
    });
    let service = ServiceBuilder::new().layer(PacingLayer::new(pacer())).service(fails);
    let start = clock();
    for _ in 0..3 {
        let error = service.clone().oneshot(request(Method::GET)).await.unwrap_err();
        assert_eq!(error.to_string(), "the wire is cut");
    }
    assert_eq!(start.0.elapsed(), Duration::ZERO);
}
