//! One turn of every contender over the same keys.

use core::ops::Range;
use std::sync::Barrier;
use std::thread;

use crate::inproc::workload::{Draw, Workload};
use crate::numbers::Numbers;
use crate::random::Random;
use crate::rounding::to_float;
use crate::subject::{Bound, Lap, Runner};
use crate::zipf::Zipf;

/// The keys of a round, chosen before anyone's time starts.
#[derive(Debug)]
pub(crate) struct Round {
    /// For each thread, where it takes its key numbers from.
    shares: Vec<Share>,
    bound: Bound,
}

/// What a contender needed for a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    /// Processor time per check of one thread, or wall time divided by the checks of all threads.
    pub(crate) nanos: f64,
    /// Share of the checks that were admitted.
    pub(crate) admitted: f64,
}

#[derive(Debug)]
enum Share {
    Drawn(Numbers<'static>),
    Listed(Vec<u32>),
}

impl Round {
    /// Round `number`: the same keys for every contender, other keys in every round.
    pub(crate) fn prepare(
        workload: &Workload,
        number: usize,
        threads: usize,
        bound: Bound,
    ) -> Self {
        let bound = Bound { checks: bound.checks / threads as u64, ..bound };
        let share = |thread: usize| {
            let random = Random::new((number * 64 + threads * 8 + thread) as u64);
            let part = part(workload.setting.keys, thread, threads);
            Share::new(workload, random, part, bound.checks)
        };
        Self { shares: (0..threads).map(share).collect(), bound }
    }

    /// Runs a contender.
    pub(crate) fn run(&self, runner: &dyn Runner) -> Score {
        let [only] = &self.shares[..] else {
            return score(&self.run_together(runner));
        };
        score(&[runner.run(&mut only.numbers(), self.bound)])
    }

    fn run_together(&self, runner: &dyn Runner) -> Vec<Lap> {
        let start = Barrier::new(self.shares.len());
        let lap = |share: &Share| {
            let mut numbers = share.numbers();
            start.wait();
            runner.run(&mut numbers, self.bound)
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                self.shares.iter().map(|share| scope.spawn(|| lap(share))).collect();
            // A thread that panicked has no lap; its panic is on standard error already.
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }
}

impl Share {
    fn new(workload: &Workload, mut random: Random, part: Range<u32>, checks: u64) -> Self {
        let keys = workload.setting.keys;
        match workload.draw {
            Draw::One => Self::Drawn(Numbers::One),
            Draw::Uniform => Self::Drawn(Numbers::Uniform { random, keys }),
            Draw::Zipf => {
                let zipf = Zipf::new(keys);
                Self::Listed((0..checks).map(|_| zipf.draw(&mut random)).collect())
            }
            Draw::Fresh => Self::Drawn(Numbers::InOrder(part)),
        }
    }

    fn numbers(&self) -> Numbers<'_> {
        match self {
            Self::Drawn(numbers) => numbers.clone(),
            Self::Listed(list) => Numbers::Listed { list, next: 0 },
        }
    }
}

/// The keys of one of several threads that divide all keys between them.
fn part(keys: u32, thread: usize, threads: usize) -> Range<u32> {
    let edge = |thread: usize| {
        let keys = u64::from(keys) * thread as u64 / threads as u64;
        u32::try_from(keys).unwrap_or(u32::MAX)
    };
    edge(thread)..edge(thread + 1)
}

/// One thread is measured in processor time, because it never waits for anything. Several are measured
/// from the first one's start to the last one's end, because they wait for each other.
fn score(laps: &[Lap]) -> Score {
    let checks = to_float(laps.iter().map(|lap| lap.checks).sum());
    let admitted = to_float(laps.iter().map(|lap| lap.admitted).sum());
    let began = laps.iter().map(|lap| lap.began).min();
    let ended = laps.iter().map(|lap| lap.ended).max();
    let time = match laps {
        [only] => only.cpu,
        _ => began.zip(ended).map(|(began, ended)| ended - began).unwrap_or_default(),
    };
    Score { nanos: time.as_secs_f64() * 1e9 / checks, admitted: admitted / checks }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;
    use crate::harness::Harness;
    use crate::subject::Subject;

    #[test]
    fn both_threads_count() {
        let bound = Bound { checks: 12_800, time: Duration::MAX };
        for workload in &Workload::all(true) {
            let score = Round::prepare(workload, 0, 2, bound).run(&Harness);
            assert!((score.admitted - 1.0).abs() < f64::EPSILON);
            assert!(score.nanos > 0.0);
        }
    }

    #[test]
    fn threads_divide_the_keys() {
        for keys in [0, 1, 7, 1_000_000, u32::MAX] {
            let parts: Vec<_> = (0..3).map(|thread| part(keys, thread, 3)).collect();
            assert_eq!((parts[0].start, parts[2].end), (0, keys));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    /// Counts its calls by key.
    #[derive(Default)]
    struct Tally(Mutex<HashMap<String, u32>>);

    impl Subject for Tally {
        type Scratch = ();

        fn check(&self, _lane: &mut (), key: &str) -> bool {
            *self.0.lock().unwrap().entry(key.to_owned()).or_default() += 1;
            true
        }
    }

    #[test]
    fn a_fresh_workload_asks_for_every_key_once() {
        let workloads = Workload::all(true);
        let fresh = workloads.iter().find(|workload| workload.draw == Draw::Fresh).unwrap();
        for threads in [1, 2] {
            let tally = Tally::default();
            Round::prepare(fresh, 0, threads, Bound::NONE).run(&tally);
            let tally = tally.0.into_inner().unwrap();
            assert_eq!(tally.len(), fresh.setting.keys as usize);
            assert!(tally.values().all(|calls| *calls == 1));
        }
    }
}
