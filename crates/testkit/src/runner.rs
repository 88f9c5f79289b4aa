//! Putting a store under a trace.

use core::fmt::Debug;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::mismatch::Mismatch;
use crate::subject::{Answer, Refusal, Subject};
use crate::trace::{Op, Step, Trace};

/// What became of a trace that was not contradicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Steps that came out as expected.
    pub passed: usize,
    /// Steps left out for a capability that the trace requires and the store lacks.
    pub skipped: usize,
}

/// Plays a trace on a subject that has just been built for its policy.
///
/// A step that the subject does not support is skipped if the trace says that it requires that
/// capability. If the step would have changed something, everything after it is skipped as well.
///
/// # Errors
///
/// At the first step that comes out otherwise than expected.
pub fn run<S: Subject>(trace: &Trace, subject: &mut S) -> Result<Report, Mismatch> {
    let mut run = Run { trace, subject, receipts: BTreeMap::new() };
    let mut report = Report::default();
    for (index, step) in trace.steps.iter().enumerate() {
        match run.step(index, step) {
            Ok(()) => report.passed += 1,
            Err(Stop::Mismatch(mismatch)) => return Err(mismatch),
            Err(Stop::Skip) if step.op.is_reading() => report.skipped += 1,
            Err(Stop::Skip) => {
                report.skipped += trace.steps.len() - index;
                break;
            }
        }
    }
    Ok(report)
}

struct Run<'a, S: Subject> {
    trace: &'a Trace,
    subject: &'a mut S,
    receipts: BTreeMap<&'a str, S::Receipt>,
}

enum Stop {
    Mismatch(Mismatch),
    Skip,
}

impl<'a, S: Subject> Run<'a, S> {
    fn step(&mut self, index: usize, step: &'a Step) -> Result<(), Stop> {
        let start = Duration::from_millis(self.trace.start_ms);
        let at = start + Duration::from_millis(step.at_ms);
        self.done(index, "clock", |subject| subject.set_time(at))?;
        let key = step.key.as_str();
        let expect = &step.expect;
        match step.op {
            Op::Check | Op::Reserve | Op::Peek => self.judge(index, step, at),
            Op::Refund => {
                let receipt = self.receipt(index, step)?;
                let units = self.done(index, "refund", |subject| subject.refund(receipt))?;
                self.same(index, "units", expect.units.as_ref(), &units)
            }
            Op::Settle => {
                let receipt = self.receipt(index, step)?;
                let actual = step.actual.unwrap_or_default();
                let units =
                    self.done(index, "settle", |subject| subject.settle(receipt, actual))?;
                self.same(index, "units", expect.units.as_ref(), &units)
            }
            Op::Reset => {
                let found = self.done(index, "reset", |subject| subject.reset(key))?;
                self.same(index, "found", expect.found.as_ref(), &found)
            }
            Op::Usage => {
                let used = self.done(index, "usage", |subject| subject.usage(key))?;
                self.same(index, "used", expect.used.as_ref(), &used)
            }
            Op::History => {
                let events = self.done(index, "history", |subject| subject.history(key))?;
                let events: Vec<_> =
                    events.into_iter().map(|(at, units)| (millis_from(start, at), units)).collect();
                let expected = expect.history.clone().map(by_instant);
                self.same(index, "history", expected.as_ref(), &by_instant(events))
            }
            Op::Clock => Ok(()),
        }
    }

    fn judge(&mut self, index: usize, step: &'a Step, at: Duration) -> Result<(), Stop> {
        let mut allowed_count = 0;
        let mut last = None;
        for turn in 0..step.repeat {
            let now = at + Duration::from_millis(turn * step.every_ms);
            if now != at {
                self.done(index, "clock", |subject| subject.set_time(now))?;
            }
            let (key, tier, cost) = (step.key.as_str(), step.tier.as_deref(), step.cost);
            let answered = self.done(index, "decision", |subject| match step.op {
                Op::Peek => subject.peek(key, cost).map(|answer| (answer, None)),
                Op::Reserve => subject.reserve(key, cost),
                _ => subject.check(key, tier, cost),
            })?;
            allowed_count += u64::from(answered.0.allowed);
            last = Some(answered);
        }
        self.same(index, "allowed_count", step.expect.allowed_count.as_ref(), &allowed_count)?;
        let Some((answer, receipt)) = last else {
            return Ok(());
        };
        self.compare(index, step, &answer)?;
        self.same(index, "receipt", step.expect.receipt.as_ref(), &receipt.is_some())?;
        if let (Some(label), Some(receipt)) = (&step.keep_as, receipt) {
            self.receipts.insert(label, receipt);
        }
        Ok(())
    }

    fn compare(&self, index: usize, step: &Step, answer: &Answer) -> Result<(), Stop> {
        let expect = &step.expect;
        let millis = Duration::from_millis;
        self.same(index, "allowed", expect.allowed.as_ref(), &answer.allowed)?;
        self.same(index, "shadow_denied", expect.shadow_denied.as_ref(), &answer.shadow_denied)?;
        self.same(index, "remaining", expect.remaining.as_ref(), &answer.remaining())?;
        let retry_after = expect.retry_after_ms.map(|after| after.map(millis));
        self.same(index, "retry_after_ms", retry_after.as_ref(), &answer.retry_after())?;
        let reset_after = expect.reset_after_ms.map(millis);
        self.same(index, "reset_after_ms", reset_after.as_ref(), &answer.reset_after())
    }

    fn receipt(&mut self, index: usize, step: &Step) -> Result<S::Receipt, Stop> {
        let label = step.of.as_deref().unwrap_or_default();
        self.receipts
            .remove(label)
            .ok_or_else(|| self.mismatch(index, "receipt", format_args!("one as {label}"), "none"))
    }

    /// Has the subject do something and sorts out why it did not.
    fn done<T>(
        &mut self,
        index: usize,
        field: &'static str,
        act: impl FnOnce(&mut S) -> Result<T, Refusal>,
    ) -> Result<T, Stop> {
        act(self.subject).map_err(|refusal| match refusal {
            Refusal::Unsupported(lacking) if self.trace.requires.contains(&lacking) => Stop::Skip,
            refusal => {
                self.mismatch(index, field, format_args!("an answer"), format_args!("{refusal}"))
            }
        })
    }

    fn same<T: PartialEq + Debug>(
        &self,
        index: usize,
        field: &'static str,
        expected: Option<&T>,
        got: &T,
    ) -> Result<(), Stop> {
        match expected {
            Some(expected) if expected != got => Err(self.mismatch(index, field, expected, got)),
            _ => Ok(()),
        }
    }

    fn mismatch(
        &self,
        index: usize,
        field: &'static str,
        expected: impl Debug,
        got: impl Debug,
    ) -> Stop {
        Stop::Mismatch(Mismatch::new(self.trace, index, field, expected, got))
    }
}

fn millis_from(start: Duration, at: Duration) -> u64 {
    u64::try_from(at.saturating_sub(start).as_millis()).unwrap_or(u64::MAX)
}

/// Sums what is dated the same: whether a store keeps two admissions of one tick apart is its own
/// affair.
fn by_instant(events: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut summed: Vec<(u64, u64)> = Vec::with_capacity(events.len());
    for (at, units) in events {
        match summed.last_mut() {
            Some((last, sum)) if *last == at => *sum += units,
            _ => summed.push((at, units)),
        }
    }
    summed
}
