//! The deny cache: repeats denials without calling Redis.
//!
//! A key that is over its limit stays so until time frees units, and the reply contains that time.
//! The denial is repeated until then, or for a shorter time if refunds and resets can free units
//! too. The time is measured from when the call was sent, which is before Redis decided, and ends
//! with the microsecond in which Redis would allow, not with the tick. So no check is denied that
//! Redis would have allowed.
//!
//! The exception is a server clock that steps back: the key was denied until a time that is now
//! later. So Redis is called again several times per window.

use core::time::Duration;

use parking_lot::Mutex;
use slidegate::{Clock, Decision, MonotonicClock, Outcome, QuotaDecision, RetryAfter};
use tokio::time::Instant;

use crate::key::TieredKey;

/// A bounded table of denials, in sets of four. The denial that ends first is replaced.
#[derive(Debug)]
pub(crate) struct DenyCache<C = MonotonicClock> {
    sets: Box<[Mutex<CacheSet>]>,
    /// The maximum time that a denial is repeated. `None` if only time frees units.
    cap: Option<Duration>,
    /// Takes half the time of `Instant::now`, which would be most of the time of a denial.
    clock: C,
}

#[derive(Debug, Default)]
struct CacheSet {
    places: [Option<Denial>; WAYS],
    /// When a key of this set was last removed. Replies to earlier calls may not include later
    /// refunds.
    removed_at: Option<Instant>,
}

#[derive(Debug)]
struct Denial {
    key: TieredKey,
    /// The lowest cost that was denied.
    cost: u64,
    span: Span,
    is_blocked: bool,
    quotas: Box<[QuotaDecision]>,
}

/// When a denial was received and until when it applies, in nanoseconds of the cache's clock.
#[derive(Debug, Clone, Copy)]
struct Span {
    received: u64,
    /// The end of the denial.
    until: u64,
    /// The time until which none of the units that cause it can have expired.
    held_until: u64,
}

/// A check that Redis denied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeniedCheck<'a> {
    pub(crate) key: TieredKey,
    pub(crate) cost: u64,
    /// The longest window of its quotas.
    pub(crate) window: Duration,
    pub(crate) decision: &'a Decision,
}

/// The quotas of a repeated denial. A whole `Decision` is ten times as large, and would be copied.
#[derive(Debug)]
pub(crate) enum CachedDenial {
    ByOne(QuotaDecision),
    ByMany(Vec<QuotaDecision>),
    Blocked(Vec<QuotaDecision>),
}

/// When a call was sent and its reply received, on the local clock, and when it was executed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyTimes {
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    /// On the server's clock.
    pub(crate) server: Duration,
    /// The time since the start of the server's tick. Waits are measured from the start of the
    /// tick.
    pub(crate) into_tick: Duration,
}

const WAYS: usize = 4;

/// Without a cap, the number of calls to Redis per window.
const REPLIES_PER_WINDOW: u32 = 16;

/// The minimum time between these calls.
const UNCAPPED_MIN: Duration = Duration::from_millis(100);

impl DenyCache {
    /// Creates a cache for `keys` denials, at most about a hundred bytes each.
    pub(crate) fn new(keys: usize, cap: Option<Duration>) -> Self {
        Self::with_clock(keys, cap, MonotonicClock::new())
    }
}

impl<C: Clock> DenyCache<C> {
    fn with_clock(keys: usize, cap: Option<Duration>, clock: C) -> Self {
        let sets = keys.div_ceil(WAYS).next_power_of_two();
        Self { sets: (0..sets).map(|_| Mutex::default()).collect(), cap, clock }
    }

    /// Returns the denial of `cost`, if it still applies.
    #[inline]
    pub(crate) fn get(&self, key: TieredKey, cost: u64) -> Option<CachedDenial> {
        let set = self.set(key.key).lock();
        let denial = set.find(key)?;
        let now = self.clock.now();
        denial.applies(cost, now).then(|| denial.denied(cost, now))
    }

    /// Returns `true` if a denial of the key is due to units that cannot have expired yet. If Redis
    /// has none of them, it has lost the key.
    pub(crate) fn has_unexpired_units(&self, key: TieredKey) -> bool {
        let set = self.set(key.key).lock();
        set.find(key).is_some_and(|denial| self.clock.now() < denial.span.held_until)
    }

    /// Stores a denial.
    pub(crate) fn put(&self, denied: DeniedCheck<'_>, times: ReplyTimes) {
        // Read first, so that it is not later than the instant that it is compared with.
        let now = self.clock.now();
        self.put_at(now, Instant::now(), denied, times);
    }

    fn put_at(&self, now: u64, real: Instant, denied: DeniedCheck<'_>, times: ReplyTimes) {
        let DeniedCheck { key, cost, window, decision } = denied;
        // A cost above the limit is denied in any state, so there is nothing to store.
        let Some(wait) = decision.retry_after().duration() else {
            return;
        };
        let wait = wait.saturating_sub(times.into_tick);
        let longest = self.cap.unwrap_or_else(|| UNCAPPED_MIN.max(window / REPLIES_PER_WINDOW));
        // The cache's clock may lag by this much now or later. The denial must not end late, and
        // its age must not be too large.
        let lag = self.clock.lag();
        let end = |wait: Duration| {
            let left = wait.saturating_sub(real.saturating_duration_since(times.sent));
            now.saturating_add(nanos(left)).saturating_sub(lag)
        };
        let age = real.saturating_duration_since(times.received);
        let span = Span {
            received: now.saturating_sub(nanos(age)).saturating_add(lag),
            until: end(wait.min(longest).min(window)),
            // Another process may end a block at any time.
            held_until: if decision.is_blocked() { now } else { end(wait) },
        };
        let mut set = self.set(key.key).lock();
        if set.removed_at.is_none_or(|at| times.sent >= at) {
            let is_blocked = decision.is_blocked();
            // A block denies every cost.
            let cost = if is_blocked { 1 } else { cost };
            set.put(Denial { key, cost, span, is_blocked, quotas: decision.quotas().into() });
        }
    }

    /// Removes a key in all tiers, because units were refunded.
    pub(crate) fn remove(&self, key: u64, now: Instant) {
        let mut set = self.set(key).lock();
        set.removed_at = Some(now);
        for place in &mut set.places {
            place.take_if(|denial| denial.key.key == key);
        }
    }

    #[inline]
    fn set(&self, key: u64) -> &Mutex<CacheSet> {
        let mask = self.sets.len() as u64 - 1;
        let index = usize::try_from(key >> 20 & mask).unwrap_or(0);
        &self.sets[index]
    }
}

impl CacheSet {
    #[inline]
    fn find(&self, key: TieredKey) -> Option<&Denial> {
        self.places.iter().flatten().find(|denial| denial.key == key)
    }

    fn put(&mut self, new: Denial) {
        let is_same = |place: &Option<Denial>| place.as_ref().is_some_and(|old| old.key == new.key);
        // Its own place if it has one, otherwise an empty one, otherwise that of the first to end.
        let order = |place: &&mut Option<Denial>| {
            (!is_same(place), place.as_ref().map(|old| old.span.until))
        };
        let Some(place) = self.places.iter_mut().min_by_key(order) else {
            return;
        };
        // The denial of the smaller cost also covers the larger one.
        let covers = |old: &Denial| old.span.until > new.span.received && old.cost < new.cost;
        if !(is_same(place) && place.as_ref().is_some_and(covers)) {
            *place = Some(new);
        }
    }
}

impl Denial {
    #[inline]
    fn applies(&self, cost: u64, now: u64) -> bool {
        now < self.span.until && cost >= self.cost
    }

    /// Returns the quotas of the reply, aged by the time since it was received, so that a caller
    /// that waits for `retry_after` does not return too early. For a larger cost than was denied,
    /// `retry_after` is a lower bound.
    #[inline]
    fn denied(&self, cost: u64, now: u64) -> CachedDenial {
        let age = Duration::from_nanos(now.saturating_sub(self.span.received));
        match &*self.quotas {
            [quota] if !self.is_blocked => CachedDenial::ByOne(aged(quota, cost, age)),
            many => {
                let quotas = many.iter().map(|quota| aged(quota, cost, age)).collect();
                if self.is_blocked {
                    CachedDenial::Blocked(quotas)
                } else {
                    CachedDenial::ByMany(quotas)
                }
            }
        }
    }
}

impl CachedDenial {
    #[inline]
    pub(crate) fn decision(&self) -> Decision {
        match self {
            Self::ByOne(quota) => Decision::new(Outcome::Deny, &[*quota], None),
            Self::ByMany(quotas) => Decision::new(Outcome::Deny, quotas, None),
            Self::Blocked(quotas) => {
                Decision::new(Outcome::Deny, quotas, None).into_blocked(Duration::ZERO)
            }
        }
    }
}

/// Returns the state of a quota `age` later, for a check of `cost`.
#[inline]
fn aged(quota: &QuotaDecision, cost: u64, age: Duration) -> QuotaDecision {
    let aged = quota.aged(age);
    if cost <= quota.limit() {
        return aged;
    }
    QuotaDecision::new(aged.limit(), aged.remaining(), RetryAfter::Never, aged.reset_after())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
