//! The definition as a subject.

use core::time::Duration;
use std::collections::BTreeMap;

use slidegate_sim::definition::{Counting, Decision, KeyState, Moment, TickQuota, TickReceipt};

use crate::policy::{Algorithm, Mode, PolicySpec, QuotaSpec};
use crate::subject::{
    Answer, AnswerAndTaken, Capability, QuotaStatus, Subject, SubjectError, Taken,
};
use crate::trace::Trace;

/// A limiter that consists of one [`KeyState`] per key.
///
/// It checks the traces without a store: if an expectation differs from the definition, one of them is
/// wrong. A byte cap is ignored, because a capped log must not differ in the results that a trace
/// compares.
#[derive(Debug, Clone)]
pub struct DefinedSubject {
    policy: PolicySpec,
    /// Never goes back.
    now_ns: u64,
    keys: BTreeMap<String, KeyState>,
}

/// The units that an allowed check took.
#[derive(Debug, Clone)]
pub struct DefinedReceipt {
    key: String,
    taken: TickReceipt,
}

impl DefinedSubject {
    /// Creates a limiter for the policy of a trace.
    pub fn new(trace: &Trace) -> Self {
        Self {
            policy: trace.policy.clone(),
            now_ns: nanos(Duration::from_millis(trace.start_ms)),
            keys: BTreeMap::new(),
        }
    }

    fn tick_ns(&self) -> u64 {
        self.policy.tick_ms * 1_000_000
    }

    fn moment(&self) -> Moment {
        let tick = self.tick_ns();
        Moment { now: self.now_ns / tick, date: self.now_ns.div_ceil(tick) }
    }

    fn in_ticks(&self, quotas: &[QuotaSpec]) -> Vec<TickQuota> {
        let in_ticks = |quota: &QuotaSpec| TickQuota {
            limit: quota.limit,
            window: quota.window_ms.div_ceil(self.policy.tick_ms),
        };
        quotas.iter().map(in_ticks).collect()
    }

    fn quotas(&self, tier: Option<&str>) -> Result<Vec<TickQuota>, SubjectError> {
        let Some(tier) = tier else {
            return Ok(self.in_ticks(&self.policy.quotas));
        };
        match self.policy.tiers.get(tier) {
            Some(quotas) => Ok(self.in_ticks(quotas)),
            None => Err(SubjectError::Failed(format!("unknown tier {tier}"))),
        }
    }

    fn key(&mut self, key: &str) -> &mut KeyState {
        let counting = match self.policy.algorithm {
            Algorithm::Log => Counting::Log,
            Algorithm::Counter => Counting::Counter,
            Algorithm::Segments => Counting::Segments(self.policy.segments.unwrap_or(1).into()),
            Algorithm::Fixed => Counting::Fixed,
            Algorithm::Gcra => Counting::Gcra,
        };
        let all = self.policy.tiers.values().chain([&self.policy.quotas]).flatten();
        let longest = all.map(|quota| quota.window_ms.div_ceil(self.policy.tick_ms)).max();
        let new = || KeyState::new(counting, longest.unwrap_or(1));
        self.keys.entry(key.to_owned()).or_insert_with(new)
    }

    /// Runs an operation on the state of a key.
    fn run<T>(
        &mut self,
        key: &str,
        tier: Option<&str>,
        operation: impl FnOnce(&mut KeyState, &[TickQuota], Moment) -> T,
    ) -> Result<T, SubjectError> {
        let (quotas, moment) = (self.quotas(tier)?, self.moment());
        Ok(operation(self.key(key), &quotas, moment))
    }

    fn answer(&self, decision: &Decision) -> (Answer, Option<TickReceipt>) {
        let (tick_ns, is_shadow) = (self.tick_ns(), self.policy.mode == Mode::Shadow);
        // A decision cuts what is longer than 584 years.
        let longest = u64::MAX - 1;
        let duration =
            |ticks: u64| Duration::from_nanos(ticks.saturating_mul(tick_ns).min(longest));
        let quotas = decision.quotas.iter().map(|status| QuotaStatus {
            limit: status.limit,
            remaining: status.remaining,
            retry_after: status.retry_after.map(duration),
            reset_after: duration(status.reset_after),
        });
        let answer = Answer {
            allowed: decision.is_allowed || is_shadow,
            shadow_denied: !decision.is_allowed && is_shadow,
            quotas: quotas.collect(),
        };
        (answer, decision.receipt)
    }
}

impl Subject for DefinedSubject {
    type Receipt = DefinedReceipt;

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.now_ns = self.now_ns.max(nanos(now));
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<DefinedReceipt>), SubjectError> {
        let decision = self.run(key, tier, |state, quotas, now| state.check(quotas, now, cost))?;
        let (answer, taken) = self.answer(&decision);
        Ok((answer, taken.map(|taken| DefinedReceipt { key: key.to_owned(), taken })))
    }

    fn reserve(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<(Answer, Option<DefinedReceipt>), SubjectError> {
        self.check(key, None, cost)
    }

    fn check_at_most(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<AnswerAndTaken<DefinedReceipt>, SubjectError> {
        let decision =
            self.run(key, None, |state, quotas, now| state.check_at_most(quotas, now, cost))?;
        let (answer, taken) = self.answer(&decision);
        let with_units = |taken: TickReceipt| Taken {
            units: taken.units,
            receipt: DefinedReceipt { key: key.to_owned(), taken },
        };
        Ok((answer, taken.map(with_units)))
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answer, SubjectError> {
        let decision = self.run(key, None, |state, quotas, now| state.peek(quotas, now, cost))?;
        Ok(self.answer(&decision).0)
    }

    fn refund(&mut self, receipt: DefinedReceipt) -> Result<u64, SubjectError> {
        let DefinedReceipt { key, taken } = receipt;
        self.run(&key, None, |state, quotas, now| state.refund(quotas, now, taken))
    }

    fn forgive(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        self.run(key, None, |state, quotas, now| state.forgive(quotas, now, units))
    }

    fn settle(&mut self, receipt: DefinedReceipt, actual: u64) -> Result<u64, SubjectError> {
        let DefinedReceipt { key, taken } = receipt;
        self.run(&key, None, |state, quotas, now| state.settle(quotas, now, taken, actual))
    }

    fn charge(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        self.run(key, None, |state, quotas, now| state.charge(quotas, now, units))
    }

    fn block(&mut self, key: &str, time: Duration) -> Result<(), SubjectError> {
        let ticks = nanos(time).div_ceil(self.tick_ns());
        self.run(key, None, |state, _, now| state.block(now, ticks))
    }

    fn unblock(&mut self, key: &str) -> Result<bool, SubjectError> {
        self.run(key, None, |state, _, now| state.unblock(now))
    }

    fn reset(&mut self, key: &str) -> Result<bool, SubjectError> {
        self.run(key, None, KeyState::reset)
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, SubjectError> {
        self.run(key, None, |state, quotas, now| state.usage(quotas, now))
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        let events = self.run(key, None, |state, quotas, now| state.history(quotas, now))?;
        let events = events.ok_or(SubjectError::Unsupported(Capability::History))?;
        let at = |tick: u64| Duration::from_nanos(tick * self.tick_ns());
        Ok(events.into_iter().map(|(tick, units)| (at(tick), units)).collect())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
