//! Checks of keys that may have a lease.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision, DegradedReason};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::tier::RedisTier;
use super::{Check, Inner};
use crate::deny::DeniedCheck;
use crate::key::TieredKey;
use crate::lease::{FetchGuard, FetchRole, Lease, LeaseEntry, Leases, UnusedUnits};
use crate::script::{Op, ScriptLimits};
use crate::servers::Failure;

/// Fetches a lease on a separate task, so that a dropped caller does not lose units that others
/// could use.
struct LeaseFetch {
    inner: Arc<Inner>,
    entry: Arc<LeaseEntry>,
    guard: FetchGuard,
    key: Box<[u8]>,
    tiered_key: TieredKey,
    tier: Option<RedisTier>,
    cost: Cost,
    /// Units to request.
    wanted: u64,
    limits: ScriptLimits,
    length: Duration,
    until: Instant,
}

impl Inner {
    /// Fetches a lease if the key is hot, or waits for another caller's fetch. Otherwise the check
    /// is sent alone.
    pub(super) async fn check_by_lease(
        self: &Arc<Self>,
        leases: &Leases,
        entry: Arc<LeaseEntry>,
        mut check: Check<'_>,
        now: Instant,
    ) -> Decision {
        let limits = self.limits(check.tier);
        // Half of the time may be spent waiting for the fetches of others. The other half is left
        // for a separate call.
        let patience = now + check.until.saturating_duration_since(now) / 2;
        loop {
            let wanted = leases.wanted(&entry, check.cost.get(), limits.least_limit());
            match wanted.map(|wanted| (wanted, entry.fetch_role())) {
                Some((wanted, FetchRole::Leader(guard))) => {
                    let fetch = LeaseFetch {
                        inner: Arc::clone(self),
                        entry,
                        guard,
                        key: check.key.into(),
                        tiered_key: check.tiered_key,
                        tier: check.tier.cloned(),
                        cost: check.cost,
                        wanted,
                        limits,
                        length: leases.length(),
                        until: check.until,
                    };
                    return self.spawn_fetch(fetch, check).await;
                }
                Some((_, FetchRole::Follower(mut fetch))) if Instant::now() < patience => {
                    // Returns an error in both cases: the fetch has ended, or it takes too long.
                    let _ = timeout_at(patience, fetch.changed()).await;
                }
                _ => return self.check_in_redis(check).await,
            }
            check.until = self.redis.half_left(check.until);
            let now = Instant::now();
            if let Some(decision) = self.take_from_lease(&entry, check, now) {
                return decision;
            }
            if let Some(denial) = self.cached_denial(check.tiered_key, check.cost) {
                self.counts.denied_later.fetch_add(1, Ordering::Relaxed);
                return self.apply_mode(denial.decision());
            }
        }
    }

    pub(super) fn take_from_lease(
        &self,
        entry: &LeaseEntry,
        check: Check<'_>,
        now: Instant,
    ) -> Option<Decision> {
        let decision = entry.take(check.tiered_key, check.cost.get(), now)?;
        self.counts.leased_here.fetch_add(1, Ordering::Relaxed);
        self.keep_warm(check.key, check.tier, check.cost);
        Some(self.apply_mode(decision))
    }

    async fn spawn_fetch(self: &Arc<Self>, fetch: LeaseFetch, check: Check<'_>) -> Decision {
        let (sender, fetched) = oneshot::channel();
        tokio::spawn(async move {
            let outcome = fetch.run().await;
            if let Err(Ok(undelivered)) = sender.send(outcome) {
                fetch.give_back(undelivered).await;
            }
        });
        let ended = || {
            let why = "the runtime ended while a lease was fetched";
            Failure::refused(DegradedReason::NoRuntime, why)
        };
        match fetched.await.unwrap_or_else(|_| Err(ended())) {
            Ok(decision) => {
                if decision.receipt().is_some() {
                    self.keep_warm(check.key, check.tier, check.cost);
                }
                decision
            }
            Err(failure) => self.degrade(check.key, check.tier, check.cost, &failure),
        }
    }

    pub(super) fn return_soon(self: &Arc<Self>, key: &[u8], unused: UnusedUnits) {
        let Ok(runtime) = Handle::try_current() else {
            self.counts.lost.fetch_add(unused.units, Ordering::Relaxed);
            return;
        };
        let (inner, key) = (Arc::clone(self), Box::<[u8]>::from(key));
        runtime.spawn(async move { inner.return_unused(&key, unused).await });
    }

    /// Refunds unused units with the limits that they were taken with: those of a tier may differ
    /// from the policy's, and GCRA counts in fractions of them.
    async fn return_unused(&self, key: &[u8], unused: UnusedUnits) {
        let UnusedUnits { tick, units, epoch, limits } = unused;
        let called = self.run_op(key, &limits, Op::Refund { tick, units, epoch }).await;
        let given = called.and_then(|called| called.reply.units()).unwrap_or(0).min(units);
        if given > 0 {
            self.forget_denial(key);
        }
        self.counts.returned.fetch_add(given, Ordering::Relaxed);
        // The others count as used until their window has passed.
        self.counts.lost.fetch_add(units - given, Ordering::Relaxed);
    }

    /// Ends the leases of a key that was reset. Returns their unused units.
    pub(super) fn reset_leases(&self, key: &[u8]) -> Vec<UnusedUnits> {
        let leases = self.leases.as_ref();
        leases.map_or_else(Vec::new, |leases| leases.reset(self.tiered_key(key, None).key))
    }
}

impl LeaseFetch {
    async fn run(&self) -> Result<Decision, Failure> {
        let (inner, cost) = (&self.inner, self.cost.get());
        let op = Op::Lease { units_min: cost, units_max: self.wanted, ahead: self.length };
        let called = inner.run_op_until(&self.key, &self.limits, op, self.until).await;
        let called = called.inspect_err(|failure| self.fail(failure))?;
        let sent = called.times.sent;
        inner.notice_lost_key(self.tiered_key, &called.reply);
        // Units of the lease count as used.
        let decision = called.reply.decision(self.tiered_key.key)?;
        inner.note_reply(&self.key, self.tier.as_ref(), &decision, called.times);
        let lease = Lease::granted(&called.reply, sent, &self.limits, self.length, cost);
        let Some(lease) = lease else {
            // Not even the cost fits.
            let denied = DeniedCheck {
                key: self.tiered_key,
                cost,
                window: self.limits.window(),
                decision: &decision,
            };
            inner.remember_denial(denied, called.times);
            return Ok(inner.apply_mode(decision));
        };
        inner.counts.leases.fetch_add(1, Ordering::Relaxed);
        let decision = lease.decision(self.tiered_key, cost, Instant::now());
        if let Some(unused) = self.entry.put(lease, &self.guard) {
            inner.return_soon(&self.key, unused);
        }
        if Instant::now() >= sent + self.length {
            // The lease ended before its reply arrived. Redis is far away, so separate calls are
            // better.
            self.entry.cool();
        }
        self.end_later(sent);
        Ok(inner.apply_mode(decision))
    }

    /// Ends the lease when its time is over, also without further checks.
    fn end_later(&self, sent: Instant) {
        let (inner, entry) = (Arc::clone(&self.inner), Arc::clone(&self.entry));
        let (key, until) = (self.key.clone(), sent + self.length);
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            if let Some(unused) = entry.end(sent) {
                inner.return_unused(&key, unused).await;
            }
        });
    }

    /// Handles a failed fetch. Redis may have granted units that are lost. They stay few if the
    /// next checks are sent one by one.
    fn fail(&self, failure: &Failure) {
        self.entry.cool();
        if failure.is_unknown() {
            self.inner.counts.lost.fetch_add(self.wanted, Ordering::Relaxed);
        }
    }

    /// Refunds units that were taken for a dropped caller.
    async fn give_back(self, undelivered: Decision) {
        let Some(receipt) = undelivered.into_receipt() else {
            return;
        };
        let (tick, units, epoch) = (receipt.tick(), receipt.units(), receipt.epoch());
        let unused = UnusedUnits { tick, units, epoch, limits: self.limits };
        // Followers need not wait for this.
        drop(self.guard);
        self.inner.return_unused(&self.key, unused).await;
    }
}
