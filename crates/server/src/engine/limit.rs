//! A limit that requests meet: quotas, the state behind them, and how far they are enforced.

use std::sync::Arc;

use slidegate::{
    Clock, Cost, Decision, Error, Event, MonotonicClock, Outcome, Quota, QuotaDecision, Receipt,
    Usage,
};
use slidegate_tower::Share;

use super::caller::Caller;
use super::counts::Counts;
use super::pool::{Pool, PoolTier};
use super::witness::{Seen, Witness};
use crate::spec::Switch;

/// A policy, or one limit of a domain, with its state.
#[derive(Debug)]
pub struct Limit {
    pub(super) name: Arc<str>,
    pub(super) quotas: Box<[Quota]>,
    pub(super) pool: Pool,
    /// The quotas, where they are not those that the pool was made with.
    pub(super) own: Option<PoolTier>,
    pub(super) tiers: Vec<Named>,
    pub(super) switch: Switch,
    pub(super) share: Share,
    pub(super) candidate: Option<Box<Candidate>>,
    pub(super) secret_keys: bool,
    pub(super) counts: Arc<Counts>,
    pub(super) timer: Arc<MonotonicClock>,
    pub(super) witness: Option<Arc<dyn Witness>>,
}

/// Quotas that might replace those of a limit.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) pool: Pool,
    pub(super) own: Option<PoolTier>,
}

/// Other quotas for some keys.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) quotas: Box<[Quota]>,
    pub(super) tier: PoolTier,
}

/// A tier of a limit: only the limit that gave it out understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierId(usize);

impl Limit {
    /// The name, as configured.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quotas of a tier, or its own.
    pub fn quotas(&self, tier: Option<TierId>) -> &[Quota] {
        match tier.and_then(|tier| self.tiers.get(tier.0)) {
            Some(tier) => &tier.quotas,
            None => &self.quotas,
        }
    }

    /// The tier of this name.
    pub fn tier(&self, name: &str) -> Option<TierId> {
        self.tiers.iter().position(|tier| tier.name == name).map(TierId)
    }

    /// The names of all tiers.
    pub fn tier_names(&self) -> impl Iterator<Item = &str> {
        self.tiers.iter().map(|tier| tier.name.as_str())
    }

    /// Whether it is enforced at all.
    pub fn switch(&self) -> Switch {
        self.switch
    }

    /// Whether keys must not be shown.
    pub fn has_secret_keys(&self) -> bool {
        self.secret_keys
    }

    /// What has happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The state behind it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The same limit with other quotas: as many, over the same state.
    ///
    /// # Errors
    ///
    /// When they are not as many.
    pub fn with_quotas(&self, quotas: &[Quota]) -> Result<Self, Error> {
        Ok(Self {
            name: Arc::clone(&self.name),
            quotas: quotas.into(),
            own: Some(self.pool.tier(quotas)?),
            pool: self.pool.clone(),
            tiers: Vec::new(),
            switch: self.switch,
            share: self.share,
            candidate: None,
            secret_keys: self.secret_keys,
            counts: Arc::clone(&self.counts),
            timer: Arc::clone(&self.timer),
            witness: self.witness.clone(),
        })
    }

    /// Decides, and takes if allowed. What it answers is what to tell the caller: a limit in shadow
    /// or switched off denies nobody. In memory it never waits.
    pub async fn check(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
        caller: Caller<'_>,
    ) -> Decision {
        if let Some(decision) = self.check_now(key, tier, cost, caller, |decision| decision) {
            return decision;
        }
        if self.switch == Switch::Off {
            self.counts.off.add();
            return self.open(tier);
        }
        let began = self.timer.now();
        self.ask_candidate(key, cost).await;
        let mut decision = self.pool.check(key, self.pool_tier(tier), cost).await;
        if !self.is_enforced(key) {
            decision = decision.into_shadow();
        }
        self.judged(key, cost, began, &decision, caller);
        decision
    }

    /// Hands on the answer of [`check`](Limit::check) if nothing has to be waited for, as in memory.
    /// With `None`, nothing was taken. A decision is large: to give it back, or a future of it, would
    /// move it through every hand.
    #[inline]
    pub fn check_now<R>(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
        caller: Caller<'_>,
        then: impl FnOnce(Decision) -> R,
    ) -> Option<R> {
        let Pool::Memory(limiter) = &self.pool else { return None };
        if self.switch == Switch::Off || self.candidate.is_some() {
            return None;
        }
        let began = self.timer.now();
        let mut decision = match self.pool_tier(tier) {
            Some(PoolTier::Memory(tier)) => limiter.check_tier(key, tier, cost),
            _ => limiter.check_cost(key, cost),
        };
        if !self.is_enforced(key) {
            decision = decision.into_shadow();
        }
        self.judged(key, cost, began, &decision, caller);
        Some(then(decision))
    }

    /// Counts a decision, and tells of it.
    #[inline]
    fn judged(&self, key: &[u8], cost: Cost, began: u64, decision: &Decision, caller: Caller<'_>) {
        self.count(decision);
        let took = self.timer.now().saturating_sub(began);
        self.counts.time.note(took);
        self.tell(key, cost, decision, took, caller);
    }

    /// Decides as if asked, and takes nothing.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn peek(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        if self.switch == Switch::Off {
            return Ok(self.open(tier));
        }
        let decision = self.pool.peek(key, self.pool_tier(tier), cost).await?;
        Ok(if self.is_enforced(key) { decision } else { decision.into_shadow() })
    }

    /// A receipt whose parts have travelled.
    pub fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        self.pool.receipt(key, units, tick, epoch)
    }

    /// Gives back the very units that a receipt names; how many there were to give.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn refund(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        receipt: Receipt,
    ) -> Result<u64, Error> {
        self.pool.refund(key, self.pool_tier(tier), receipt).await
    }

    /// Corrects an estimate to the real cost; how many units were charged in all.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn settle(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        self.pool.settle(key, self.pool_tier(tier), receipt, actual).await
    }

    /// Charges what was denied because only a part of it fits, above the limit: for callers that
    /// ask after the fact. Where nothing fits nothing is charged, so that asking on and on does not
    /// put off the moment when something fits again.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn owe(&self, key: &[u8], tier: Option<TierId>, cost: Cost) -> Result<(), Error> {
        let tier = self.pool_tier(tier);
        let left = self.pool.peek(key, tier, cost).await?.remaining();
        let Ok(fits) = Cost::new(left.min(cost.get())) else { return Ok(()) };
        let taken = self.pool.check(key, tier, fits).await;
        if let Some(receipt) = taken.into_receipt() {
            self.pool.settle(key, tier, receipt, cost.get()).await?;
        }
        Ok(())
    }

    /// Gives back units that no receipt names; how many there were.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn forgive(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        units: u64,
    ) -> Result<u64, Error> {
        self.pool.forgive(key, self.pool_tier(tier), units).await
    }

    /// Units that count against each quota now.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn usage(&self, key: &[u8], tier: Option<TierId>) -> Result<Usage, Error> {
        self.pool.usage(key, self.pool_tier(tier)).await
    }

    /// Every request that is still in the longest window, oldest first.
    ///
    /// # Errors
    ///
    /// When the algorithm keeps no times, or the store gave no answer.
    pub async fn history(&self, key: &[u8], tier: Option<TierId>) -> Result<Vec<Event>, Error> {
        self.pool.history(key, self.pool_tier(tier)).await
    }

    /// Forgets a key; whether there was anything to forget.
    ///
    /// # Errors
    ///
    /// When the store gave no answer.
    pub async fn reset(&self, key: &[u8]) -> Result<bool, Error> {
        self.pool.reset(key).await
    }

    /// Whether a denial denies this key.
    #[inline]
    pub fn is_enforced(&self, key: &[u8]) -> bool {
        self.switch == Switch::Enforce && self.share.holds(&self.name, key)
    }

    pub(super) fn pool_tier(&self, tier: Option<TierId>) -> Option<&PoolTier> {
        match tier.and_then(|tier| self.tiers.get(tier.0)) {
            Some(named) => Some(&named.tier),
            None => self.own.as_ref(),
        }
    }

    /// The candidate sees every request, whatever becomes of it.
    pub(super) async fn ask_candidate(&self, key: &[u8], cost: Cost) {
        if let Some(candidate) = &self.candidate {
            let decision = candidate.pool.check(key, candidate.own.as_ref(), cost).await;
            if !decision.is_allowed() {
                self.counts.candidate_denied.add();
            }
        }
    }

    /// The answer of a limit that is switched off: everything is left.
    pub(super) fn open(&self, tier: Option<TierId>) -> Decision {
        let whole = |quota: &Quota| {
            let (limit, none) = (quota.limit(), core::time::Duration::ZERO);
            QuotaDecision::new(limit, limit, Some(none), none)
        };
        let quotas: Vec<_> = self.quotas(tier).iter().map(whole).collect();
        Decision::new(Outcome::Allow, &quotas, None)
    }

    #[inline]
    pub(super) fn tell(
        &self,
        key: &[u8],
        cost: Cost,
        decision: &Decision,
        took: u64,
        caller: Caller<'_>,
    ) {
        if let Some(witness) = &self.witness {
            let took = core::time::Duration::from_nanos(took);
            witness.saw(&Seen { limit: self, key, cost, decision, took, caller });
        }
    }

    #[inline]
    pub(super) fn count(&self, decision: &Decision) {
        if decision.is_degraded() {
            self.counts.degraded.add();
        }
        if decision.is_shadow_denied() {
            self.counts.shadow_denied.add();
        } else if decision.is_allowed() {
            self.counts.allowed.add();
        } else {
            self.counts.denied.add();
        }
    }
}
