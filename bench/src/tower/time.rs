//! Nanoseconds that a layer adds to a request.

use super::layered::{Sender, sender};
use super::{SUBJECTS, each};
use crate::Failure;
use crate::clock;
use crate::progress;
use crate::rounding::to_float;
use crate::summary::Summary;

/// Interleaves the rounds of all subjects and takes from each the time of the bare service in the
/// same round. Returns one summary per subject, in the order of [`SUBJECTS`]; `None` for the bare service.
pub(crate) fn measure(quick: bool) -> Result<Vec<Option<Summary>>, Failure> {
    let (rounds, requests) = if quick { (3, 20_000) } else { (11, 100_000) };
    let mut senders = SUBJECTS.into_iter().map(sender).collect::<Result<Vec<_>, _>>()?;
    for sender in &mut senders {
        time(sender, 0, requests)?;
    }
    let mut added: Vec<Vec<f64>> = vec![Vec::new(); SUBJECTS.len()];
    for round in 1..=rounds {
        progress::say(&format!("tower: round {round} of {rounds}"));
        let mut times = vec![0.0; SUBJECTS.len()];
        for turn in 0..SUBJECTS.len() {
            let place = (round + turn) % SUBJECTS.len();
            let seed = u64::try_from(round)?;
            times[place] = time(&mut senders[place], seed, requests)?;
        }
        for (place, time) in times.iter().enumerate().skip(1) {
            added[place].push(time - times[0]);
        }
    }
    Ok(added.into_iter().map(Summary::of).collect())
}

fn time(sender: &mut Sender, seed: u64, requests: u64) -> Result<f64, Failure> {
    let began = clock::instant();
    let served = sender(seed, requests);
    let nanos = u64::try_from(began.elapsed().as_nanos())?;
    // A draw in a million has an address ask for more than its limit.
    if served < requests - requests / 100 {
        return Err(format!("{served} of {requests} were served: nearly all should be").into());
    }
    Ok(each(to_float(nanos), requests))
}
