//! Events of `tracing`: bounded in number, and without any secret.

use std::io;
use std::sync::{Arc, Mutex};

use crate::app::{behind, clock, limiter, status, with};
use slidegate_tower::{Gate, KeyBy, RateLimitLayer};
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
async fn a_flood_is_a_few_lines_and_none_tells_the_key() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let clock = clock();
    let gate = Gate::new(limiter("api", 1, &clock)).key(KeyBy::header("x-api-key"));
    let layer = RateLimitLayer::builder().gate(gate).clock(clock).build().unwrap();
    let (_, service) = behind(&layer);
    assert_eq!(status(&service, with("x-api-key", "planted-token")).await, 200);
    for _ in 0..1000 {
        assert_eq!(status(&service, with("x-api-key", "planted-token")).await, 429);
    }
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(text.contains("policy=\"api\"") && text.contains("outcome=\"denied\""), "{text}");
    assert!(!text.contains("planted-token"), "{text}");
    assert!(!format!("{layer:?} {service:?}").contains("planted-token"));
}
