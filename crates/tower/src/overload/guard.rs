//! Decides which requests there is room for.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use slidegate::Clock;

use super::baseline::Baseline;
use super::bucket::{Bucket, Place};
use super::builder::OverloadGuardBuilder;

/// Decides which requests there is room for, when more come than usual.
///
/// It learns how many requests usually arrive: an average over intervals, exponentially weighted,
/// relied on after a warm-up. A bucket refills at a multiple of that. Who finds it empty is queued,
/// each a little longer than the one before, and who would be queued for too long is shed. Besides,
/// no more than a bounded number of requests are served at a time; who comes on top is queued with
/// doubling delays, then shed.
///
/// A flood raises the average no faster than what is allowed does: with the defaults by at most a
/// sixteenth a second. After a pause it falls to the `floor`, not below.
///
/// It owns no timer and no thread: time comes from its clock, and whoever is queued sleeps by its
/// own means. Clones are one guard. [`OverloadLayer`](crate::OverloadLayer) puts it in front of a
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
/// let Arrival::Admitted(pass) = guard.arrive() else { panic!("there is room") };
/// let Arrival::Queued(place) = guard.arrive() else { panic!("one is being served") };
/// clock.advance(place.delay());
/// drop(pass);
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

/// What becomes of a request.
#[derive(Debug)]
#[must_use = "a pass that is dropped makes room for the next request"]
pub enum Arrival {
    /// There is room: serve it, and hold on to the pass meanwhile.
    Admitted(Pass),
    /// Not yet: sleep for [`Queued::delay`], then call [`Queued::again`].
    Queued(Queued),
    /// There is no room and none soon: answer 503, and tell to come again after this time.
    Shed(Duration),
}

/// Room for one request while it is served. Dropping it makes room.
#[derive(Debug)]
pub struct Pass {
    inner: Arc<Inner>,
}

/// A place in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Queued {
    inner: Arc<Inner>,
    delay: Duration,
    /// All delays so far, this one included.
    total: Duration,
    /// The next delay, if too many are being served then.
    next: Duration,
}

/// Where a guard stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverloadStats {
    /// Requests that usually arrive in an interval, at least the floor.
    pub baseline: u64,
    /// Whether the warm-up is over.
    pub is_warm: bool,
    /// Requests being served.
    pub serving: usize,
    /// Requests in the queue.
    pub queued: usize,
    /// Requests admitted so far.
    pub admitted: u64,
    /// Requests shed so far.
    pub shed: u64,
}

/// The first delay of a request that finds too many being served; each further one is doubled.
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// What those are told to wait who are shed because too many are being served: nobody knows how
/// long these take.
const BUSY_RETRY: Duration = Duration::from_secs(1);

impl OverloadGuard {
    /// Starts a guard. The name is for metrics; the rules of policies' names hold.
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

    /// A request is there.
    pub fn arrive(&self) -> Arrival {
        let inner = &self.inner;
        let place = inner.place();
        if !inner.enabled.load(Ordering::Relaxed) {
            return Arrival::Admitted(Pass::new(inner));
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

    /// Turns it on or off.
    pub fn set_enabled(&self, enabled: bool) {
        self.inner.enabled.store(enabled, Ordering::Relaxed);
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.settings.name
    }

    /// Where it stands.
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
    /// Counts a request and finds its place in the bucket's flow.
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

    /// Serves a request if not too many are being served; else it is queued for `delay`.
    fn enter(self: &Arc<Self>, total: Duration, delay: Duration) -> Arrival {
        // Counted first, so that the bound holds; nothing else hangs on the order.
        let pass = Pass::new(self);
        if self.serving.load(Ordering::Relaxed) <= self.settings.concurrency_max {
            return Arrival::Admitted(pass);
        }
        pass.revoke();
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

impl Pass {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.serving.fetch_add(1, Ordering::Relaxed);
        inner.admitted.fetch_add(1, Ordering::Relaxed);
        Self { inner: Arc::clone(inner) }
    }

    /// Drops it as if it had never been.
    fn revoke(self) {
        self.inner.admitted.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.inner.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queued {
    /// How long to sleep.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// How long it has been queued in all, this delay included.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Tries again, after the delay.
    pub fn again(self) -> Arrival {
        let (inner, total, next) = (Arc::clone(&self.inner), self.total, self.next);
        // Leaves the queue first: it may come back to the very place.
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
