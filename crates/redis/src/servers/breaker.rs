//! Stops calling a server that does not reply.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A circuit breaker: closed while calls succeed, open after several failures in a row, half-open
/// while one call probes the server.
#[derive(Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerSettings {
    /// The number of callers in a row without a reply that opens it.
    pub(crate) failures: u32,
    /// The initial time that it stays open, doubled with every failed probe.
    pub(crate) open_min: Duration,
    /// The longest it stays open.
    pub(crate) open_max: Duration,
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// Calls are sent.
    Closed,
    /// One call probes the server.
    HalfOpen,
    /// No call is sent.
    Open,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Callers in a row without a reply, while closed.
    failures: u32,
    /// Failed probes in a row.
    probes: u32,
    /// The time until which no call is sent. `None` while closed.
    until: Option<Instant>,
    /// Whether a probe is in flight.
    probing: bool,
}

/// The permission to make one call. If it is dropped without a result, it counts as neither success
/// nor failure.
#[derive(Debug)]
pub(crate) struct CallPermit<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    is_settled: bool,
}

impl Breaker {
    pub(crate) fn new(settings: BreakerSettings) -> Self {
        let state = State { failures: 0, probes: 0, until: None, probing: false };
        Self { settings, state: Mutex::new(state) }
    }

    /// Returns a pass, or the time until one may be available.
    pub(crate) fn enter(&self, now: Instant) -> Result<CallPermit<'_>, Duration> {
        let mut state = self.state.lock();
        let Some(until) = state.until else {
            return Ok(CallPermit { breaker: self, is_probe: false, is_settled: false });
        };
        if now < until {
            return Err(until - now);
        }
        if state.probing {
            return Err(self.settings.open_min);
        }
        state.probing = true;
        Ok(CallPermit { breaker: self, is_probe: true, is_settled: false })
    }

    /// Opens the breaker immediately.
    pub(crate) fn trip(&self, now: Instant) {
        self.open(&mut self.state.lock(), now);
    }

    /// Lets the next call probe the server, because it accepts connections again. Does nothing
    /// while closed.
    pub(crate) fn allow_probe(&self, now: Instant) {
        let mut state = self.state.lock();
        state.until = state.until.map(|until| until.min(now));
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        let state = self.state.lock();
        match state.until {
            None => BreakerState::Closed,
            Some(until) if state.probing || now >= until => BreakerState::HalfOpen,
            Some(_) => BreakerState::Open,
        }
    }

    fn open(&self, state: &mut State, now: Instant) {
        let doubled = self.settings.open_min.saturating_mul(1 << state.probes.min(16));
        // Half of it is random, so that many processes do not probe at the same time.
        let length = doubled.min(self.settings.open_max);
        let length = length / 2 + random_up_to(length / 2);
        state.until = Some(now + length);
        state.failures = 0;
        state.probing = false;
    }
}

/// Returns a random time from zero to `most`. Not for secrets.
pub(super) fn random_up_to(most: Duration) -> Duration {
    let bits = RandomState::new().build_hasher().finish();
    let drawn = (u128::from(bits) * (most.as_nanos() + 1)) >> 64;
    Duration::from_nanos(u64::try_from(drawn).unwrap_or(u64::MAX))
}

impl CallPermit<'_> {
    /// Returns `true` if it is for the one call that probes the server.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }

    pub(crate) fn succeed(mut self) {
        self.is_settled = true;
        let mut state = self.breaker.state.lock();
        state.failures = 0;
        // A call that started before the breaker opened has an outdated result.
        if self.is_probe {
            state.until = None;
            state.probes = 0;
            state.probing = false;
        }
    }

    /// Records that `callers` got no reply. Returns `true` if this opened the breaker.
    pub(crate) fn fail(mut self, now: Instant, callers: u32) -> bool {
        self.is_settled = true;
        let mut state = self.breaker.state.lock();
        if self.is_probe {
            state.probes += 1;
            self.breaker.open(&mut state, now);
            return false;
        }
        if state.until.is_some() {
            return false;
        }
        state.failures = state.failures.saturating_add(callers);
        let opens = state.failures >= self.breaker.settings.failures;
        if opens {
            state.probes = 0;
            self.breaker.open(&mut state, now);
        }
        opens
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_settled {
            self.breaker.state.lock().probing = false;
        }
    }
}

#[cfg(test)]
mod tests;
