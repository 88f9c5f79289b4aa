//! Runs traces on a store.

use core::fmt;
use core::time::Duration;

use crate::play::{Outcome, Player, by_instant};
use crate::subject::{Answer, Subject, SubjectError};
use crate::trace::{Op, Step, Trace};

/// The result of a trace without a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Steps with the expected result.
    pub passed: usize,
    /// Steps skipped because the store does not support a required operation.
    pub skipped: usize,
}

/// The first step of a trace with an unexpected result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The name of the trace.
    pub trace: String,
    /// The number of the step, the first being 1.
    pub step: usize,
    /// The step as text.
    pub what: String,
    /// The compared field.
    pub field: &'static str,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub got: String,
}

/// Runs a trace on a subject that was just created for its policy, up to the first unexpected
/// result.
///
/// A step that the subject does not support is skipped if the trace requires that operation. If the
/// step would have changed state, everything after it is skipped too.
pub fn run<S: Subject>(trace: &Trace, subject: &mut S) -> Result<Report, Mismatch> {
    let mut player = Player::new(subject);
    let mut report = Report::default();
    for (index, step) in trace.steps.iter().enumerate() {
        match (Run { trace, index, step }).play(&mut player) {
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

/// One step of a trace.
struct Run<'a> {
    trace: &'a Trace,
    index: usize,
    step: &'a Step,
}

enum Stop {
    Mismatch(Mismatch),
    Skip,
}

impl<'a> Run<'a> {
    fn play<S: Subject>(&self, player: &mut Player<'a, S>) -> Result<(), Stop> {
        let step = self.step;
        let start = Duration::from_millis(self.trace.start_ms);
        let mut outcome = Outcome::Done;
        let mut allowed_count = 0;
        for turn in 0..step.repeat {
            let now = start + Duration::from_millis(step.at_ms + turn * step.every_ms);
            self.done("clock", player.subject.set_time(now))?;
            outcome = self.done(answer_name(step.op), player.play(step))?;
            if let Outcome::Decision { answer, .. } = &outcome {
                allowed_count += u64::from(answer.allowed);
            }
        }
        let expect = &step.expect;
        self.same("allowed_count", expect.allowed_count.as_ref(), &allowed_count)?;
        match outcome {
            Outcome::Decision { answer, has_receipt, units } => {
                self.compare(&answer)?;
                self.same("units", expect.units.as_ref(), &units.unwrap_or_default())?;
                self.same("receipt", expect.receipt.as_ref(), &has_receipt)
            }
            Outcome::Units(units) => self.same("units", expect.units.as_ref(), &units),
            Outcome::Found(found) => self.same("found", expect.found.as_ref(), &found),
            Outcome::Used(used) => self.same("used", expect.used.as_ref(), &used),
            Outcome::History(events) => {
                let millis = |at: Duration| at.saturating_sub(start).as_millis();
                let events: Vec<_> =
                    events.iter().map(|(at, units)| (millis(*at), *units)).collect();
                let expected = expect.history.iter().flatten();
                let expected = expected.map(|(at, units)| (u128::from(*at), *units)).collect();
                let expected = expect.history.is_some().then(|| by_instant(expected));
                self.same("history", expected.as_ref(), &events)
            }
            Outcome::NoReceipt => {
                let label = step.of.as_deref().unwrap_or_default();
                Err(self.mismatch("receipt", format_args!("one as {label}"), "none"))
            }
            Outcome::Done => Ok(()),
        }
    }

    fn compare(&self, answer: &Answer) -> Result<(), Stop> {
        let expect = &self.step.expect;
        let millis = Duration::from_millis;
        self.same("allowed", expect.allowed.as_ref(), &answer.allowed)?;
        self.same("shadow_denied", expect.shadow_denied.as_ref(), &answer.shadow_denied)?;
        self.same("remaining", expect.remaining.as_ref(), &answer.remaining())?;
        let retry_after = expect.retry_after_ms.map(|after| after.map(millis));
        self.same("retry_after_ms", retry_after.as_ref(), &answer.retry_after())?;
        let reset_after = expect.reset_after_ms.map(millis);
        self.same("reset_after_ms", reset_after.as_ref(), &answer.reset_after())
    }

    /// Handles the reason why the subject did not run an operation.
    fn done<T>(&self, field: &'static str, result: Result<T, SubjectError>) -> Result<T, Stop> {
        result.map_err(|refusal| match refusal {
            SubjectError::Unsupported(lacking) if self.trace.requires.contains(&lacking) => {
                Stop::Skip
            }
            refusal => self.mismatch(field, format_args!("an answer"), format_args!("{refusal}")),
        })
    }

    fn same<T: PartialEq + fmt::Debug>(
        &self,
        field: &'static str,
        expected: Option<&T>,
        got: &T,
    ) -> Result<(), Stop> {
        match expected {
            Some(expected) if expected != got => Err(self.mismatch(field, expected, got)),
            _ => Ok(()),
        }
    }

    fn mismatch(
        &self,
        field: &'static str,
        expected: impl fmt::Debug,
        got: impl fmt::Debug,
    ) -> Stop {
        Stop::Mismatch(Mismatch {
            trace: self.trace.name.clone(),
            step: self.index + 1,
            what: describe(self.step),
            field,
            expected: format!("{expected:?}"),
            got: format!("{got:?}"),
        })
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, step, what, field, expected, got } = self;
        write!(f, "trace {trace}, step {step} ({what}): {field}: expected {expected}, got {got}")
    }
}

impl core::error::Error for Mismatch {}

fn answer_name(op: Op) -> &'static str {
    match op {
        Op::Check | Op::Reserve | Op::CheckAtMost | Op::Peek => "decision",
        Op::Charge => "charge",
        Op::Block => "block",
        Op::Unblock => "unblock",
        Op::Refund => "refund",
        Op::Forgive => "forgive",
        Op::Settle => "settle",
        Op::Reset => "reset",
        Op::Usage => "usage",
        Op::History => "history",
        Op::Clock => "clock",
    }
}

fn describe(step: &Step) -> String {
    let Step { at_ms, op, key, cost, .. } = step;
    let what = match (op, &step.of, step.actual) {
        (Op::Settle, Some(of), Some(actual)) => format!("settle {of} for {actual}"),
        (Op::Refund, Some(of), _) => format!("refund {of}"),
        (Op::Forgive, ..) => format!("forgive {key} {cost}"),
        (Op::Charge, ..) => format!("charge {key} with {cost}"),
        (Op::Block, ..) => format!("block {key} for {} ms", step.for_ms.unwrap_or_default()),
        _ if op.returns_decision() => format!("{op:?} {key} for {cost}").to_lowercase(),
        _ => format!("{op:?} {key}").to_lowercase(),
    };
    let tier = step.tier.as_ref().map(|tier| format!(" in tier {tier}")).unwrap_or_default();
    let times = if step.repeat == 1 { String::new() } else { format!(" {} times", step.repeat) };
    format!("{what}{tier}{times} at {at_ms} ms")
}
