//! Sends a workload's requests and looks what is left in memory.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::Failure;
use crate::clock;
use crate::memory::arrivals::{Stream, WINDOW};
use crate::memory::measurement::Measurement;
use crate::memory::resident;
use crate::memory::store::Store;
use crate::memory::workload::Workload;
use crate::progress;

/// Milliseconds that a block is ahead of the next one.
const STEP: u64 = 1_000;

/// Milliseconds of the workload between two signs of life.
const SIGN_OF_LIFE: u64 = 15_000;

/// A window of churn that would end later than this is left out, and the table says so: on a slow
/// machine a bench must end too.
const TIME_MAX: Duration = Duration::from_secs(420);

/// Some of the keys, with a limiter and a time of their own.
#[derive(Debug)]
struct Block<S> {
    store: S,
    stream: Stream,
}

/// What the threads share.
#[derive(Debug)]
struct Run<'a> {
    workload: &'a Workload,
    began: Instant,
    /// How many windows to run; the first thread may cut it short.
    windows: AtomicU64,
}

/// Fills stores for a window, churns them for some more, and measures.
pub(crate) fn fill<S: Store + Send>(
    workload: &Workload,
    store: impl Fn() -> Result<S, Failure>,
) -> Result<Measurement, Failure> {
    let idle = resident::read()?.now;
    let block = |number| -> Result<Block<S>, Failure> {
        let stream = Stream::new(workload.arrivals, workload.part(number));
        Ok(Block { store: store()?, stream })
    };
    let mut blocks: Vec<Block<S>> = (0..workload.blocks).map(block).collect::<Result<_, _>>()?;
    let windows = AtomicU64::new(1 + workload.churn);
    let run = Run { workload, began: clock::instant(), windows };
    thread::scope(|scope| {
        let share = blocks.len().div_ceil(workload.threads);
        for (thread, blocks) in blocks.chunks_mut(share).enumerate() {
            let run = &run;
            scope.spawn(move || run.send(blocks, thread == 0));
        }
    });
    let resident = resident::read()?;
    Ok(Measurement {
        rss: resident.now,
        idle,
        peak: resident.peak,
        accounted: blocks.iter().map(|block| block.store.accounted_bytes()).sum(),
        entries: blocks.iter().map(Block::units).sum(),
        windows: run.windows.into_inner(),
        seconds: run.began.elapsed().as_secs(),
    })
}

impl<S: Store> Block<S> {
    /// Sends what arrives from `from` to `to`.
    fn send(&mut self, lane: &mut S::Lane, from: u64, to: u64) {
        for now in from..to {
            self.store.set_time(now);
            self.stream.step(&self.store, lane, now);
        }
    }

    /// Units that count now.
    fn units(&self) -> u64 {
        self.stream.keys().map(|key| self.store.units(u64::from(key))).sum()
    }
}

impl Run<'_> {
    /// The part of one thread.
    fn send<S: Store>(&self, blocks: &mut [Block<S>], is_first: bool) {
        let mut lane = S::Lane::default();
        let mut now = 0;
        while now < self.windows.load(Ordering::Relaxed) * WINDOW {
            for block in &mut *blocks {
                block.send(&mut lane, now, now + STEP);
            }
            now += STEP;
            if is_first && now.is_multiple_of(SIGN_OF_LIFE) {
                self.look_at_the_time(now);
            }
        }
    }

    fn look_at_the_time(&self, now: u64) {
        let (name, took) = (self.workload.name, self.began.elapsed());
        progress::say(&format!("{name}: second {}, took {} s", now / 1000, took.as_secs()));
        let done = now / WINDOW;
        if now.is_multiple_of(WINDOW) && done > 1 {
            let next = took / u32::try_from(done).unwrap_or(1);
            if took + next > TIME_MAX {
                self.windows.fetch_min(done, Ordering::Relaxed);
            }
        }
    }
}
