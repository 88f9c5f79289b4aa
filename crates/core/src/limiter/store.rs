//! The limiter as a store: every call is ready at once.

use core::any::Any;
use core::time::Duration;

use super::{Ask, Event, Limiter, Tier, Usage, check_all};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::policy::Policy;
use crate::quota::Quota;
use crate::receipt::Receipt;
use crate::store::{
    Quotas, SleepFn, Stat, StatValue, Store, StoreAsk, StoreFuture, StoreGroup, StoreResult, Target,
};

impl Store for Limiter {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        self.tier(quotas)
    }

    #[inline]
    fn check<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        StoreFuture::ready(match target.quotas {
            Quotas::Policy => Ok(self.check_cost(target.key, cost)),
            quotas => self.with(quotas).map(|limiter| limiter.check_cost(target.key, cost)),
        })
    }

    fn check_at_most<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        StoreFuture::ready(
            self.with(target.quotas).map(|limiter| limiter.check_at_most(target.key, cost)),
        )
    }

    fn check_many<'a>(
        &'a self,
        targets: &'a [Target<'a>],
        cost: Cost,
    ) -> StoreResult<'a, Vec<Decision>> {
        let is_plain = targets.iter().all(|target| matches!(target.quotas, Quotas::Policy));
        if is_plain {
            let keys: Vec<&[u8]> = targets.iter().map(|target| target.key).collect();
            let mut decisions = Vec::new();
            self.check_many(&keys, cost, &mut decisions);
            return StoreFuture::ready(Ok(decisions));
        }
        // A foreign tier is an error before anything is taken.
        let with: Result<Vec<_>, Error> =
            targets.iter().map(|target| self.with(target.quotas)).collect();
        StoreFuture::ready(with.map(|with| {
            let checks = with.iter().zip(targets);
            checks.map(|(limiter, target)| limiter.check_cost(target.key, cost)).collect()
        }))
    }

    fn peek<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        StoreFuture::ready(
            self.with(target.quotas).map(|limiter| limiter.peek_cost(target.key, cost)),
        )
    }

    fn refund<'a>(&'a self, target: Target<'a>, receipt: Receipt) -> StoreResult<'a, u64> {
        StoreFuture::ready(self.with(target.quotas).map(|limiter| limiter.refund(receipt)))
    }

    fn settle<'a>(
        &'a self,
        target: Target<'a>,
        receipt: Receipt,
        actual: u64,
    ) -> StoreResult<'a, u64> {
        StoreFuture::ready(self.with(target.quotas).map(|limiter| limiter.settle(receipt, actual)))
    }

    fn charge<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        StoreFuture::ready(
            self.with(target.quotas).map(|limiter| limiter.charge(target.key, units)),
        )
    }

    fn forgive<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        StoreFuture::ready(
            self.with(target.quotas).map(|limiter| limiter.forgive(target.key, units)),
        )
    }

    fn usage<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Usage> {
        StoreFuture::ready(self.with(target.quotas).map(|limiter| limiter.usage(target.key)))
    }

    fn history<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Vec<Event>> {
        StoreFuture::ready(self.with(target.quotas).and_then(|limiter| limiter.history(target.key)))
    }

    fn reset<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool> {
        StoreFuture::ready(Ok(self.reset(key)))
    }

    fn block<'a>(&'a self, key: &'a [u8], time: Duration) -> StoreResult<'a, ()> {
        StoreFuture::ready(self.block(key, time))
    }

    fn unblock<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool> {
        StoreFuture::ready(Ok(self.unblock(key)))
    }

    fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        self.receipt(key, units, tick, epoch)
    }

    fn group(&self) -> StoreGroup {
        StoreGroup::MEMORY
    }

    fn check_all<'a>(&'a self, asks: &'a [StoreAsk<'a>]) -> StoreResult<'a, Vec<Decision>> {
        let ask = |ask: &StoreAsk<'a>| match ask.store.in_process() {
            Some(limiter) => {
                let Target { key, quotas } = ask.target;
                Ok(Ask::new(limiter.with(quotas)?, key, ask.cost))
            }
            None => {
                let message = format!("policy {:?} is not in memory", ask.store.policy().name());
                Err(Error::new(ErrorKind::Setting, message))
            }
        };
        let asks: Result<Vec<Ask<'_>>, Error> = asks.iter().map(ask).collect();
        StoreFuture::ready(asks.and_then(|asks| check_all(&asks)))
    }

    fn waits_in_order(&self) -> bool {
        self.waits
    }

    fn wait<'a>(
        &'a self,
        target: Target<'a>,
        cost: Cost,
        timeout: Duration,
        sleep: &'a SleepFn,
    ) -> StoreResult<'a, Decision> {
        StoreFuture::pending(async move {
            self.with(target.quotas)?.wait_timeout(target.key, cost, timeout, sleep).await
        })
    }

    fn stats(&self) -> Vec<Stat> {
        use StatValue::{Count, Gauge, Ratio, Time};
        let stats = self.stats();
        let bytes = stats.bytes as u64;
        vec![
            Stat::new("rate_limit_keys", "Keys in memory.", Gauge(stats.keys)),
            Stat::new("rate_limit_memory_bytes", "Bytes of state, logs included.", Gauge(bytes)),
            Stat::new(
                "rate_limit_memory_limit_bytes",
                "Most bytes of state.",
                Gauge(stats.memory_limit as u64),
            ),
            Stat::new(
                "rate_limit_memory_used_ratio",
                "Used share of the memory for keys; 1 when the table is full.",
                Ratio(stats.table_bytes as u64, stats.table_limit as u64),
            ),
            Stat::new(
                "rate_limit_log_bytes",
                "Bytes of logs outside of the table's slots.",
                Gauge(stats.log_bytes as u64),
            ),
            Stat::new(
                "rate_limit_log_units",
                "Recorded units of logs as of the last sweep: entries, if each costs one.",
                Gauge(stats.log_units),
            ),
            Stat::new("rate_limit_evictions_total", "Keys evicted.", Count(stats.evictions)),
            Stat::new(
                "rate_limit_overflowed_total",
                "Requests of new keys that found the table full.",
                Count(stats.overflowed),
            ),
            Stat::new("rate_limit_swept_total", "Expired keys dropped.", Count(stats.swept)),
            Stat::new("rate_limit_blocked_keys", "Blocked keys.", Gauge(stats.blocked)),
            Stat::new("rate_limit_waiters", "Callers waiting.", Gauge(stats.waiters as u64)),
            Stat::new(
                "rate_limit_lock_hold_longest_seconds",
                "Longest time that a lock was held.",
                Time(stats.longest_hold),
            ),
        ]
    }

    /// It does not fail.
    fn applies_failure_mode(&self) -> bool {
        true
    }

    fn in_process(&self) -> Option<&Limiter> {
        Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
