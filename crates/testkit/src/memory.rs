//! The in-memory limiter as a subject.

use core::time::Duration;
use std::collections::BTreeMap;

use slidegate::{Cost, Decision, Limiter, LimiterBuilder, ManualClock, Receipt, Tier};

use crate::policy::{PolicySpec, QuotaSpec, quotas};
use crate::subject::{Answer, AnswerAndTaken, QuotaStatus, Subject, SubjectError, Taken};
use crate::trace::Trace;

/// A [`Limiter`] in memory with a manual clock.
#[derive(Debug)]
pub struct MemorySubject {
    policy: PolicySpec,
    limiter: Limiter,
    clock: ManualClock,
    tiers: BTreeMap<String, Tier>,
    chore: Chore,
}

/// A task that runs whenever the clock is set and must not change decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chore {
    Nothing,
    Sweep,
    Restart,
}

impl MemorySubject {
    /// Creates a limiter for the policy of a trace.
    pub fn new(trace: &Trace) -> Result<Self, SubjectError> {
        Self::build(trace, Chore::Nothing).map_err(failed)
    }

    /// The same, swept completely whenever the clock is set.
    pub fn sweeping(trace: &Trace) -> Result<Self, SubjectError> {
        Self::build(trace, Chore::Sweep).map_err(failed)
    }

    /// The same, saved and restored whenever the clock is set, which voids receipts.
    pub fn restarting(trace: &Trace) -> Result<Self, SubjectError> {
        Self::build(trace, Chore::Restart).map_err(failed)
    }

    fn build(trace: &Trace, chore: Chore) -> Result<Self, slidegate::Error> {
        let clock = ManualClock::new(Duration::from_millis(trace.start_ms));
        let limiter = builder(&trace.policy, &clock, chore)?.build()?;
        let tiers = tiers(&trace.policy, &limiter)?;
        let policy = trace.policy.clone();
        Ok(Self { policy, limiter, clock, tiers, chore })
    }

    fn restart(&mut self) -> Result<(), slidegate::Error> {
        let mut snapshot = Vec::new();
        self.limiter.save(&mut snapshot)?;
        let builder = builder(&self.policy, &self.clock, self.chore)?;
        (self.limiter, _) = builder.restore(&mut snapshot.as_slice())?;
        self.tiers = tiers(&self.policy, &self.limiter)?;
        Ok(())
    }
}

impl Subject for MemorySubject {
    type Receipt = Receipt;

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.clock.set(now);
        match self.chore {
            Chore::Nothing => {}
            Chore::Sweep => {
                self.limiter.sweep(usize::MAX);
            }
            Chore::Restart => self.restart().map_err(failed)?,
        }
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<Receipt>), SubjectError> {
        let cost = Cost::new(cost).map_err(failed)?;
        let decision = match tier {
            None => self.limiter.check_cost(key, cost),
            Some(name) => {
                let unknown = || SubjectError::Failed(format!("unknown tier {name}"));
                let tier = self.tiers.get(name).ok_or_else(unknown)?;
                self.limiter.with(tier).map_err(failed)?.check_cost(key, cost)
            }
        };
        Ok((answer(&decision), decision.into_receipt()))
    }

    fn reserve(&mut self, key: &str, cost: u64) -> Result<(Answer, Option<Receipt>), SubjectError> {
        let decision = self.limiter.reserve(key, cost);
        Ok((answer(&decision), decision.into_receipt()))
    }

    fn check_at_most(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<AnswerAndTaken<Receipt>, SubjectError> {
        let decision = self.limiter.check_at_most(key, Cost::new(cost).map_err(failed)?);
        let answer = answer(&decision);
        let taken = |receipt: Receipt| Taken { units: receipt.units(), receipt };
        Ok((answer, decision.into_receipt().map(taken)))
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answer, SubjectError> {
        Ok(answer(&self.limiter.peek_cost(key, Cost::new(cost).map_err(failed)?)))
    }

    fn refund(&mut self, receipt: Receipt) -> Result<u64, SubjectError> {
        Ok(self.limiter.refund(receipt))
    }

    fn forgive(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        Ok(self.limiter.forgive(key, units))
    }

    fn settle(&mut self, receipt: Receipt, actual: u64) -> Result<u64, SubjectError> {
        Ok(self.limiter.settle(receipt, actual))
    }

    fn charge(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        Ok(self.limiter.charge(key, units))
    }

    fn block(&mut self, key: &str, time: Duration) -> Result<(), SubjectError> {
        self.limiter.block(key, time).map_err(failed)
    }

    fn unblock(&mut self, key: &str) -> Result<bool, SubjectError> {
        Ok(self.limiter.unblock(key))
    }

    fn reset(&mut self, key: &str) -> Result<bool, SubjectError> {
        Ok(self.limiter.reset(key))
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, SubjectError> {
        let usage = self.limiter.usage(key);
        Ok((0..self.limiter.policy().quotas().len()).map(|place| usage.units(place)).collect())
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        let events = self.limiter.history(key).map_err(failed)?;
        Ok(events.into_iter().map(|event| (event.at, event.units)).collect())
    }
}

fn builder(
    spec: &PolicySpec,
    clock: &ManualClock,
    chore: Chore,
) -> Result<LimiterBuilder, slidegate::Error> {
    let tick = Duration::from_millis(spec.tick_ms);
    let builder = Limiter::builder(spec.policy("trace")?).clock(clock.clone()).tick(tick);
    // The task visits all shards every time: with fewer shards, more traces can be run.
    Ok(if chore == Chore::Nothing { builder } else { builder.shards(16) })
}

fn tiers(spec: &PolicySpec, limiter: &Limiter) -> Result<BTreeMap<String, Tier>, slidegate::Error> {
    let tier = |specs: &Vec<QuotaSpec>| limiter.tier(&quotas(specs)?);
    spec.tiers.iter().map(|(name, specs)| Ok((name.clone(), tier(specs)?))).collect()
}

fn answer(decision: &Decision) -> Answer {
    let standing = |quota: &slidegate::QuotaDecision| QuotaStatus {
        limit: quota.limit(),
        remaining: quota.remaining(),
        retry_after: quota.retry_after().duration(),
        reset_after: quota.reset_after(),
    };
    Answer {
        allowed: decision.is_allowed(),
        shadow_denied: decision.is_shadow_denied(),
        quotas: decision.quotas().iter().map(standing).collect(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn failed(error: slidegate::Error) -> SubjectError {
    SubjectError::Failed(error.to_string())
}
