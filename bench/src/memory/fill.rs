//! Sends a workload's requests and looks what is left in memory.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Barrier;
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

/// Milliseconds of the workload between two signs of life.
const SIGN_OF_LIFE: u64 = 15_000;

/// A window of churn that would end later than this is left out, and the table says so: on a slow
/// machine a bench must end too.
const TIME_MAX: Duration = Duration::from_secs(450);

/// Fills `store` for a window, churns it for some more, and measures. `idle` is what was resident
/// before the store existed.
pub(crate) fn fill<S: Store>(
    workload: &Workload,
    store: &S,
    idle: u64,
) -> Result<Measurement, Failure> {
    let run = Run {
        workload,
        store,
        began: clock::instant(),
        windows: AtomicU64::new(1 + workload.churn),
        barrier: Barrier::new(workload.threads as usize),
    };
    thread::scope(|scope| {
        for number in 0..workload.threads {
            let run = &run;
            scope.spawn(move || run.send(number));
        }
    });
    let resident = resident::read()?;
    let entries = (0..u64::from(workload.keys))
        .map(|key| store.units(key))
        .sum();
    Ok(Measurement {
        rss: resident.now,
        idle,
        peak: resident.peak,
        accounted: store.accounted_bytes(),
        entries,
        windows: run.windows.load(Ordering::Relaxed),
        seconds: run.began.elapsed().as_secs(),
    })
}

/// What the threads share.
#[derive(Debug)]
struct Run<'a, S> {
    workload: &'a Workload,
    store: &'a S,
    began: Instant,
    /// How many windows to run; only the leader writes it, between two barriers.
    windows: AtomicU64,
    barrier: Barrier,
}

impl<S: Store> Run<'_, S> {
    /// The part of one thread. All threads are in the same millisecond at any time.
    fn send(&self, thread: u32) {
        let Workload {
            keys,
            threads,
            arrivals,
            ..
        } = *self.workload;
        // The products fit in 32 bits: ten million keys, two threads.
        let part = keys * thread / threads..keys * (thread + 1) / threads;
        let mut stream = Stream::new(arrivals, part);
        let mut lane = S::Lane::default();
        let mut now = 0;
        loop {
            if self.barrier.wait().is_leader() {
                self.lead(now);
            }
            self.barrier.wait();
            if now >= self.windows.load(Ordering::Relaxed) * WINDOW {
                return;
            }
            stream.step(self.store, &mut lane, now);
            now += 1;
        }
    }

    /// What is done once a millisecond, while the others wait.
    fn lead(&self, now: u64) {
        let took = self.began.elapsed();
        let done = now / WINDOW;
        if now.is_multiple_of(SIGN_OF_LIFE) {
            let (name, second, took) = (self.workload.name, now / 1000, took.as_secs());
            progress::say(&format!("{name}: second {second}, took {took} s"));
        }
        if now.is_multiple_of(WINDOW) && done > 1 {
            let windows = self.windows.load(Ordering::Relaxed);
            let late = took / u32::try_from(done).unwrap_or(1) + took > TIME_MAX;
            self.windows
                .store(if late { done } else { windows }, Ordering::Relaxed);
        }
        if now < self.windows.load(Ordering::Relaxed) * WINDOW {
            self.store.set_time(now);
        }
    }
}
