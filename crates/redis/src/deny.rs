//! Denials that Redis need not be asked for again.
//!
//! A key that is over its limit stays so until time frees units, and Redis has said when that is.
//! Until then, or for a shorter time where something else than time can free units, the denial is
//! repeated from memory. The time counts from the moment the question was sent, which is before
//! the moment Redis judged it, so no request is denied that Redis would have allowed.

use core::time::Duration;

use parking_lot::Mutex;
use slidegate::{Decision, Outcome, QuotaDecision};
use tokio::time::Instant;

/// A bounded table of denials, in sets of four; the one that ends first makes room.
#[derive(Debug)]
pub(crate) struct DenyCache {
    sets: Box<[Mutex<[Option<Denial>; WAYS]>]>,
    /// The longest that a denial is repeated; none if only time frees units.
    cap: Option<Duration>,
}

#[derive(Debug)]
struct Denial {
    fingerprint: u64,
    /// The least cost that was denied.
    cost: u64,
    sent: Instant,
    until: Instant,
    quotas: Box<[QuotaDecision]>,
}

const WAYS: usize = 4;

impl DenyCache {
    /// Room for `keys` denials, at most about a hundred bytes each.
    pub(crate) fn new(keys: usize, cap: Option<Duration>) -> Self {
        let sets = keys.div_ceil(WAYS).next_power_of_two();
        Self { sets: (0..sets).map(|_| Mutex::default()).collect(), cap }
    }

    /// The denial of `cost`, if it still stands.
    pub(crate) fn get(&self, fingerprint: u64, cost: u64, now: Instant) -> Option<Decision> {
        let set = self.set(fingerprint).lock();
        let denial = set.iter().flatten().find(|denial| denial.fingerprint == fingerprint)?;
        let stands = now < denial.until && cost >= denial.cost;
        stands.then(|| denial.decision(cost, now))
    }

    /// Remembers a denial that was asked for at `sent`.
    pub(crate) fn put(&self, fingerprint: u64, cost: u64, sent: Instant, decision: &Decision) {
        // A cost above the limit needs no memory: it says so at once, everywhere.
        let Some(wait) = decision.retry_after() else {
            return;
        };
        let wait = self.cap.map_or(wait, |cap| wait.min(cap));
        let Some(until) = sent.checked_add(wait) else {
            return;
        };
        let quotas = decision.quotas().into();
        let mut set = self.set(fingerprint).lock();
        let mut new = Denial { fingerprint, cost, sent, until, quotas };
        let same = |place: &&mut Option<Denial>| {
            place.as_ref().is_some_and(|denial| denial.fingerprint == fingerprint)
        };
        if let Some(place) = set.iter_mut().find(same) {
            // Two denials at a time: the lesser cost is denied by both.
            if let Some(old) = place.as_ref().filter(|old| old.until > sent && old.cost < cost) {
                new.cost = old.cost;
                new.until = old.until.min(until);
            }
            *place = Some(new);
            return;
        }
        if let Some(place) = set.iter_mut().min_by_key(|place| place.as_ref().map(|old| old.until))
        {
            *place = Some(new);
        }
    }

    /// Forgets a key: units were given back to it.
    pub(crate) fn remove(&self, fingerprint: u64) {
        for place in self.set(fingerprint).lock().iter_mut() {
            if place.as_ref().is_some_and(|denial| denial.fingerprint == fingerprint) {
                *place = None;
            }
        }
    }

    fn set(&self, fingerprint: u64) -> &Mutex<[Option<Denial>; WAYS]> {
        let mask = self.sets.len() as u64 - 1;
        let index = usize::try_from(fingerprint >> 20 & mask).unwrap_or(0);
        &self.sets[index]
    }
}

impl Denial {
    /// As Redis said it, aged by the time since. For a larger cost than was denied, `retry_after`
    /// is a lower bound.
    fn decision(&self, cost: u64, now: Instant) -> Decision {
        let age = now.saturating_duration_since(self.sent);
        let mut quotas = [QuotaDecision::new(0, 0, None, Duration::ZERO); slidegate::QUOTAS_MAX];
        for (aged, quota) in quotas.iter_mut().zip(&self.quotas) {
            let possible = cost <= quota.limit();
            let retry = quota.retry_after().filter(|_| possible);
            *aged = QuotaDecision::new(
                quota.limit(),
                quota.remaining(),
                retry.map(|wait| wait.saturating_sub(age)),
                quota.reset_after().saturating_sub(age),
            );
        }
        Decision::new(Outcome::Deny, &quotas[..self.quotas.len()], None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn denial(retry_ms: u32) -> Decision {
        let wait = retry_ms * MS;
        Decision::new(Outcome::Deny, &[QuotaDecision::new(5, 0, Some(wait), wait)], None)
    }

    #[test]
    fn repeats_until_time_frees_units() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        cache.put(1, 1, now, &denial(1000));
        let decision = cache.get(1, 1, now + 400 * MS).unwrap();
        assert_eq!(decision.retry_after(), Some(600 * MS));
        assert_eq!(decision.reset_after(), 600 * MS);
        assert!(cache.get(1, 1, now + 999 * MS).is_some());
        assert!(cache.get(1, 1, now + 1000 * MS).is_none());
        assert!(cache.get(2, 1, now).is_none());
    }

    #[test]
    fn asks_again_after_the_cap() {
        let (cache, now) = (DenyCache::new(16, Some(100 * MS)), Instant::now());
        cache.put(1, 1, now, &denial(1000));
        assert!(cache.get(1, 1, now + 99 * MS).is_some());
        assert!(cache.get(1, 1, now + 100 * MS).is_none());
    }

    #[test]
    fn a_smaller_cost_is_asked_for() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        cache.put(1, 3, now, &denial(1000));
        assert!(cache.get(1, 2, now).is_none());
        assert!(cache.get(1, 3, now).is_some());
        assert!(cache.get(1, 4, now).is_some());
        assert_eq!(cache.get(1, 6, now).unwrap().retry_after(), None, "above the limit");
        // The denial of a larger cost does not make the smaller one free.
        cache.put(1, 1, now, &denial(500));
        cache.put(1, 4, now, &denial(2000));
        assert!(cache.get(1, 1, now + 499 * MS).is_some());
        assert!(cache.get(1, 1, now + 500 * MS).is_none());
    }

    #[test]
    fn what_was_given_back_is_forgotten() {
        let (cache, now) = (DenyCache::new(16, None), Instant::now());
        cache.put(1, 1, now, &denial(1000));
        cache.remove(1);
        assert!(cache.get(1, 1, now).is_none());
    }

    #[test]
    fn never_takes_more_than_its_room() {
        let (cache, now) = (DenyCache::new(64, None), Instant::now());
        for key in 0..10_000u64 {
            cache.put(key << 20, 1, now, &denial(1000));
        }
        let kept = (0..10_000u64).filter(|key| cache.get(key << 20, 1, now).is_some()).count();
        assert_eq!(kept, 64);
    }
}
