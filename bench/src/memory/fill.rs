//! Sends a workload's requests and measures the memory afterwards.

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
    /// Churn that would end later is left out, and the table says so: on a slow machine a bench
    /// must end too.
    time_max: Duration,
    /// The millisecond to stop at; the first thread may bring it forward.
    end: AtomicU64,
}

/// Fills stores for a window, churns them for some more, and measures.
pub(crate) fn fill<S: Store + Send>(
    workload: &Workload,
    time_max: Duration,
    store: impl Fn() -> Result<S, Failure>,
) -> Result<Measurement, Failure> {
    let idle = resident::read()?.now;
    let block = |number| -> Result<Block<S>, Failure> {
        let stream = Stream::new(workload.arrivals, workload.part(number));
        Ok(Block { store: store()?, stream })
    };
    let mut blocks: Vec<Block<S>> = (0..workload.blocks).map(block).collect::<Result<_, _>>()?;
    let end = AtomicU64::new((1 + workload.churn) * WINDOW);
    let run = Run { workload, began: clock::instant(), time_max, end };
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
        millis: run.end.into_inner(),
        seconds: run.began.elapsed().as_secs(),
    })
}

impl<S: Store> Block<S> {
    /// Sends what arrives from `from` to `to`.
    fn send(&mut self, scratch: &mut S::Scratch, from: u64, to: u64) {
        for now in from..to {
            self.store.set_time(now);
            self.stream.step(&self.store, scratch, now);
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
        let mut scratch = S::Scratch::default();
        let mut now = 0;
        while now < self.end.load(Ordering::Relaxed) {
            for block in &mut *blocks {
                block.send(&mut scratch, now, now + STEP);
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
        let signs = u32::try_from(now / SIGN_OF_LIFE).unwrap_or(u32::MAX);
        if now >= WINDOW && took + took / signs > self.time_max {
            self.end.fetch_min(now, Ordering::Relaxed);
        }
    }
}
