//! Runs the steps of a trace on a subject, without comparing the results.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::subject::{Answer, Subject, SubjectError};
use crate::trace::{Op, Step};

/// A subject with its receipts, by their labels.
pub(crate) struct Player<'a, S: Subject> {
    pub(crate) subject: &'a mut S,
    receipts: BTreeMap<&'a str, S::Receipt>,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Decision {
        answer: Answer,
        has_receipt: bool,
        /// The units taken, if the operation chooses their number.
        units: Option<u64>,
    },
    Units(u64),
    Found(bool),
    Used(Vec<u64>),
    /// Units by instant, oldest first.
    History(Vec<(Duration, u64)>),
    /// There is no receipt to consume, because the check was denied.
    NoReceipt,
    /// Nothing to compare.
    Done,
}

impl<'a, S: Subject> Player<'a, S> {
    pub(crate) fn new(subject: &'a mut S) -> Self {
        Self { subject, receipts: BTreeMap::new() }
    }

    /// Runs a step once, at the time of the subject's clock.
    pub(crate) fn play(&mut self, step: &'a Step) -> Result<Outcome, SubjectError> {
        let Step { op, cost, .. } = *step;
        let (key, tier) = (step.key.as_str(), step.tier.as_deref());
        let receipt = step.of.as_deref().and_then(|label| self.receipts.remove(label));
        Ok(match (op, receipt) {
            (Op::Check, _) => {
                let checked = self.subject.check(key, tier, cost)?;
                self.keep(step, checked, None)
            }
            (Op::Reserve, _) => {
                let reserved = self.subject.reserve(key, cost)?;
                self.keep(step, reserved, None)
            }
            (Op::CheckAtMost, _) => {
                let (answer, taken) = self.subject.check_at_most(key, cost)?;
                let units = taken.as_ref().map_or(0, |taken| taken.units);
                self.keep(step, (answer, taken.map(|taken| taken.receipt)), Some(units))
            }
            (Op::Peek, _) => {
                let answer = self.subject.peek(key, cost)?;
                Outcome::Decision { answer, has_receipt: false, units: None }
            }
            (Op::Refund, Some(receipt)) => Outcome::Units(self.subject.refund(receipt)?),
            (Op::Settle, Some(receipt)) => {
                let actual = step.actual.unwrap_or_default();
                Outcome::Units(self.subject.settle(receipt, actual)?)
            }
            (Op::Refund | Op::Settle, None) => Outcome::NoReceipt,
            (Op::Forgive, _) => Outcome::Units(self.subject.forgive(key, cost)?),
            (Op::Charge, _) => Outcome::Units(self.subject.charge(key, cost)?),
            (Op::Block, _) => {
                self.subject.block(key, Duration::from_millis(step.for_ms.unwrap_or_default()))?;
                Outcome::Done
            }
            (Op::Unblock, _) => Outcome::Found(self.subject.unblock(key)?),
            (Op::Reset, _) => Outcome::Found(self.subject.reset(key)?),
            (Op::Usage, _) => Outcome::Used(self.subject.usage(key)?),
            (Op::History, _) => Outcome::History(self.subject.history(key)?),
            (Op::Clock, _) => Outcome::Done,
        })
    }

    fn keep(
        &mut self,
        step: &'a Step,
        checked: (Answer, Option<S::Receipt>),
        units: Option<u64>,
    ) -> Outcome {
        let (answer, receipt) = checked;
        let has_receipt = receipt.is_some();
        if let (Some(label), Some(receipt)) = (&step.keep_as, receipt) {
            self.receipts.insert(label, receipt);
        }
        Outcome::Decision { answer, has_receipt, units }
    }
}

/// Sums the units of each instant: a store reports all units of one tick as one event.
pub(crate) fn by_instant<T: PartialEq>(events: Vec<(T, u64)>) -> Vec<(T, u64)> {
    let mut summed: Vec<(T, u64)> = Vec::with_capacity(events.len());
    for (at, units) in events {
        match summed.last_mut() {
            Some((last, sum)) if *last == at => *sum += units,
            _ => summed.push((at, units)),
        }
    }
    summed
}
