//! Decides which requests to serve when far more arrive than usual.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use slidegate::Clock;

use super::baseline::Baseline;
use super::bucket::{Bucket, Place};
use super::builder::OverloadGuardBuilder;

/// Decides which requests to serve when far more arrive than usual.
///
/// It learns the usual number of requests: an exponentially weighted average over intervals, used
/// after a warm-up. A token bucket refills at a multiple of it. A request that finds it empty is
/// queued, each slightly longer than the one before. A request that would be queued for too long is
/// rejected. In addition, the number of requests in service is bounded. A request above that bound
/// is queued with doubling delays, then rejected.
///
/// A flood raises the average no faster than allowed traffic does: with the defaults by at most a
/// sixteenth per second. After a pause it falls to the `floor`, not below.
///
/// It has no timer and no thread: time comes from its clock, and a queued request sleeps by its
/// own means. Clones share one guard. [`OverloadLayer`](crate::OverloadLayer) applies it to a
/// service.
///
/// ```
/// use std::time::Duration;
/// use slidegate::ManualClock;
/// use slidegate_tower::{Arrival, OverloadGuard};
///
/// let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
/// let guard = OverloadGuard::builder("front").concurrency_max(1).clock(clock.clone()).build()?;
///
/// let Arrival::Admitted(admission) = guard.arrive() else { panic!("there is room") };
/// let Arrival::Queued(place) = guard.arrive() else { panic!("one is being served") };
/// clock.advance(place.delay());
/// drop(admission);
/// assert!(matches!(place.again(), Arrival::Admitted(_)));
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct OverloadGuard {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) percent: u32,
    pub(super) interval: Duration,
    pub(super) weight: u32,
    pub(super) warm_up: u32,
    pub(super) floor: u32,
    pub(super) concurrency_max: usize,
    pub(super) queue_max: usize,
    pub(super) delay_max: Duration,
    pub(super) enabled: bool,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    clock: Box<dyn Clock>,
    enabled: AtomicBool,
    flow: Mutex<Flow>,
    serving: AtomicUsize,
    queued: AtomicUsize,
    admitted: AtomicU64,
    shed: AtomicU64,
}

#[derive(Debug)]
struct Flow {
    baseline: Baseline,
    bucket: Bucket,
}

/// The decision about a request.
#[derive(Debug)]
#[must_use = "dropping the admission admits the next request"]
pub enum Arrival {
    /// Serve the request, and keep the admission until it is done.
    Admitted(Admission),
    /// Not yet: sleep for [`Queued::delay`], then call [`Queued::again`].
    Queued(Queued),
    /// Reject the request with 503 and this `Retry-After`.
    Shed(Duration),
}

/// The permission to serve one request. Dropping it admits another one.
#[derive(Debug)]
pub struct Admission {
    inner: Arc<Inner>,
}

/// A place in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Queued {
    inner: Arc<Inner>,
    delay: Duration,
    /// The sum of all delays so far, including this one.
    total: Duration,
    /// The next delay, if too many requests are in service then.
    next: Duration,
}

/// The status of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverloadStats {
    /// The usual number of requests per interval, at least the floor.
    pub baseline: u64,
    /// Whether the warm-up is over.
    pub is_warm: bool,
    /// Requests in service.
    pub serving: usize,
    /// Requests in the queue.
    pub queued: usize,
    /// Requests admitted so far.
    pub admitted: u64,
    /// Requests rejected so far.
    pub shed: u64,
}

/// The first delay of a request that finds too many in service. Each further delay is doubled.
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// The `Retry-After` of a request that is rejected because too many are in service. The time that
/// these take is unknown.
const BUSY_RETRY: Duration = Duration::from_secs(1);

impl OverloadGuard {
    /// Returns a builder. The name is for metrics and follows the rules for policy names.
    pub fn builder(name: &str) -> OverloadGuardBuilder {
        OverloadGuardBuilder::new(name)
    }

    pub(super) fn new(settings: Settings, clock: Box<dyn Clock>) -> Self {
        let baseline = Baseline::new(
            nanos(settings.interval),
            settings.weight.into(),
            settings.warm_up.into(),
            settings.percent.into(),
            settings.floor.into(),
        );
        let inner = Inner {
            clock,
            enabled: AtomicBool::new(settings.enabled),
            flow: Mutex::new(Flow { baseline, bucket: Bucket::default() }),
            serving: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            admitted: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            settings,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Decides about a request that has arrived.
    pub fn arrive(&self) -> Arrival {
        let inner = &self.inner;
        let place = inner.place();
        if !inner.enabled.load(Ordering::Relaxed) {
            return Arrival::Admitted(Admission::new(inner));
        }
        match place {
            Place::In(0) => inner.enter(Duration::ZERO, FIRST_DELAY),
            Place::In(wait) => {
                let delay = Duration::from_nanos(wait);
                inner.queue(delay, delay, FIRST_DELAY).unwrap_or_else(|| inner.shed(delay))
            }
            Place::TooLate(wait) => inner.shed(Duration::from_nanos(wait)),
        }
    }

    /// Enables or disables the guard.
    pub fn set_enabled(&self, enabled: bool) {
        self.inner.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.inner.settings.name
    }

    /// Returns the current status.
    pub fn stats(&self) -> OverloadStats {
        let inner = &self.inner;
        let mut flow = inner.flow.lock().unwrap_or_else(PoisonError::into_inner);
        flow.baseline.advance(inner.clock.now());
        OverloadStats {
            baseline: flow.baseline.arrivals(),
            is_warm: flow.baseline.is_warm(),
            serving: inner.serving.load(Ordering::Relaxed),
            queued: inner.queued.load(Ordering::Relaxed),
            admitted: inner.admitted.load(Ordering::Relaxed),
            shed: inner.shed.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    /// Counts a request and finds its place in the bucket.
    fn place(&self) -> Place {
        let now = self.clock.now();
        let mut flow = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
        flow.baseline.arrive(now);
        if !flow.baseline.is_warm() {
            return Place::In(0);
        }
        let (period, burst) = (flow.baseline.period(), flow.baseline.interval());
        flow.bucket.take(now, period, burst, nanos(self.settings.delay_max))
    }

    /// Admits a request if not too many are in service. Otherwise queues it for `delay`.
    fn enter(self: &Arc<Self>, total: Duration, delay: Duration) -> Arrival {
        // Incremented first, so that the bound holds. No other ordering is needed.
        let admission = Admission::new(self);
        if self.serving.load(Ordering::Relaxed) <= self.settings.concurrency_max {
            return Arrival::Admitted(admission);
        }
        admission.revoke();
        let total = total.saturating_add(delay);
        if total > self.settings.delay_max {
            return self.shed(BUSY_RETRY);
        }
        self.queue(delay, total, delay * 2).unwrap_or_else(|| self.shed(BUSY_RETRY))
    }

    fn queue(
        self: &Arc<Self>,
        delay: Duration,
        total: Duration,
        next: Duration,
    ) -> Option<Arrival> {
        let before = self.queued.fetch_add(1, Ordering::Relaxed);
        let place = Queued { inner: Arc::clone(self), delay, total, next };
        (before < self.settings.queue_max).then_some(Arrival::Queued(place))
    }

    fn shed(&self, retry_after: Duration) -> Arrival {
        self.shed.fetch_add(1, Ordering::Relaxed);
        Arrival::Shed(retry_after)
    }
}

impl Admission {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.serving.fetch_add(1, Ordering::Relaxed);
        inner.admitted.fetch_add(1, Ordering::Relaxed);
        Self { inner: Arc::clone(inner) }
    }

    /// Drops the admission without counting the request as admitted.
    fn revoke(self) {
        self.inner.admitted.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.inner.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queued {
    /// Returns the time to sleep.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the total time in the queue, including this delay.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Tries again after the delay.
    pub fn again(self) -> Arrival {
        let (inner, total, next) = (Arc::clone(&self.inner), self.total, self.next);
        // Leaves the queue first, so that it can take the same place again.
        drop(self);
        inner.enter(total, next)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.inner.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
