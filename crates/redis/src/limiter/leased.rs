//! The way of a check whose key may have a lease.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Check, Inner};
use crate::lease::{Asking, Holder, Leases, Turn, Unused};
use crate::script::{Answer, Op, ScriptLimits};
use crate::servers::Failure;
use crate::who::Who;

/// One who asks for a lease, on a task of its own: a caller that goes away meanwhile must not take
/// units with it that others could use.
struct Errand {
    inner: Arc<Inner>,
    holder: Arc<Holder>,
    asking: Asking,
    key: Box<[u8]>,
    who: Who,
    cost: Cost,
    /// Units to ask for.
    wanted: u64,
    limits: ScriptLimits,
    length: Duration,
    until: Instant,
}

impl Inner {
    pub(super) async fn decide_leased(
        self: &Arc<Self>,
        leases: &Leases,
        holder: Arc<Holder>,
        check: Check<'_>,
        now: Instant,
    ) -> Decision {
        let limits = self.limits(check.tier);
        // Half of the time there is may be spent on the leases of others, so that the other half
        // is left for asking alone: nobody stands in line for as long as the line is.
        let patience = now + check.until.saturating_duration_since(now) / 2;
        loop {
            let wanted = leases.wanted(&holder, check.cost.get(), limits.least_limit());
            match wanted.map(|wanted| (wanted, holder.turn())) {
                Some((wanted, Turn::Mine(asking))) => {
                    let errand = Errand {
                        inner: Arc::clone(self),
                        holder,
                        asking,
                        key: check.key.into(),
                        who: check.who,
                        cost: check.cost,
                        wanted,
                        limits,
                        length: leases.length(),
                        until: check.until,
                    };
                    return self.send(errand, check).await;
                }
                Some((_, Turn::Theirs(mut asking))) if Instant::now() < patience => {
                    // Ends with an error either way: they have their answer, or it takes too long.
                    let _ = timeout_at(patience, asking.changed()).await;
                }
                _ => return self.decide_there(check).await,
            }
            let now = Instant::now();
            if let Some(decision) = self.take_leased(&holder, check, now) {
                return decision;
            }
            if let Some(denied) = self.denied_here(check.who, check.cost) {
                self.counts.denied_later.fetch_add(1, Ordering::Relaxed);
                return self.finish(denied.decision());
            }
        }
    }

    pub(super) fn take_leased(
        &self,
        holder: &Holder,
        check: Check<'_>,
        now: Instant,
    ) -> Option<Decision> {
        let decision = holder.take(check.who, check.cost.get(), now)?;
        self.counts.leased_here.fetch_add(1, Ordering::Relaxed);
        self.keep_warm(check.key, check.tier, check.cost);
        Some(self.finish(decision))
    }

    async fn send(&self, errand: Errand, check: Check<'_>) -> Decision {
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let outcome = errand.run().await;
            if let Err(Ok(untold)) = tell.send(outcome) {
                errand.give_back(untold).await;
            }
        });
        match told.await {
            Ok(Ok(decision)) => {
                if decision.receipt().is_some() {
                    self.keep_warm(check.key, check.tier, check.cost);
                }
                decision
            }
            Ok(Err(failure)) => self.degrade(check.key, check.tier, check.cost, &failure),
            Err(_) => {
                let failure = Failure::refused("the runtime ended while a lease was asked for");
                self.degrade(check.key, check.tier, check.cost, &failure)
            }
        }
    }

    /// Ends a lease when its time is over, also if nobody comes any more.
    fn end_later(
        self: &Arc<Self>,
        holder: Arc<Holder>,
        key: &[u8],
        sent: Instant,
        length: Duration,
    ) {
        let (inner, key) = (Arc::clone(self), Box::<[u8]>::from(key));
        tokio::spawn(async move {
            tokio::time::sleep_until(sent + length).await;
            if let Some(unused) = holder.end(sent) {
                inner.return_unused(&key, unused).await;
            }
        });
    }

    pub(super) fn return_soon(self: &Arc<Self>, key: &[u8], unused: Unused) {
        let (inner, key) = (Arc::clone(self), Box::<[u8]>::from(key));
        tokio::spawn(async move { inner.return_unused(&key, unused).await });
    }

    /// Under the limits the units were taken under: those of a tier may be others than the
    /// policy's, and GCRA counts in parts of them.
    async fn return_unused(&self, key: &[u8], unused: Unused) {
        let Unused { tick, units, epoch, limits } = unused;
        let asked = self.ask(key, &limits, Op::Refund { tick, units, epoch }).await;
        let given = match asked.as_ref().map(|asked| asked.only()) {
            Ok(Ok(Answer::Units(given))) => (*given).min(units),
            _ => 0,
        };
        if given > 0 {
            self.forget_denial(key);
        }
        self.counts.returned.fetch_add(given, Ordering::Relaxed);
        // They count as used until their window has passed.
        self.counts.lost.fetch_add(units - given, Ordering::Relaxed);
    }

    /// Ends the leases of a key that was reset; what is left of them.
    pub(super) fn forget_leases(&self, key: &[u8]) -> Vec<Unused> {
        let leases = self.leases.as_ref();
        leases.map_or_else(Vec::new, |leases| leases.forget(self.who(key, None).key))
    }
}

impl Errand {
    async fn run(&self) -> Result<Decision, Failure> {
        let inner = &self.inner;
        let (units_min, units_max) = (self.cost.get(), self.wanted);
        let op = Op::Lease { units_min, units_max, ahead: self.length };
        let asked = inner.ask_until(&self.key, &self.limits, op, self.until).await;
        let asked = asked.inspect_err(|failure| self.fail(failure))?;
        let Some(granted) = asked.granted()? else {
            // Not even the cost fits.
            let decision = asked.decision(self.who.key)?;
            return Ok(inner.decided(self.cost, self.who, decision, asked.times));
        };
        inner.counts.leases.fetch_add(1, Ordering::Relaxed);
        let lease = (&granted, &self.limits, self.length);
        let (decision, ended) = self.holder.put(self.who, self.cost.get(), lease, &self.asking);
        if let Some(unused) = ended {
            inner.return_soon(&self.key, unused);
        }
        if Instant::now() >= granted.sent + self.length {
            // It came too late for others. Redis is far away: they better ask side by side.
            self.holder.cool();
        }
        inner.end_later(Arc::clone(&self.holder), &self.key, granted.sent, self.length);
        Ok(inner.finish(decision))
    }

    /// Redis may have granted units that nobody knows of. They are few if the next callers ask
    /// for one by one.
    fn fail(&self, failure: &Failure) {
        self.holder.cool();
        if failure.is_unknown() {
            self.inner.counts.lost.fetch_add(self.wanted, Ordering::Relaxed);
        }
    }

    /// Gives back what a caller took who has gone.
    async fn give_back(self, untold: Decision) {
        let Some(receipt) = untold.into_receipt() else {
            return;
        };
        let (tick, units, epoch) = (receipt.tick(), receipt.units(), receipt.epoch());
        let unused = Unused { tick, units, epoch, limits: self.limits };
        // Others need not wait for this.
        drop(self.asking);
        self.inner.return_unused(&self.key, unused).await;
    }
}
