//! Compares a subject with the model.

use core::time::Duration;

use crate::defined::DefinedSubject;
use crate::memory::MemorySubject;
use crate::play::{Outcome, Player};
use crate::policy::Algorithm;
use crate::random::random_trace;
use crate::subject::{Subject, SubjectError};
use crate::trace::{Step, Trace};

/// Runs the random trace of a seed on the in-memory limiter and on the model.
pub fn compare(seed: u64, algorithm: Algorithm) -> Result<(), String> {
    compare_with(&random_trace(seed, algorithm), MemorySubject::new)
}

/// Runs a trace on a subject and on the model, and compares every field of every result. If they
/// differ, the error contains the difference and the shortest trace found that shows it.
pub fn compare_with<S: Subject>(
    trace: &Trace,
    make: impl Fn(&Trace) -> Result<S, SubjectError>,
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

/// Removes every step that is not needed for the trace to fail.
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
    let mut model = DefinedSubject::new(trace);
    let (mut model, mut player) = (Player::new(&mut model), Player::new(subject));
    for (index, step) in trace.steps.iter().enumerate() {
        let at = Duration::from_millis(trace.start_ms + step.at_ms);
        let (expected, got) = (play(&mut model, at, step), play(&mut player, at, step));
        // A store may or may not still have a key without current units.
        if expected != got && expected != Ok(Outcome::Found(false)) {
            let what = format!("step {}: the model returns {expected:?}, not {got:?}", index + 1);
            return Err((index, what));
        }
    }
    Ok(())
}

fn play<'a, S: Subject>(
    player: &mut Player<'a, S>,
    at: Duration,
    step: &'a Step,
) -> Result<Outcome, SubjectError> {
    player.subject.set_time(at)?;
    player.play(step)
}
