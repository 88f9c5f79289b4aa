//! A limiter with the quotas that its methods apply.

use std::sync::Arc;

use super::{Event, Limiter, Usage};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::memory::Request;
use crate::quota::Quota;
use crate::receipt::Receipt;
use crate::window::Limits;

/// A limiter with the quotas of the policy, of a tier or of a request: see [`Limiter::with`] and
/// [`Limiter::with_quotas`].
///
/// Methods of [`Limiter`] with the same names use the policy's quotas.
#[derive(Debug, Clone, Copy)]
pub struct WithQuotas<'a> {
    pub(super) limiter: &'a Limiter,
    pub(super) limits: LimitsOf<'a>,
}

/// Limits of the limiter or a tier, or those of one request. The latter are copied, which is
/// cheaper than an allocation.
#[derive(Debug, Clone, Copy)]
pub(super) enum LimitsOf<'a> {
    Prepared(&'a Limits),
    Given(Limits),
}

impl LimitsOf<'_> {
    #[inline]
    pub(super) fn get(&self) -> &Limits {
        match self {
            Self::Prepared(limits) => limits,
            Self::Given(limits) => limits,
        }
    }
}

impl<'a> From<&'a Limiter> for WithQuotas<'a> {
    fn from(limiter: &'a Limiter) -> Self {
        limiter.with_policy()
    }
}

impl<'a> From<&'a Arc<Limiter>> for WithQuotas<'a> {
    fn from(limiter: &'a Arc<Limiter>) -> Self {
        limiter.with_policy()
    }
}

impl WithQuotas<'_> {
    /// Checks one unit, and takes it if allowed.
    pub fn check<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_cost(key, Cost::ONE)
    }

    /// Checks several units, and takes them all if allowed.
    pub fn check_cost<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.limiter.decide(key.fingerprint(&self.limiter.secret), self.limits.get(), cost.get())
    }

    /// Takes as many units as fit, at most `cost`. The receipt has their number.
    ///
    /// Denied only if not even one unit fits. `retry_after` is then the time until one does.
    ///
    /// ```
    /// use slidegate::{Cost, Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::new(Policy::new("rows", Quota::per_minute(100))?)?;
    /// let _ = limiter.check_cost("alice", Cost::new(70)?);
    ///
    /// let decision = limiter.check_at_most("alice", Cost::new(50)?);
    /// let units = decision.into_receipt().map_or(0, |receipt| receipt.units());
    /// assert_eq!(units, 30);
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    pub fn check_at_most<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        let (store, request) = (&self.limiter.store, self.request(key, 1));
        let mut shard = store.lock(store.shard_of(request.fingerprint));
        let mut decision = shard.peek(&request);
        if decision.is_allowed() {
            let cost = decision.remaining().min(cost.get());
            decision = shard.check(&Request { cost, ..request });
        }
        drop(shard);
        self.limiter.finish(decision)
    }

    /// Checks many keys independently: see [`Limiter::check_many`].
    pub fn check_many<K: Key>(&self, keys: &[K], cost: Cost, decisions: &mut Vec<Decision>) {
        decisions.clear();
        decisions.extend(keys.iter().map(|key| self.check_cost(key, cost)));
    }

    /// Evaluates [`check`](Self::check) without taking units.
    pub fn peek<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.peek_cost(key, Cost::ONE)
    }

    /// Evaluates [`check_cost`](Self::check_cost) without taking units.
    pub fn peek_cost<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.limiter.finish(self.limiter.store.peek(&self.request(key, cost.get())))
    }

    /// Takes an estimate now, which [`settle`](Self::settle) corrects when the cost is known.
    ///
    /// An estimate of 0 takes one unit. An estimate above 2^53 - 1 is denied with
    /// [`RetryAfter::Never`](crate::RetryAfter::Never). See [`Cost::saturating`].
    pub fn reserve<K: Key + ?Sized>(&self, key: &K, estimate: u64) -> Decision {
        self.check_cost(key, Cost::saturating(estimate))
    }

    /// Refunds exactly the units of a receipt. Returns their number, which is zero after they have
    /// expired or the key was reset.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt works once")]
    pub fn refund(&self, receipt: Receipt) -> u64 {
        self.give_back(&receipt, receipt.units)
    }

    /// Corrects a reservation to its actual cost. Returns the total number of units charged.
    ///
    /// Units beyond the actual cost are refunded unless they have expired. Missing units are
    /// recorded as debt, above the limit if necessary, because they were used.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt works once")]
    pub fn settle(&self, receipt: Receipt, actual: u64) -> u64 {
        let units = receipt.units;
        if actual < units {
            return units - self.give_back(&receipt, units - actual);
        }
        units + self.record(receipt.fingerprint, actual - units)
    }

    /// Records units without a check, above the limit if necessary. Returns their number, at most
    /// 2^53 - 1. Use it for work that is already done, and for penalties.
    ///
    /// The units count like those of a check, so a key that is charged above its limit is denied
    /// until enough of them have expired. In a log whose longest quota is used up, they join the
    /// newest entry and count from now on with it, so that units above the limit take no memory.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10))?)?;
    /// limiter.charge("alice", 15);
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert_eq!(limiter.usage("alice").units(0), 15);
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    pub fn charge<K: Key + ?Sized>(&self, key: &K, units: u64) -> u64 {
        self.record(key.fingerprint(&self.limiter.secret), units)
    }

    /// Refunds up to `units` without a receipt. Returns their number. The oldest units are refunded
    /// first, because they would be available again soonest anyway. `Counter` and `Gcra` refund units
    /// from the oldest and the newest part that they count.
    ///
    /// Use it if receipts cannot be stored. With a receipt, [`refund`](Self::refund) is exact. Drop the
    /// receipts of forgiven units: a log refunds nothing for them, unless other requests of the same
    /// tick have units left, but the other algorithms refund as many units of other requests.
    pub fn forgive<K: Key + ?Sized>(&self, key: &K, units: u64) -> u64 {
        self.limiter.store.forgive(&self.request(key, units))
    }

    /// Returns the units that count against each quota now. They are zero for a key that is not in the
    /// table because memory is full, although the sketch may deny it.
    pub fn usage<K: Key + ?Sized>(&self, key: &K) -> Usage {
        let units = self.limiter.store.used(&self.request(key, 1));
        Usage { units, quotas: self.limits.get().quotas().len() }
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// Times are exact to the tick, rounded up. Requests of the same tick are one event. With a
    /// byte cap or a full budget, neighboring requests may be merged into one event at the later
    /// time.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm is not a log, because the others do not store times.
    pub fn history<K: Key + ?Sized>(&self, key: &K) -> Result<Vec<Event>, Error> {
        let limiter = self.limiter;
        let mut events = Vec::new();
        let kept = limiter.store.history(&self.request(key, 1), &mut |tick, units| {
            events.push(Event { at: limiter.scale.since_epoch(tick), units });
        });
        if kept {
            return Ok(events);
        }
        let algorithm = limiter.policy.algorithm();
        let message = format!("{algorithm:?} does not support history: use Algorithm::Log");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    pub(super) fn request<K: Key + ?Sized>(&self, key: &K, cost: u64) -> Request<'_> {
        self.request_for(key.fingerprint(&self.limiter.secret), cost)
    }

    pub(super) fn request_for(&self, fingerprint: u64, cost: u64) -> Request<'_> {
        let moment = self.limiter.moment();
        Request { fingerprint, limits: self.limits.get(), moment, cost }
    }

    /// Records debt. Returns the number of units.
    fn record(&self, fingerprint: u64, units: u64) -> u64 {
        let units = units.min(Quota::LIMIT_MAX);
        if units > 0 {
            self.limiter.store.take(&self.request_for(fingerprint, units));
        }
        units
    }

    fn give_back(&self, receipt: &Receipt, units: u64) -> u64 {
        if self.limiter.lost.iter().any(|ticks| ticks.contains(&receipt.tick)) {
            return 0;
        }
        let request = self.request_for(receipt.fingerprint, units);
        self.limiter.store.give_back(&request, receipt.tick, receipt.epoch)
    }
}
