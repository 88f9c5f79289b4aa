//! What is measured.

use core::time::Duration;
use std::time::Instant;

use crate::clock;
use crate::key::Key;
use crate::numbers::{BLOCK, Numbers};

/// The window of every quota measured here.
pub(crate) const WINDOW_SECONDS: u64 = 60;

/// A limiter under measurement.
pub(crate) trait Subject: Sync {
    /// What each thread keeps for itself, such as a key buffer that is used again.
    type Scratch: Default;

    /// Checks one unit. Returns `true` if it was admitted.
    fn check(&self, scratch: &mut Self::Scratch, key: &str) -> bool;

    /// Checks one unit for each of up to [`BLOCK`] keys. Returns the number of admitted ones.
    #[inline]
    fn check_block(&self, scratch: &mut Self::Scratch, numbers: &[u32]) -> u64 {
        let mut key = Key::new();
        let mut admitted = 0;
        for number in numbers {
            admitted += u64::from(self.check(scratch, key.write(*number)));
        }
        admitted
    }
}

/// A subject with a manual clock.
pub(crate) trait Timed: Subject {
    /// Lets time pass.
    fn advance(&self, time: Duration);
}

/// A subject without its types, so that one list can hold different ones. The loop over the checks is
/// inside, compiled for each subject.
pub(crate) trait Runner: Sync {
    /// Checks until the numbers, the checks or the time run out.
    fn run(&self, numbers: &mut Numbers<'_>, bound: Bound) -> Lap;
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    /// After this number of checks, rounded up to a block.
    pub(crate) checks: u64,
    /// After this time, looked at every 64 blocks.
    pub(crate) time: Duration,
}

/// What one thread did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Processor time of the thread.
    pub(crate) cpu: Duration,
    pub(crate) checks: u64,
    pub(crate) admitted: u64,
}

impl Bound {
    /// Until the numbers run out.
    pub(crate) const NONE: Self = Self { checks: u64::MAX, time: Duration::MAX };
}

const BLOCKS_BETWEEN_LOOKS: u64 = 64;

impl<S: Subject> Runner for S {
    fn run(&self, numbers: &mut Numbers<'_>, bound: Bound) -> Lap {
        let mut scratch = S::Scratch::default();
        let mut block = [0; BLOCK];
        let (mut checks, mut admitted, mut blocks) = (0, 0, 0_u64);
        let (began, cpu) = (clock::instant(), clock::thread_cpu());
        while checks < bound.checks {
            let filled = numbers.fill(&mut block);
            admitted += self.check_block(&mut scratch, &block[..filled]);
            checks += filled as u64;
            blocks += 1;
            let look = blocks.is_multiple_of(BLOCKS_BETWEEN_LOOKS);
            if filled < BLOCK || (look && began.elapsed() >= bound.time) {
                break;
            }
        }
        let cpu = clock::thread_cpu().saturating_sub(cpu);
        Lap { began, ended: clock::instant(), cpu, checks, admitted }
    }
}
