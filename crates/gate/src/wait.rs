//! Waiting for units instead of being denied.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Decision, RetryAfter, SleepFn};

use crate::all::{Ask, take};

/// Lets requests wait for units instead of denying them. The time and the number of waiters are
/// bounded.
///
/// A store in memory with a log or GCRA serves requests in order of arrival, and refunded units move
/// the queue up. A store in Redis serves the requests of one process in order. With other stores and
/// algorithms, a request is checked again after its `retry_after`.
///
/// With several gates, a request waits in the queue of the gate with the longest wait, and then takes
/// from the others. If one of them denies, the request refunds the units and waits for that gate.
///
/// A request that would have to wait longer than `time_max`, or that finds `waiters_max` others
/// waiting, is denied immediately.
#[derive(Debug, Clone)]
pub struct WaitOptions {
    time_max: Duration,
    waiters_max: usize,
    sleep: Sleep,
    waiters: Arc<AtomicUsize>,
    on_wait: Option<OnWait>,
}

/// Called when a request begins to wait.
#[derive(Clone)]
struct OnWait(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for OnWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWait(..)")
    }
}

const WAITERS_MAX: usize = 1024;

/// The maximum number of times that a request is checked again because another request was faster. It
/// is denied after that.
const ROUNDS_MAX: usize = 64;

/// The shortest sleep. A failed store reports zero, and retrying immediately would be a busy loop.
const SLEEP_MIN: Duration = Duration::from_millis(1);

impl WaitOptions {
    /// Lets at most 1024 requests wait at the same time, each for at most `time_max`.
    pub fn new(time_max: Duration, sleep: Sleep) -> Self {
        let waiters = Arc::default();
        Self { time_max, waiters_max: WAITERS_MAX, sleep, waiters, on_wait: None }
    }

    /// Returns the same options with another maximum time. Both share the count of waiting requests, so
    /// `waiters_max` applies to their sum.
    #[must_use]
    pub fn within(&self, time_max: Duration) -> Self {
        Self { time_max, ..self.clone() }
    }

    /// Sets the maximum number of requests that wait at the same time.
    #[must_use]
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = waiters;
        self
    }

    /// Calls `begins` when a request begins to wait, for example to let another one be served
    /// meanwhile.
    #[must_use]
    pub fn on_wait(mut self, begins: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_wait = Some(OnWait(Arc::new(begins)));
        self
    }

    /// Waits for the units that are missing according to `denied`, if time and bounds permit.
    /// Returns the decisions and whether the request waited.
    pub(crate) async fn wait(
        &self,
        asks: &[&Ask<'_>],
        denied: Vec<Decision>,
    ) -> (Vec<Decision>, bool) {
        if retry_after(&denied).is_none_or(|after| after > self.time_max) {
            return (denied, false);
        }
        let Some(_waiter) = self.enter() else {
            return (denied, false);
        };
        if let Some(OnWait(begins)) = &self.on_wait {
            begins();
        }
        (self.take_in_time(asks, denied).await, true)
    }

    /// Waits for the gate with the longest wait and takes from all, until all allow or the time is
    /// over.
    async fn take_in_time(&self, asks: &[&Ask<'_>], mut decisions: Vec<Decision>) -> Vec<Decision> {
        let mut left = self.time_max;
        for _ in 0..ROUNDS_MAX {
            let Some((slowest, after)) = slowest(&decisions) else { break };
            let after = after.max(SLEEP_MIN);
            if after > left {
                break;
            }
            let gate = asks[slowest].gate;
            let began = gate.clock.now();
            let mut slept = Duration::ZERO;
            if gate.store().waits_in_order() {
                let goes_on;
                (decisions, goes_on) = self.wait_in_line(asks, slowest, left, decisions).await;
                if !goes_on {
                    break;
                }
            } else {
                self.sleep.sleep(after).await;
                slept = after;
                decisions = take(asks).await;
            }
            // The calls to the stores count too. In a test, the clock of the gate may stand still.
            let took = Duration::from_nanos(gate.clock.now().saturating_sub(began));
            left = left.saturating_sub(took.max(slept));
            if decisions.iter().all(Decision::is_allowed) {
                break;
            }
        }
        decisions
    }

    /// Waits in the queue of one gate, then takes from the others. Returns `false` if waiting
    /// longer does not help.
    async fn wait_in_line(
        &self,
        asks: &[&Ask<'_>],
        place: usize,
        left: Duration,
        mut denied: Vec<Decision>,
    ) -> (Vec<Decision>, bool) {
        let Ask { gate, key, tier, cost } = *asks[place];
        let Ok(target) = gate.target(key, tier) else { return (denied, false) };
        let sleep = &*self.sleep.0;
        let mut decision = match gate.store().wait(target, cost, left, sleep).await {
            Ok(decision) if decision.is_allowed() => decision,
            Ok(decision) => {
                denied[place] = decision;
                return (denied, false);
            }
            // The store has its own bound on waiters.
            Err(_) => return (denied, false),
        };
        let others: Vec<&Ask<'_>> = [&asks[..place], &asks[place + 1..]].concat();
        let mut decisions = take(&others).await;
        if !decisions.iter().all(Decision::is_allowed) {
            if let Some(receipt) = decision.take_receipt() {
                // Units that cannot be refunded count until they expire, which never over-admits.
                let _ = gate.refund(key, tier, receipt).await;
            }
            let looked = gate.store().peek(target, cost).await;
            decision = looked.unwrap_or(decision).into_denied();
        }
        decisions.insert(place, decision);
        (decisions, true)
    }

    fn enter(&self) -> Option<Waiter<'_>> {
        // Incremented before the comparison, so that the bound holds under concurrency.
        let before = self.waiters.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter(&self.waiters);
        (before < self.waiters_max).then_some(waiter)
    }
}

/// Returns the time after which every check may pass, or `None` if one never does.
pub(crate) fn retry_after(decisions: &[Decision]) -> Option<Duration> {
    let denied = decisions.iter().filter(|decision| !decision.is_allowed());
    denied.map(Decision::retry_after).max().unwrap_or(RetryAfter::Now).duration()
}

/// Returns the denied check with the longest wait, and that wait. Returns `None` if all pass or one
/// never does.
fn slowest(decisions: &[Decision]) -> Option<(usize, Duration)> {
    let after = retry_after(decisions)?;
    let is_slowest = |decision: &Decision| {
        !decision.is_allowed() && decision.retry_after().duration() == Some(after)
    };
    decisions.iter().position(is_slowest).map(|place| (place, after))
}

/// Counts a request as waiting until it is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sleeps with the timer of a runtime or, in a test, by advancing a clock.
///
/// ```
/// use std::time::Duration;
/// use slidegate::ManualClock;
/// use slidegate_gate::Sleep;
///
/// // No real time passes: sleeping advances the clock of the test.
/// let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
/// let _sleep = Sleep::new(move |time| {
///     clock.advance(time);
///     async {}
/// });
/// ```
#[derive(Clone)]
pub struct Sleep(Arc<SleepFn>);

impl Sleep {
    /// Sleeps with a function whose future is ready when the time has passed.
    pub fn new<F>(sleep: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |time| Box::pin(sleep(time))))
    }

    /// Sleeps with tokio's timers. Requests must be served in a tokio runtime.
    #[cfg(feature = "tokio")]
    pub fn tokio() -> Self {
        Self::new(tokio::time::sleep)
    }

    /// Returns a future that is ready when the time has passed.
    pub fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        (self.0)(time)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep(..)")
    }
}
