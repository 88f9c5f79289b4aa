//! What is measured, by name.

use core::convert::Infallible;
use core::time::Duration;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use governor::clock::{Clock as _, DefaultClock, QuantaInstant, Reference as _};
use slidegate::{Limiter, Policy, Quota};
use slidegate_http::{Fields, Reset};
use slidegate_tower::{Gate, RateLimitLayer};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use super::bare::{Bare, Empty, send};
use super::{BARE, EMPTY, GOVERNOR, GOVERNOR_FIELDS, OURS, OURS_ALL, OURS_FIELDS};
use crate::Failure;

/// A thousand in a second for each address: more than comes, so that everybody passes, in a window
/// so short that entries expire all the time.
const LIMIT: u32 = 1000;

/// A service to send requests to: seed, how many; answers how many were served.
pub(crate) type Sender = Box<dyn FnMut(u64, u64) -> u64>;

/// The clock of our limiter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OurClock {
    /// The one that is shipped.
    Default,
    /// governor's. Under callgrind time runs fifty times as fast as the program, so that the shipped
    /// clock, which is set by the true one every 100 us, would be set for every other request.
    Governors,
}

/// The service of that name.
pub(crate) fn sender(subject: &str, clock: OurClock) -> Result<Sender, Failure> {
    Ok(match subject {
        BARE => boxed(Bare),
        EMPTY => boxed(Empty(Bare)),
        GOVERNOR => {
            let config = GovernorConfigBuilder::default()
                .period(Duration::from_secs(1) / LIMIT)
                .burst_size(LIMIT)
                .finish()
                .ok_or("tower_governor refused its settings")?;
            boxed(GovernorLayer::new(Arc::new(config)).layer(Bare))
        }
        GOVERNOR_FIELDS => {
            let config = GovernorConfigBuilder::default()
                .period(Duration::from_secs(1) / LIMIT)
                .burst_size(LIMIT)
                .use_headers()
                .finish()
                .ok_or("tower_governor refused its settings")?;
            boxed(GovernorLayer::new(Arc::new(config)).layer(Bare))
        }
        OURS => boxed(ours(None, clock)?.layer(Bare)),
        OURS_FIELDS => {
            boxed(ours(Some(Fields::none().x_ratelimit(Reset::Delta)), clock)?.layer(Bare))
        }
        OURS_ALL => boxed(ours(Some(Fields::new()), clock)?.layer(Bare)),
        _ => return Err(format!("no subject {subject:?}").into()),
    })
}

fn ours(fields: Option<Fields>, clock: OurClock) -> Result<RateLimitLayer, Failure> {
    let limiter = Limiter::builder(Policy::new("address", Quota::per_second(LIMIT.into())?)?);
    let limiter = match clock {
        OurClock::Default => limiter.build()?,
        OurClock::Governors => limiter.clock(GovernorsClock::new()).build()?,
    };
    Ok(RateLimitLayer::builder().gate(Gate::new(limiter)).fields(fields).build()?)
}

fn boxed<S>(mut service: S) -> Sender
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + 'static,
{
    Box::new(move |seed, requests| send(&mut service, seed, requests))
}

/// The clock that governor reads.
#[derive(Debug)]
struct GovernorsClock {
    clock: DefaultClock,
    start: QuantaInstant,
}

impl GovernorsClock {
    fn new() -> Self {
        let clock = DefaultClock::default();
        Self { start: clock.now(), clock }
    }
}

impl slidegate::Clock for GovernorsClock {
    fn now(&self) -> u64 {
        EPOCH + self.clock.now().duration_since(self.start).as_u64()
    }
}

/// When the clock starts: some moment of this century.
const EPOCH: u64 = 1_700_000_000_000_000_000;
