//! Instructions that a layer adds to a request, counted by callgrind.

use super::each;
use super::layered::sender;
use crate::Failure;
use crate::instructions::callgrind;
use crate::progress;

/// Two lengths of a run. The shorter one takes longer than the window under callgrind, so that the
/// difference is requests that find something to expire.
const LENGTHS: [u64; 2] = [150_000, 250_000];

/// Instructions a request.
pub(crate) fn count(subject: &str) -> Result<f64, Failure> {
    progress::say(&format!("tower: counting {subject}"));
    let [short, long] = LENGTHS;
    let difference = callgrind::count("tower-child", subject, long)?
        - callgrind::count("tower-child", subject, short)?;
    Ok(each(difference, long - short))
}

/// The run that is counted.
pub(crate) fn run_child(subject: &str, requests: u64) -> Result<(), Failure> {
    let served = sender(subject)?(10, requests);
    println!("{served} of {requests} served");
    Ok(())
}
