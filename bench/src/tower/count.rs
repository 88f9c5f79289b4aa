//! Instructions that a layer adds to a request, counted with callgrind.

use super::each;
use super::layered::{Sender, sender};
use crate::Failure;
use crate::instructions::callgrind;
use crate::progress;

/// Requests that are counted, after as many that are not: in these every address comes for the first
/// time, and the first window passes.
const REQUESTS: u64 = 100_000;

/// Instructions per request.
pub(crate) fn count(subject: &str) -> Result<f64, Failure> {
    progress::say(&format!("tower: counting {subject}"));
    // Only what is measured is counted: the start of a clock takes as long as it takes.
    let total =
        callgrind::count_within("tower::count::measured", "tower-child", subject, REQUESTS)?;
    Ok(each(total, REQUESTS))
}

/// The run of which a part is counted.
pub(crate) fn run_child(subject: &str, requests: u64) -> Result<(), Failure> {
    let mut sender = sender(subject)?;
    sender(10, requests);
    let served = measured(&mut sender, requests);
    println!("{served} of {requests} served");
    Ok(())
}

/// What callgrind counts.
#[inline(never)]
fn measured(sender: &mut Sender, requests: u64) -> u64 {
    sender(11, requests)
}
