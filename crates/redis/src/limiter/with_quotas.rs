//! A limiter on Redis with the quotas that its methods apply.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision, Error, ErrorKind, Event, Quota, Receipt, SleepFn, Usage};
use tokio::time::Instant;

use super::RedisLimiter;
use super::tier::RedisTier;
use crate::local::LocalFallback;
use crate::script::{Charge, KeyReply, Op};
use crate::servers::Failure;

/// A limiter on Redis with the quotas of the policy, of a tier or of a request: see
/// [`RedisLimiter::with`] and [`RedisLimiter::with_quotas`].
///
/// The methods of [`RedisLimiter`] that have the same names are these methods with the policy's
/// quotas.
#[derive(Debug, Clone)]
pub struct RedisWithQuotas<'a> {
    pub(super) limiter: &'a RedisLimiter,
    pub(super) quotas: TierOf<'a>,
}

/// The quotas of the policy, of a tier or of one request.
#[derive(Debug, Clone)]
pub(super) enum TierOf<'a> {
    Policy,
    Prepared(&'a RedisTier),
    Given(Arc<RedisTier>),
}

impl TierOf<'_> {
    /// Returns `None` for the quotas of the policy.
    pub(super) fn get(&self) -> Option<&RedisTier> {
        match self {
            Self::Policy => None,
            Self::Prepared(tier) => Some(tier),
            Self::Given(tier) => Some(tier),
        }
    }
}

impl<'a> From<&'a RedisLimiter> for RedisWithQuotas<'a> {
    fn from(limiter: &'a RedisLimiter) -> Self {
        Self { limiter, quotas: TierOf::Policy }
    }
}

impl<'a> From<&'a Arc<RedisLimiter>> for RedisWithQuotas<'a> {
    fn from(limiter: &'a Arc<RedisLimiter>) -> Self {
        Self::from(&**limiter)
    }
}

impl RedisWithQuotas<'_> {
    /// Asks for one unit, and takes it if allowed.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Decision {
        self.check_cost(key, Cost::ONE).await
    }

    /// Asks for several units, and takes them all if allowed.
    pub async fn check_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.limiter.inner.check(key.as_ref(), self.tier(), cost).await
    }

    /// Takes as many units as fit, at most `cost`. The receipt holds their number.
    ///
    /// Denied only if not even one unit fits. `retry_after` is then the time until one does. While
    /// Redis is unavailable, the local limiter of
    /// [`FailureMode::Local`](slidegate::FailureMode::Local) takes one unit.
    pub async fn check_at_most(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.limiter.inner.check_at_most(key.as_ref(), self.tier(), cost).await
    }

    /// Checks many keys independently: see [`RedisLimiter::check_many`].
    pub async fn check_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        cost: Cost,
        decisions: &mut Vec<Decision>,
    ) {
        let keys: Vec<_> = keys.iter().map(|key| (key.as_ref(), self.tier())).collect();
        decisions.clear();
        decisions.extend(self.limiter.inner.check_many(&keys, cost).await);
    }

    /// Decides as [`check`](Self::check) would, without taking anything.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision, Error> {
        self.peek_cost(key, Cost::ONE).await
    }

    /// Decides as [`check_cost`](Self::check_cost) would, without taking anything.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn peek_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Result<Decision, Error> {
        let called = self.run(key.as_ref(), Op::Peek { cost: cost.get() }).await?;
        Ok(self.limiter.inner.apply_mode(called.decision(0)?))
    }

    /// Takes an estimate now, which [`settle`](Self::settle) corrects when the cost is known.
    ///
    /// An estimate of 0 takes one unit. An estimate above 2^53 - 1 is denied with
    /// [`RetryAfter::Never`](slidegate::RetryAfter::Never). See [`Cost::saturating`].
    pub async fn reserve(&self, key: impl AsRef<[u8]>, estimate: u64) -> Decision {
        self.check_cost(key, Cost::saturating(estimate)).await
    }

    /// Takes units as soon as they are available, within `timeout`.
    ///
    /// Callers in this process that wait for the same key are served in order of arrival: only the first
    /// of them calls Redis, when its `retry_after` has passed. Units that are returned in this process wake
    /// it at once; those that other processes return are noticed within a second. There is no order
    /// across processes, and a plain check may overtake a waiter. The limit is never exceeded: every waiter
    /// takes its units by a check.
    ///
    /// If the caller's turn would come after the timeout, the wait is denied at once. If that turns out
    /// later, it is denied then, at the latest when the timeout is over. Dropping the future leaves the
    /// queue; units that a check has taken for it meanwhile are returned.
    ///
    /// While Redis is unavailable, the failure mode decides each check.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Waiters`] if the caller would have to wait and
    /// `waiters_max` callers wait already, or `waiters_per_key_max` for the same key.
    pub async fn wait_timeout(
        &self,
        key: impl AsRef<[u8]>,
        cost: Cost,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        self.wait_with(key.as_ref(), cost, timeout, &|time| Box::pin(tokio::time::sleep(time)))
            .await
    }

    pub(super) async fn wait_with(
        &self,
        key: &[u8],
        cost: Cost,
        timeout: Duration,
        sleep: &SleepFn,
    ) -> Result<Decision, Error> {
        self.limiter.inner.wait(key, self.tier(), cost, timeout, sleep).await
    }

    /// Returns the exact units of a receipt. Returns how many there were: none after they have
    /// expired, the key was reset, or Redis has lost them.
    ///
    /// Units that the local limiter of [`FailureMode::Local`](slidegate::FailureMode::Local) admitted
    /// are returned to it. If Redis has been charged with them since, as many are returned there too,
    /// oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been returned.
    pub async fn refund(&self, key: impl AsRef<[u8]>, receipt: Receipt) -> Result<u64, Error> {
        let key = key.as_ref();
        if let Some(local) = self.issuer(key, &receipt) {
            let local_key = self.limiter.inner.local_key(key, self.tier());
            let (given, reported) = local.give_back(local_key, receipt, Instant::now());
            self.forgive_reported(key, reported).await?;
            return Ok(given);
        }
        self.give_back(key, &receipt, receipt.units()).await
    }

    /// Corrects a reservation to its actual cost, and returns how many units are charged in all.
    /// Missing units are recorded as debt, above the limit if necessary.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn settle(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        let key = key.as_ref();
        if let Some(local) = self.issuer(key, &receipt) {
            let inner = &self.limiter.inner;
            let (local_key, name) = (inner.local_key(key, self.tier()), || inner.name(key));
            let (charged, reported) =
                local.settle(local_key, name, receipt, actual, Instant::now());
            inner.ensure_reporter();
            self.forgive_reported(key, reported).await?;
            return Ok(charged);
        }
        let units = receipt.units();
        if actual < units {
            return Ok(units - self.give_back(key, &receipt, units - actual).await?);
        }
        Ok(units + self.charge(key, actual - units).await?)
    }

    /// Records units without a check, above the limit if necessary, and returns how many: at most
    /// 2^53 - 1. For work that was done already, and for penalties.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been recorded.
    pub async fn charge(&self, key: impl AsRef<[u8]>, units: u64) -> Result<u64, Error> {
        let units = units.min(Quota::LIMIT_MAX);
        if units == 0 {
            return Ok(0);
        }
        let charge = Charge { units, age: Duration::ZERO };
        Ok(self.limiter.inner.charge(key.as_ref(), self.tier(), &[charge]).await?)
    }

    /// Returns up to `units` without a receipt, oldest first, and returns how many there were. For
    /// callers that cannot keep receipts.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been returned.
    pub async fn forgive(&self, key: impl AsRef<[u8]>, units: u64) -> Result<u64, Error> {
        self.return_units(key.as_ref(), Op::Forgive { units }).await
    }

    /// Returns the units that count against each quota now.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn usage(&self, key: impl AsRef<[u8]>) -> Result<Usage, Error> {
        match self.run(key.as_ref(), Op::Peek { cost: 1 }).await? {
            KeyReply::Decision { used, .. } => Ok(Usage::new(&used)),
            other => Err(other.unexpected().into()),
        }
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// A long history takes several calls of a few hundred entries each, so that no call blocks the
    /// server for long. Requests that are recorded or expire between two calls may be missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm is not a log, or if Redis did not answer.
    pub async fn history(&self, key: impl AsRef<[u8]>) -> Result<Vec<Event>, Error> {
        let inner = &self.limiter.inner;
        let algorithm = inner.policy.algorithm();
        if !algorithm.keeps_entries() {
            let message = format!("{algorithm} keeps no history: use Algorithm::Log");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let event = |(tick, units)| Event::new(inner.limits.duration(tick), units);
        let (mut events, mut from) = (Vec::new(), Some(0));
        while let Some(tick) = from {
            match self.run(key.as_ref(), Op::History { from: tick }).await? {
                KeyReply::History(page) => {
                    events.extend(page.entries.into_iter().map(event));
                    // A page that starts where the last one did would never end.
                    from = page.next.filter(|next| *next > tick);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(events)
    }

    pub(super) fn tier(&self) -> Option<&RedisTier> {
        self.quotas.get()
    }

    /// Runs an operation under these quotas.
    async fn run(&self, key: &[u8], op: Op<'_>) -> Result<KeyReply, Failure> {
        let inner = &self.limiter.inner;
        Ok(inner.run_op(key, &inner.limits(self.tier()), op).await?.reply)
    }

    /// Returns the local fallback if it issued a receipt. A receipt is redeemed where it was issued:
    /// Redis has not recorded those units, and would give back others of the same tick.
    fn issuer(&self, key: &[u8], receipt: &Receipt) -> Option<&LocalFallback> {
        self.limiter.inner.local.as_ref().filter(|local| local.has_issued(key, receipt))
    }

    /// Gives back units that the local fallback admitted and that Redis was charged with since.
    async fn forgive_reported(&self, key: &[u8], units: u64) -> Result<(), Error> {
        if units > 0 {
            self.return_units(key, Op::Forgive { units }).await?;
        }
        Ok(())
    }

    async fn give_back(&self, key: &[u8], receipt: &Receipt, units: u64) -> Result<u64, Error> {
        let op = Op::Refund { tick: receipt.tick(), units, epoch: receipt.epoch() };
        self.return_units(key, op).await
    }

    /// Runs an operation that returns units, after which a denial may no longer apply.
    async fn return_units(&self, key: &[u8], op: Op<'_>) -> Result<u64, Error> {
        let reply = self.run(key, op).await?;
        self.limiter.inner.forget_denial(key);
        Ok(reply.units()?)
    }
}
