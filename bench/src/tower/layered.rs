//! What is measured, by name.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::hint::black_box;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use governor::clock::{Clock as _, DefaultClock};
use slidegate::{Limiter, Policy, Quota};
use slidegate_http::{Fields, Reset};
use slidegate_tower::{RateLimitLayer, Rule};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use super::bare::{Bare, Empty, send};
use super::{BARE, EMPTY, GOVERNOR, GOVERNOR_FIELDS, OURS, OURS_ALL, OURS_FIELDS};
use crate::Failure;

/// Slidegate's limit: a hundred per minute for each of the thousand addresses. A millisecond passes with every
/// request, so that each makes sixty: nearly all pass, and one expires for each that passes.
const LIMIT: u32 = 100;

/// The peer's limit: more than is ever requested. Its work does not depend on the number.
const BURST: u32 = 1_000_000;

/// A service to send requests to: takes a seed and a number, returns the number served.
pub(crate) type Sender = Box<dyn FnMut(u64, u64) -> u64>;

/// The service of that name.
pub(crate) fn sender(subject: &str) -> Result<Sender, Failure> {
    Ok(match subject {
        BARE => boxed(Bare),
        EMPTY => boxed(Empty(Bare)),
        GOVERNOR => {
            let config = GovernorConfigBuilder::default()
                .period(Duration::from_nanos(1))
                .burst_size(BURST)
                .finish()
                .ok_or("tower_governor refused its settings")?;
            boxed(GovernorLayer::new(Arc::new(config)).layer(Bare))
        }
        GOVERNOR_FIELDS => {
            let config = GovernorConfigBuilder::default()
                .period(Duration::from_nanos(1))
                .burst_size(BURST)
                .use_headers()
                .finish()
                .ok_or("tower_governor refused its settings")?;
            boxed(GovernorLayer::new(Arc::new(config)).layer(Bare))
        }
        OURS => boxed(ours(None)?.layer(Bare)),
        OURS_FIELDS => boxed(ours(Some(Fields::none().x_ratelimit(Reset::Delta)))?.layer(Bare)),
        OURS_ALL => boxed(ours(Some(Fields::new()))?.layer(Bare)),
        _ => return Err(format!("no subject {subject:?}").into()),
    })
}

fn ours(fields: Option<Fields>) -> Result<RateLimitLayer, Failure> {
    let policy = Policy::new("address", Quota::per_minute(LIMIT))?;
    let limiter = Limiter::builder(policy).clock(PacedClock::new()).build()?;
    Ok(RateLimitLayer::builder().rule(Rule::new(limiter)).fields(fields).build()?)
}

fn boxed<S>(mut service: S) -> Sender
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + 'static,
{
    Box::new(move |seed, requests| send(&mut service, seed, requests))
}

/// Reads governor's clock, so that both pay for the same, and answers that a millisecond has passed:
/// a minute of real requests would take a minute.
#[derive(Debug)]
struct PacedClock {
    clock: DefaultClock,
    millis: AtomicU64,
}

impl PacedClock {
    fn new() -> Self {
        Self { clock: DefaultClock::default(), millis: AtomicU64::new(EPOCH_MILLIS) }
    }
}

impl slidegate::Clock for PacedClock {
    fn now(&self) -> u64 {
        black_box(self.clock.now());
        // One thread: a load and a store do.
        let millis = self.millis.load(Ordering::Relaxed) + 1;
        self.millis.store(millis, Ordering::Relaxed);
        millis * 1_000_000
    }
}

/// When the clock starts: some moment of this century.
const EPOCH_MILLIS: u64 = 1_700_000_000_000;
