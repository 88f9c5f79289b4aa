//! Denials that Redis need not be asked for again.
//!
//! A key that is over its limit stays so until time frees units, and Redis has said when that is.
//! Until then, or for a shorter time where something else than time can free units, the denial is
//! repeated from memory. The time counts from the moment the question was sent, which is before
//! the moment Redis judged it, and ends with the microsecond in which Redis would allow, not with
//! the tick: so no request is denied that Redis would have allowed.

use core::time::Duration;

use parking_lot::Mutex;
use slidegate::{Decision, Outcome, QuotaDecision};
use tokio::time::Instant;

use crate::who::Who;

/// A bounded table of denials, in sets of four; the one that ends first makes room.
#[derive(Debug)]
pub(crate) struct DenyCache {
    sets: Box<[Mutex<Set>]>,
    /// The longest that a denial is repeated; none if only time frees units.
    cap: Option<Duration>,
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
    received: Instant,
    until: Instant,
    quotas: Box<[QuotaDecision]>,
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
        let sets = keys.div_ceil(WAYS).next_power_of_two();
        Self { sets: (0..sets).map(|_| Mutex::default()).collect(), cap }
    }

    /// The denial of `cost`, if it still stands.
    pub(crate) fn get(&self, who: Who, cost: u64, now: Instant) -> Option<Decision> {
        let set = self.set(who.key).lock();
        let denial = set.places.iter().flatten().find(|denial| denial.who == who)?;
        let stands = now < denial.until && cost >= denial.cost;
        stands.then(|| denial.decision(cost, now))
    }

    /// Remembers a denial.
    pub(crate) fn put(&self, who: Who, cost: u64, times: Times, decision: &Decision) {
        // A cost above the limit needs no memory: it says so at once, everywhere.
        let Some(wait) = decision.retry_after() else {
            return;
        };
        let wait = wait.saturating_sub(times.into_tick);
        let wait = self.cap.map_or(wait, |cap| wait.min(cap));
        let Some(until) = times.sent.checked_add(wait) else {
            return;
        };
        let mut set = self.set(who.key).lock();
        if set.forgotten.is_some_and(|at| times.sent < at) {
            return;
        }
        let is_same = |place: &Option<Denial>| place.as_ref().is_some_and(|old| old.who == who);
        // Its own place if it has one, else an empty one, else that of the first to end.
        let order =
            |place: &&mut Option<Denial>| (!is_same(place), place.as_ref().map(|old| old.until));
        let Some(place) = set.places.iter_mut().min_by_key(order) else {
            return;
        };
        // Two denials at a time: that of the lesser cost says more.
        let says_more = |old: &Denial| old.until > times.sent && old.cost < cost;
        if is_same(place) && place.as_ref().is_some_and(says_more) {
            return;
        }
        let (received, quotas) = (times.received, decision.quotas().into());
        *place = Some(Denial { who, cost, received, until, quotas });
    }

    /// Forgets a key, in all tiers: units were given back to it.
    pub(crate) fn remove(&self, key: u64, now: Instant) {
        let mut set = self.set(key).lock();
        set.forgotten = Some(now);
        for place in &mut set.places {
            place.take_if(|denial| denial.who.key == key);
        }
    }

    fn set(&self, key: u64) -> &Mutex<Set> {
        let mask = self.sets.len() as u64 - 1;
        let index = usize::try_from(key >> 20 & mask).unwrap_or(0);
        &self.sets[index]
    }
}

impl Denial {
    /// As Redis said it, aged by the time since its answer came, so that whoever waits so long
    /// does not come too early. For a larger cost than was denied, `retry_after` is a lower bound.
    fn decision(&self, cost: u64, now: Instant) -> Decision {
        let age = now.saturating_duration_since(self.received);
        let aged = |quota: &QuotaDecision| {
            let possible = cost <= quota.limit();
            let retry = quota.retry_after().filter(|_| possible);
            QuotaDecision::new(
                quota.limit(),
                quota.remaining(),
                retry.map(|wait| wait.saturating_sub(age)),
                quota.reset_after().saturating_sub(age),
            )
        };
        if let [quota] = &*self.quotas {
            return Decision::new(Outcome::Deny, &[aged(quota)], None);
        }
        let mut quotas = [QuotaDecision::new(0, 0, None, Duration::ZERO); slidegate::QUOTAS_MAX];
        for (place, quota) in quotas.iter_mut().zip(&self.quotas) {
            *place = aged(quota);
        }
        Decision::new(Outcome::Deny, &quotas[..self.quotas.len()], None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const ALICE: Who = Who { key: 1, tier: 0 };

    fn denial(retry_ms: u32) -> Decision {
        let wait = retry_ms * MS;
        Decision::new(Outcome::Deny, &[QuotaDecision::new(5, 0, Some(wait), wait)], None)
    }

    fn at(sent: Instant) -> Times {
        Times { sent, received: sent, into_tick: Duration::ZERO }
    }

    #[test]
    fn repeats_until_time_frees_units() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        cache.put(ALICE, 1, at(now), &denial(1000));
        let decision = cache.get(ALICE, 1, now + 400 * MS).unwrap();
        assert_eq!(decision.retry_after(), Some(600 * MS));
        assert_eq!(decision.reset_after(), 600 * MS);
        assert!(cache.get(ALICE, 1, now + 999 * MS).is_some());
        assert!(cache.get(ALICE, 1, now + 1000 * MS).is_none());
        assert!(cache.get(Who { key: 2, tier: 0 }, 1, now).is_none());
        assert!(cache.get(Who { key: 1, tier: 2 }, 1, now).is_none(), "another tier");
    }

    #[test]
    fn asks_again_when_redis_would_allow_and_tells_the_wait_from_the_answer_on() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        let times = Times { sent: now, received: now + 5 * MS, into_tick: MS / 4 };
        cache.put(ALICE, 1, times, &denial(100));
        assert!(cache.get(ALICE, 1, now + 99 * MS + MS / 2).is_some());
        assert!(cache.get(ALICE, 1, now + 99 * MS + MS * 3 / 4).is_none());
        let decision = cache.get(ALICE, 1, now + 50 * MS).unwrap();
        assert_eq!(decision.retry_after(), Some(55 * MS));
    }

    #[test]
    fn asks_again_after_the_cap() {
        let (cache, now) = (DenyCache::new(16, Some(100 * MS)), Instant::now());
        cache.put(ALICE, 1, at(now), &denial(1000));
        assert!(cache.get(ALICE, 1, now + 99 * MS).is_some());
        assert!(cache.get(ALICE, 1, now + 100 * MS).is_none());
    }

    #[test]
    fn a_smaller_cost_is_asked_for() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        cache.put(ALICE, 3, at(now), &denial(1000));
        assert!(cache.get(ALICE, 2, now).is_none());
        assert!(cache.get(ALICE, 3, now).is_some());
        assert!(cache.get(ALICE, 4, now).is_some());
        assert_eq!(cache.get(ALICE, 6, now).unwrap().retry_after(), None, "above the limit");
        // The denial of a larger cost does not make the smaller one free, nor wait for longer.
        cache.put(ALICE, 1, at(now), &denial(500));
        cache.put(ALICE, 4, at(now), &denial(2000));
        assert_eq!(cache.get(ALICE, 1, now).unwrap().retry_after(), Some(500 * MS));
        assert!(cache.get(ALICE, 1, now + 499 * MS).is_some());
        assert!(cache.get(ALICE, 1, now + 500 * MS).is_none());
        // Once that is over, the larger one is known again.
        cache.put(ALICE, 4, at(now + 500 * MS), &denial(1500));
        assert_eq!(cache.get(ALICE, 4, now + 500 * MS).unwrap().retry_after(), Some(1500 * MS));
    }

    #[test]
    fn what_was_given_back_is_forgotten() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        let tier = Who { tier: 7, ..ALICE };
        cache.put(ALICE, 1, at(now), &denial(1000));
        cache.put(tier, 1, at(now), &denial(1000));
        cache.remove(ALICE.key, now + MS);
        assert!(cache.get(ALICE, 1, now + MS).is_none());
        assert!(cache.get(tier, 1, now + MS).is_none(), "the same units, in another tier");
        // An answer that was under way meanwhile knows nothing of it.
        cache.put(ALICE, 1, at(now), &denial(1000));
        assert!(cache.get(ALICE, 1, now + MS).is_none());
        cache.put(ALICE, 1, at(now + MS), &denial(1000));
        assert!(cache.get(ALICE, 1, now + MS).is_some());
    }

    #[test]
    fn never_takes_more_than_its_room() {
        let (cache, now) = (DenyCache::new(64, None), Instant::now());
        let who = |key: u64| Who { key: key << 20, tier: 0 };
        for key in 0..1_000_000 {
            cache.put(who(key), 1, at(now), &denial(1000));
        }
        let kept = (0..1_000_000).filter(|key| cache.get(who(*key), 1, now).is_some()).count();
        assert_eq!(kept, 64);
    }
}
