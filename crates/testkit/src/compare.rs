//! A subject and the model, side by side.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::memory::MemorySubject;
use crate::modelled::ModelSubject;
use crate::policy::Algorithm;
use crate::random::random_trace;
use crate::subject::{Answer, Refusal, Subject};
use crate::trace::{Op, Step, Trace};

/// Plays the random trace of a seed on memory and on the model.
///
/// # Errors
///
/// As [`compare_with`].
pub fn compare(seed: u64, algorithm: Algorithm) -> Result<(), String> {
    compare_with(&random_trace(seed, algorithm), MemorySubject::new)
}

/// Plays a trace on a subject and on the model, and compares every field of every answer.
///
/// # Errors
///
/// When they differ: the difference, and the shortest trace found that shows it.
pub fn compare_with<S: Subject>(
    trace: &Trace,
    make: impl Fn(&Trace) -> Result<S, Refusal>,
) -> Result<(), String> {
    let play = |trace: &Trace| {
        let mut subject = make(trace).map_err(|refusal| (0, refusal.to_string()))?;
        side_by_side(trace, &mut subject)
    };
    let Err((step, _)) = play(trace) else {
        return Ok(());
    };
    let mut shortest = trace.clone();
    shortest.steps.truncate(step + 1);
    shorten(&mut shortest, |trace| play(trace).is_err());
    let difference = play(&shortest).err().unwrap_or_default().1;
    let written = serde_json::to_string(&shortest).unwrap_or_default();
    Err(format!("{}: {difference}\n{written}", trace.name))
}

/// Leaves out every step that is not needed for the trace to fail.
fn shorten(trace: &mut Trace, fails: impl Fn(&Trace) -> bool) {
    let mut index = trace.steps.len();
    while index > 0 {
        index -= 1;
        let step = trace.steps.remove(index);
        if !fails(trace) {
            trace.steps.insert(index, step);
        }
    }
}

fn side_by_side<S: Subject>(trace: &Trace, subject: &mut S) -> Result<(), (usize, String)> {
    let mut model = ModelSubject::new(trace);
    let mut model = Player { subject: &mut model, receipts: BTreeMap::new() };
    let mut player = Player { subject, receipts: BTreeMap::new() };
    for (index, step) in trace.steps.iter().enumerate() {
        let at = Duration::from_millis(trace.start_ms + step.at_ms);
        let (expected, got) = (model.play(at, step), player.play(at, step));
        if expected != got && expected != Ok(Played::MayBeFound) {
            let what = format!("step {}: the model says {expected:?}, not {got:?}", index + 1);
            return Err((index, what));
        }
    }
    Ok(())
}

/// A subject with the receipts it handed out.
struct Player<'a, S: Subject> {
    subject: &'a mut S,
    receipts: BTreeMap<&'a str, S::Receipt>,
}

/// Whatever a step answers.
#[derive(Debug, PartialEq, Eq)]
enum Played {
    Decision(Answer, bool),
    Units(u64),
    /// A store may or may not still know a key of which nothing counts.
    MayBeFound,
    Found,
    Used(Vec<u64>),
    History(BTreeMap<Duration, u64>),
    NoReceipt,
    Nothing,
}

impl<'a, S: Subject> Player<'a, S> {
    fn play(&mut self, at: Duration, step: &'a Step) -> Result<Played, Refusal> {
        self.subject.set_time(at)?;
        let key = step.key.as_str();
        let receipt = step.of.as_deref().and_then(|label| self.receipts.remove(label));
        Ok(match (step.op, receipt) {
            (Op::Check, _) => {
                let answered = self.subject.check(key, step.tier.as_deref(), step.cost)?;
                self.keep(step, answered)
            }
            (Op::Reserve, _) => {
                let answered = self.subject.reserve(key, step.cost)?;
                self.keep(step, answered)
            }
            (Op::Peek, _) => Played::Decision(self.subject.peek(key, step.cost)?, false),
            (Op::Refund, Some(receipt)) => Played::Units(self.subject.refund(receipt)?),
            (Op::Settle, Some(receipt)) => {
                let actual = step.actual.unwrap_or_default();
                Played::Units(self.subject.settle(receipt, actual)?)
            }
            (Op::Refund | Op::Settle, None) => Played::NoReceipt,
            (Op::Reset, _) if self.subject.reset(key)? => Played::Found,
            (Op::Reset, _) => Played::MayBeFound,
            (Op::Usage, _) => Played::Used(self.subject.usage(key)?),
            (Op::History, _) => Played::History(by_instant(self.subject.history(key)?)),
            (Op::Clock, _) => Played::Nothing,
        })
    }

    fn keep(&mut self, step: &'a Step, answered: (Answer, Option<S::Receipt>)) -> Played {
        let (answer, receipt) = answered;
        let handed_out = receipt.is_some();
        if let (Some(label), Some(receipt)) = (&step.keep_as, receipt) {
            self.receipts.insert(label, receipt);
        }
        Played::Decision(answer, handed_out)
    }
}

fn by_instant(events: Vec<(Duration, u64)>) -> BTreeMap<Duration, u64> {
    let mut summed = BTreeMap::new();
    for (at, units) in events {
        *summed.entry(at).or_insert(0) += units;
    }
    summed
}
