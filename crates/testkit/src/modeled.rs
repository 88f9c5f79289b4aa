//! The models as a subject.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::play::by_instant;
use crate::policy::{Algorithm, Mode, PolicySpec, QuotaSpec};
use crate::subject::{
    Answer, AnswerAndTaken, Capability, QuotaStatus, Subject, SubjectError, Taken,
};
use crate::trace::Trace;
use slidegate_sim::model::{Counting, GcraModel, ListModel, Model, TickQuota};

/// A limiter that consists of simple models, one per key.
///
/// It checks the traces without a store: if an expectation differs from the model, one of them is
/// wrong. A byte cap is ignored, because a capped log must not differ in the results that a trace
/// compares.
#[derive(Debug)]
pub struct ModelSubject {
    policy: PolicySpec,
    /// Never goes back.
    now_ns: u64,
    keys: BTreeMap<String, Keyed>,
    /// The tick at which the block of a key ends.
    blocks: BTreeMap<String, u64>,
    /// How many keys were created. Each has its number, so that a receipt from before a reset finds
    /// nothing.
    births: u64,
}

#[derive(Debug)]
struct Keyed {
    model: Box<dyn Model>,
    birth: u64,
}

/// The units that an allowed check took.
#[derive(Debug)]
pub struct ModelReceipt {
    key: String,
    birth: u64,
    at: u64,
    units: u64,
}

impl ModelSubject {
    /// Creates a limiter for the policy of a trace.
    pub fn new(trace: &Trace) -> Self {
        Self {
            policy: trace.policy.clone(),
            now_ns: nanos(Duration::from_millis(trace.start_ms)),
            keys: BTreeMap::new(),
            blocks: BTreeMap::new(),
            births: 0,
        }
    }

    fn tick_ns(&self) -> u64 {
        self.policy.tick_ms * 1_000_000
    }

    /// Returns the tick for decisions: the last one that has started.
    fn now(&self) -> u64 {
        self.now_ns / self.tick_ns()
    }

    /// Returns the tick at which an admission is recorded: the first one that has not passed yet.
    fn date(&self) -> u64 {
        self.now_ns.div_ceil(self.tick_ns())
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

    fn model(&self) -> Box<dyn Model> {
        let counting = match self.policy.algorithm {
            Algorithm::Log => Counting::Log,
            Algorithm::Counter => Counting::Counter,
            Algorithm::Segments => Counting::Segments(self.policy.segments.unwrap_or(1).into()),
            Algorithm::Fixed => Counting::Fixed,
            Algorithm::Gcra => return Box::new(GcraModel::default()),
        };
        Box::new(ListModel::new(counting))
    }

    fn keyed(&mut self, key: &str) -> &mut Keyed {
        if !self.keys.contains_key(key) {
            self.births += 1;
        }
        let (model, birth) = (self.model(), self.births);
        self.keys.entry(key.into()).or_insert(Keyed { model, birth })
    }

    /// Reads the model of a key, or an empty one if the key is new.
    fn look<T>(&self, key: &str, see: impl FnOnce(&dyn Model) -> T) -> T {
        match self.keys.get(key) {
            Some(keyed) => see(keyed.model.as_ref()),
            None => see(self.model().as_ref()),
        }
    }

    fn answer(&self, key: &str, quotas: &[TickQuota], asked: Option<u64>, allowed: bool) -> Answer {
        let (now, tick_ns) = (self.now(), self.tick_ns());
        let (shadow, blocked) = (self.policy.mode == Mode::Shadow, self.blocked(key));
        // A decision cuts what is longer than 584 years.
        let longest = u64::MAX - 1;
        let duration =
            |ticks: u64| Duration::from_nanos(ticks.saturating_mul(tick_ns).min(longest));
        let standing = |model: &dyn Model, place: usize, quota: TickQuota| {
            let standing = model.standing(place, quota, now, asked);
            QuotaStatus {
                limit: quota.limit,
                remaining: if blocked > 0 { 0 } else { standing.remaining },
                retry_after: standing.retry_after.map(|ticks| duration(ticks.max(blocked))),
                reset_after: duration(standing.reset_after.max(blocked)),
            }
        };
        let quotas = quotas.iter().enumerate();
        Answer {
            allowed: allowed || shadow,
            shadow_denied: !allowed && shadow,
            quotas: self.look(key, |model| {
                quotas.map(|(place, quota)| standing(model, place, *quota)).collect()
            }),
        }
    }

    /// The ticks until the block of a key ends; zero without one.
    fn blocked(&self, key: &str) -> u64 {
        self.blocks.get(key).map_or(0, |end| end.saturating_sub(self.now()))
    }

    fn fits(&self, key: &str, quotas: &[TickQuota], cost: u64) -> bool {
        if self.blocked(key) > 0 {
            return false;
        }
        let now = self.now();
        let mut quotas = quotas.iter().enumerate();
        self.look(key, |model| quotas.all(|(place, quota)| model.fits(place, *quota, now, cost)))
    }

    /// Records units now, whether they fit or not.
    fn take(&mut self, key: &str, quotas: &[TickQuota], units: u64) -> ModelReceipt {
        let (now, at) = (self.now(), self.date());
        if self.look(key, |model| model.is_as_new(quotas, now)) {
            self.keys.remove(key);
        }
        let keyed = self.keyed(key);
        keyed.model.record(quotas, at, units);
        ModelReceipt { key: key.into(), birth: keyed.birth, at, units }
    }

    /// Records units without a check.
    fn record(&mut self, key: &str, quotas: &[TickQuota], units: u64) {
        let (now, at) = (self.now(), self.date());
        self.keyed(key).model.charge(quotas, now, at, units);
    }

    /// Returns the key of a receipt, unless it was reset since.
    fn named(&mut self, receipt: &ModelReceipt) -> Option<&mut Keyed> {
        self.keys.get_mut(&receipt.key).filter(|keyed| keyed.birth == receipt.birth)
    }
}

impl Subject for ModelSubject {
    type Receipt = ModelReceipt;

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.now_ns = self.now_ns.max(nanos(now));
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<ModelReceipt>), SubjectError> {
        let quotas = self.quotas(tier)?;
        if !self.fits(key, &quotas, cost) {
            return Ok((self.answer(key, &quotas, Some(cost), false), None));
        }
        let receipt = self.take(key, &quotas, cost);
        Ok((self.answer(key, &quotas, None, true), Some(receipt)))
    }

    fn reserve(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<(Answer, Option<ModelReceipt>), SubjectError> {
        self.check(key, None, cost)
    }

    fn check_at_most(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<AnswerAndTaken<ModelReceipt>, SubjectError> {
        // Simple on purpose: the largest cost that fits, by bisection.
        let quotas = self.quotas(None)?;
        let (mut fits, mut fails) = (0, cost.saturating_add(1));
        while fails - fits > 1 {
            let middle = fits + (fails - fits) / 2;
            if self.fits(key, &quotas, middle) {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        let (answer, receipt) = self.check(key, None, fits.max(1))?;
        Ok((answer, receipt.map(|receipt| Taken { receipt, units: fits })))
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answer, SubjectError> {
        let quotas = self.quotas(None)?;
        let allowed = self.fits(key, &quotas, cost);
        Ok(self.answer(key, &quotas, Some(cost), allowed))
    }

    fn refund(&mut self, receipt: ModelReceipt) -> Result<u64, SubjectError> {
        let (quotas, now) = (self.quotas(None)?, self.now());
        let Some(keyed) = self.named(&receipt) else {
            return Ok(0);
        };
        Ok(keyed.model.give_back(&quotas, now, receipt.at, receipt.units))
    }

    fn forgive(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        let (quotas, now) = (self.quotas(None)?, self.now());
        let events = self.look(key, |model| model.events(&quotas, now));
        let events = events.ok_or(SubjectError::Unsupported(Capability::Forgive))?;
        let mut left = units;
        for (at, _) in events {
            left -= self.keyed(key).model.give_back(&quotas, now, at, left);
        }
        Ok(units - left)
    }

    fn settle(&mut self, receipt: ModelReceipt, actual: u64) -> Result<u64, SubjectError> {
        let units = receipt.units;
        if actual > units {
            let quotas = self.quotas(None)?;
            self.record(&receipt.key, &quotas, actual - units);
            return Ok(actual);
        }
        let less = ModelReceipt { units: units - actual, ..receipt };
        Ok(units - self.refund(less)?)
    }

    fn charge(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        let quotas = self.quotas(None)?;
        self.record(key, &quotas, units);
        Ok(units)
    }

    fn block(&mut self, key: &str, time: Duration) -> Result<(), SubjectError> {
        let ticks = nanos(time).div_ceil(self.tick_ns());
        self.blocks.insert(key.into(), self.date() + ticks);
        Ok(())
    }

    fn unblock(&mut self, key: &str) -> Result<bool, SubjectError> {
        let was_blocked = self.blocked(key) > 0;
        self.blocks.remove(key);
        Ok(was_blocked)
    }

    fn reset(&mut self, key: &str) -> Result<bool, SubjectError> {
        let was_blocked = self.unblock(key)?;
        let counts = self.usage(key)?.iter().any(|units| *units > 0);
        Ok((self.keys.remove(key).is_some() && counts) || was_blocked)
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, SubjectError> {
        let (quotas, now) = (self.quotas(None)?, self.now());
        let units = |counted| u64::try_from(counted).unwrap_or(u64::MAX);
        let quotas = quotas.iter().enumerate();
        Ok(self.look(key, |model| {
            quotas.map(|(place, quota)| units(model.counted(place, *quota, now))).collect()
        }))
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        let (quotas, now, tick_ns) = (self.quotas(None)?, self.now(), self.tick_ns());
        let events = self.look(key, |model| model.events(&quotas, now));
        let events = events.ok_or(SubjectError::Unsupported(Capability::History))?;
        let at = |tick: u64| Duration::from_nanos(tick * tick_ns);
        Ok(by_instant(events.iter().map(|(tick, units)| (at(*tick), *units)).collect()))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
