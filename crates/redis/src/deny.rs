//! Denials that Redis need not be asked for again.
//!
//! A key that is over its limit stays so until time frees units, and Redis has said when that is.
//! Until then, or for a shorter time where something else than time can free units, the denial is
//! repeated from memory. The time counts from the moment the question was sent, which is before
//! the moment Redis judged it, and ends with the microsecond in which Redis would allow, not with
//! the tick: so no request is denied that Redis would have allowed.

use core::time::Duration;

use parking_lot::Mutex;
use slidegate::{Clock, Decision, MonotonicClock, Outcome, QuotaDecision};
use tokio::time::Instant;

use crate::who::Who;

/// A bounded table of denials, in sets of four; the one that ends first makes room.
#[derive(Debug)]
pub(crate) struct DenyCache<C = MonotonicClock> {
    sets: Box<[Mutex<Set>]>,
    /// The longest that a denial is repeated; none if only time frees units.
    cap: Option<Duration>,
    /// Takes half the time of `Instant::now`, which would be most of what a denial takes.
    clock: C,
}

#[derive(Debug, Default)]
struct Set {
    places: [Option<Denial>; WAYS],
    /// When a key of this set was last forgotten: answers to earlier questions may not know yet
    /// what was given back.
    forgotten: Option<Instant>,
}

#[derive(Debug)]
struct Denial {
    who: Who,
    /// The least cost that was denied.
    cost: u64,
    span: Span,
    quotas: Box<[QuotaDecision]>,
}

/// From when on a denial is known until when it stands, in nanoseconds of the cache's clock.
#[derive(Debug, Clone, Copy)]
struct Span {
    received: u64,
    until: u64,
}

/// A denial that is repeated: where the quotas stand. A whole decision is ten times as large, and
/// would be copied on its way.
#[derive(Debug)]
pub(crate) enum Denied {
    ByOne(QuotaDecision),
    ByMany(Vec<QuotaDecision>),
}

/// When Redis was asked and when it answered, on our clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    /// How far into a tick the server's clock was; the waits it tells are from the tick's
    /// beginning on.
    pub(crate) into_tick: Duration,
}

const WAYS: usize = 4;

impl DenyCache {
    /// Room for `keys` denials, at most about a hundred bytes each.
    pub(crate) fn new(keys: usize, cap: Option<Duration>) -> Self {
        Self::with_clock(keys, cap, MonotonicClock::new())
    }
}

impl<C: Clock> DenyCache<C> {
    fn with_clock(keys: usize, cap: Option<Duration>, clock: C) -> Self {
        let sets = keys.div_ceil(WAYS).next_power_of_two();
        Self { sets: (0..sets).map(|_| Mutex::default()).collect(), cap, clock }
    }

    /// The denial of `cost`, if it still stands.
    #[inline]
    pub(crate) fn get(&self, who: Who, cost: u64) -> Option<Denied> {
        let set = self.set(who.key).lock();
        let denial = set.find(who)?;
        let now = self.clock.now();
        denial.stands(cost, now).then(|| denial.denied(cost, now))
    }

    /// Remembers a denial.
    pub(crate) fn put(&self, who: Who, cost: u64, times: Times, decision: &Decision) {
        // Before the moment it is taken for.
        let now = self.clock.now();
        self.put_at(now, Instant::now(), who, cost, times, decision);
    }

    fn put_at(
        &self,
        now: u64,
        real: Instant,
        who: Who,
        cost: u64,
        times: Times,
        decision: &Decision,
    ) {
        // A cost above the limit needs no memory: it says so at once, everywhere.
        let Some(wait) = decision.retry_after() else {
            return;
        };
        let wait = wait.saturating_sub(times.into_tick);
        let wait = self.cap.map_or(wait, |cap| wait.min(cap));
        let left = wait.saturating_sub(real.saturating_duration_since(times.sent));
        let age = real.saturating_duration_since(times.received);
        // Our clock lags by up to so much, now or when it is read again. Either way the denial ends
        // no later than it should, and its age is told no larger than it is.
        let lag = self.clock.lag();
        let span = Span {
            received: now.saturating_sub(nanos(age)).saturating_add(lag),
            until: now.saturating_add(nanos(left)).saturating_sub(lag),
        };
        let mut set = self.set(who.key).lock();
        if set.forgotten.is_none_or(|at| times.sent >= at) {
            set.put(Denial { who, cost, span, quotas: decision.quotas().into() });
        }
    }

    /// Forgets a key, in all tiers: units were given back to it.
    pub(crate) fn remove(&self, key: u64, now: Instant) {
        let mut set = self.set(key).lock();
        set.forgotten = Some(now);
        for place in &mut set.places {
            place.take_if(|denial| denial.who.key == key);
        }
    }

    #[inline]
    fn set(&self, key: u64) -> &Mutex<Set> {
        let mask = self.sets.len() as u64 - 1;
        let index = usize::try_from(key >> 20 & mask).unwrap_or(0);
        &self.sets[index]
    }
}

impl Set {
    #[inline]
    fn find(&self, who: Who) -> Option<&Denial> {
        self.places.iter().flatten().find(|denial| denial.who == who)
    }

    fn put(&mut self, new: Denial) {
        let is_same = |place: &Option<Denial>| place.as_ref().is_some_and(|old| old.who == new.who);
        // Its own place if it has one, else an empty one, else that of the first to end.
        let order = |place: &&mut Option<Denial>| {
            (!is_same(place), place.as_ref().map(|old| old.span.until))
        };
        let Some(place) = self.places.iter_mut().min_by_key(order) else {
            return;
        };
        // Two denials at a time: that of the lesser cost says more.
        let says_more = |old: &Denial| old.span.until > new.span.received && old.cost < new.cost;
        if !(is_same(place) && place.as_ref().is_some_and(says_more)) {
            *place = Some(new);
        }
    }
}

impl Denial {
    #[inline]
    fn stands(&self, cost: u64, now: u64) -> bool {
        now < self.span.until && cost >= self.cost
    }

    /// As Redis said it, aged by the time since its answer came, so that whoever waits so long
    /// does not come too early. For a larger cost than was denied, `retry_after` is a lower bound.
    #[inline]
    fn denied(&self, cost: u64, now: u64) -> Denied {
        let age = Duration::from_nanos(now.saturating_sub(self.span.received));
        match &*self.quotas {
            [quota] => Denied::ByOne(aged(quota, cost, age)),
            many => Denied::ByMany(many.iter().map(|quota| aged(quota, cost, age)).collect()),
        }
    }
}

impl Denied {
    #[inline]
    pub(crate) fn decision(&self) -> Decision {
        match self {
            Self::ByOne(quota) => Decision::new(Outcome::Deny, &[*quota], None),
            Self::ByMany(quotas) => Decision::new(Outcome::Deny, quotas, None),
        }
    }
}

/// Where a quota stands `age` later, for who asks for `cost`.
#[inline]
fn aged(quota: &QuotaDecision, cost: u64, age: Duration) -> QuotaDecision {
    let aged = quota.aged(age);
    if cost <= quota.limit() {
        return aged;
    }
    QuotaDecision::new(aged.limit(), aged.remaining(), None, aged.reset_after())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};
    use slidegate::ManualClock;

    const MS: Duration = Duration::from_millis(1);
    const ALICE: Who = Who { key: 1, tier: 0 };

    /// A cache in a process whose time the test moves.
    struct Process<C = ManualClock> {
        cache: DenyCache<C>,
        clock: ManualClock,
        start: Instant,
    }

    const EPOCH: Duration = Duration::from_secs(1_700_000_000);

    impl Process {
        fn new(keys: usize, cap: Option<Duration>) -> Self {
            Self::with_clock(keys, cap, Clone::clone)
        }
    }

    impl<C: Clock> Process<C> {
        fn with_clock(
            keys: usize,
            cap: Option<Duration>,
            read: impl FnOnce(&ManualClock) -> C,
        ) -> Self {
            let clock = ManualClock::new(EPOCH);
            let cache = DenyCache::with_clock(keys, cap, read(&clock));
            Self { cache, clock, start: Instant::now() }
        }

        fn now(&self) -> Instant {
            self.start + Duration::from_nanos(self.clock.now()) - EPOCH
        }

        /// Redis has just been asked, and answered at once.
        fn put(&self, who: Who, cost: u64, retry_ms: u32) {
            self.put_sent(self.now(), who, cost, retry_ms);
        }

        fn put_sent(&self, sent: Instant, who: Who, cost: u64, retry_ms: u32) {
            let times = Times { sent, received: self.now(), into_tick: Duration::ZERO };
            self.put_told(times, who, cost, retry_ms);
        }

        fn put_told(&self, times: Times, who: Who, cost: u64, retry_ms: u32) {
            let (wait, read) = (retry_ms * MS, self.cache.clock.now());
            let quota = QuotaDecision::new(5, 0, Some(wait), wait);
            let decision = Decision::new(Outcome::Deny, &[quota], None);
            self.cache.put_at(read, self.now(), who, cost, times, &decision);
        }

        fn retry_after(&self, who: Who, cost: u64) -> Option<Duration> {
            self.cache.get(who, cost)?.decision().retry_after()
        }

        fn stands(&self, who: Who, cost: u64) -> bool {
            self.cache.get(who, cost).is_some()
        }
    }

    #[test]
    fn repeats_until_time_frees_units() {
        let process = Process::new(16, None);
        process.put(ALICE, 1, 1000);
        assert!(!process.stands(Who { key: 2, tier: 0 }, 1));
        assert!(!process.stands(Who { key: 1, tier: 2 }, 1), "another tier");
        process.clock.advance(400 * MS);
        let decision = process.cache.get(ALICE, 1).unwrap().decision();
        assert_eq!(decision.retry_after(), Some(600 * MS));
        assert_eq!(decision.reset_after(), 600 * MS);
        process.clock.advance(599 * MS);
        assert!(process.stands(ALICE, 1));
        process.clock.advance(MS);
        assert!(!process.stands(ALICE, 1));
    }

    #[test]
    fn asks_again_when_redis_would_allow_and_tells_the_wait_from_the_answer_on() {
        let process = Process::new(16, None);
        let sent = process.now();
        process.clock.advance(5 * MS);
        let times = Times { sent, received: process.now(), into_tick: MS / 4 };
        // It may take a while until the answer is looked at.
        process.clock.advance(2 * MS);
        process.put_told(times, ALICE, 1, 100);
        process.clock.advance(43 * MS);
        assert_eq!(process.retry_after(ALICE, 1), Some(55 * MS));
        process.clock.advance(49 * MS + MS / 2);
        assert!(process.stands(ALICE, 1));
        process.clock.advance(MS / 4);
        assert!(!process.stands(ALICE, 1));
    }

    /// A clock that lags, now more and now less.
    #[derive(Debug)]
    struct Late {
        clock: ManualClock,
        by: AtomicU64,
    }

    impl Clock for Late {
        fn now(&self) -> u64 {
            self.clock.now() - self.by.load(Ordering::Relaxed)
        }

        fn lag(&self) -> u64 {
            100_000
        }
    }

    // A clock that lags more when it is read again than when the denial came would repeat it for
    // too long; one that lags less would tell of a wait that is too short.
    #[test]
    fn a_clock_that_lags_denies_nobody_whom_redis_would_allow() {
        for (first, then) in [(0, 100_000), (100_000, 0), (50_000, 50_000)] {
            let read = |clock: &ManualClock| Late { clock: clock.clone(), by: AtomicU64::new(0) };
            let process = Process::with_clock(16, None, read);
            process.cache.clock.by.store(first, Ordering::Relaxed);
            process.put(ALICE, 1, 1000);
            process.cache.clock.by.store(then, Ordering::Relaxed);
            process.clock.advance(400 * MS);
            let told = process.retry_after(ALICE, 1).unwrap();
            assert!(told >= 600 * MS, "{told:?} is too early");
            assert!(told <= 600 * MS + MS / 5, "{told:?} is more than two lags late");
            process.clock.advance(Duration::from_micros(599_799));
            assert!(process.stands(ALICE, 1), "ends more than two lags early");
            process.clock.advance(Duration::from_micros(201));
            assert!(!process.stands(ALICE, 1), "denied what Redis would allow");
        }
    }

    #[test]
    fn asks_again_after_the_cap() {
        let process = Process::new(16, Some(100 * MS));
        process.put(ALICE, 1, 1000);
        process.clock.advance(99 * MS);
        assert!(process.stands(ALICE, 1));
        process.clock.advance(MS);
        assert!(!process.stands(ALICE, 1));
    }

    #[test]
    fn a_smaller_cost_is_asked_for() {
        let process = Process::new(16, None);
        process.put(ALICE, 3, 1000);
        assert!(!process.stands(ALICE, 2));
        assert!(process.stands(ALICE, 3));
        assert!(process.stands(ALICE, 4));
        assert_eq!(
            process.cache.get(ALICE, 6).unwrap().decision().retry_after(),
            None,
            "above the limit"
        );
        // The denial of a larger cost does not make the smaller one free, nor wait for longer.
        process.put(ALICE, 1, 500);
        process.put(ALICE, 4, 2000);
        assert_eq!(process.retry_after(ALICE, 1), Some(500 * MS));
        process.clock.advance(499 * MS);
        assert!(process.stands(ALICE, 1));
        process.clock.advance(MS);
        assert!(!process.stands(ALICE, 1));
        // Once that is over, the larger one is known again.
        process.put(ALICE, 4, 1500);
        assert_eq!(process.retry_after(ALICE, 4), Some(1500 * MS));
    }

    #[test]
    fn what_was_given_back_is_forgotten() {
        let process = Process::new(16, None);
        let tier = Who { tier: 7, ..ALICE };
        let sent = process.now();
        process.put(ALICE, 1, 1000);
        process.put(tier, 1, 1000);
        process.clock.advance(MS);
        process.cache.remove(ALICE.key, process.now());
        assert!(!process.stands(ALICE, 1));
        assert!(!process.stands(tier, 1), "the same units, in another tier");
        // An answer that was under way meanwhile knows nothing of it.
        process.put_sent(sent, ALICE, 1, 1000);
        assert!(!process.stands(ALICE, 1));
        process.put(ALICE, 1, 1000);
        assert!(process.stands(ALICE, 1));
    }

    #[test]
    fn never_takes_more_than_its_room() {
        let process = Process::new(64, None);
        let who = |key: u64| Who { key: key << 20, tier: 0 };
        for key in 0..1_000_000 {
            process.put(who(key), 1, 1000);
        }
        let kept = (0..1_000_000).filter(|key| process.stands(who(*key), 1)).count();
        assert_eq!(kept, 64);
    }
}
