//! `tracing` events: bounded in number, and without secrets.
//!
//! This is a separate program, because the subscriber is global.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use slidegate::{Limiter, ManualClock, Policy, Quota};
use slidegate_tower::{KeyBy, RateLimitLayer, Rule};
use tower::{Layer, ServiceExt, service_fn};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_flood_makes_few_lines_without_keys() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let policy = Policy::new("api", Quota::per_minute(1)).unwrap();
    let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
    let gate = Rule::new(limiter).key(KeyBy::header("x-api-key"));
    let layer = RateLimitLayer::builder().rule(gate).clock(clock).build().unwrap();
    let service = layer.layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let mut denied = 0;
    for _ in 0..1001 {
        let request = Request::builder().header("x-api-key", "planted-token").body(()).unwrap();
        denied += usize::from(service.clone().oneshot(request).await.unwrap().status() == 429);
    }
    assert_eq!(denied, 1000);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(text.contains("policy=\"api\"") && text.contains("outcome=\"denied\""), "{text}");
    assert!(!text.contains("planted-token"), "{text}");
    assert!(!format!("{layer:?}").contains("planted-token"));
}
