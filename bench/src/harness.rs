//! A limiter that does nothing, to measure the loop around the checks.

use core::hint::black_box;
use core::time::Duration;

use crate::subject::{Subject, Timed};

/// Admits every request without a check: its time is the harness's own share.
#[derive(Debug)]
pub(crate) struct Harness;

impl Subject for Harness {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        // The key must exist in memory, or the compiler would not form it.
        black_box(key);
        true
    }
}

impl Timed for Harness {
    fn advance(&self, _time: Duration) {}
}
