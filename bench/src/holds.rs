//! The longest time for which a lock is held while ten million keys are added, saved and swept, and
//! while the callers that wait for one key leave.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Write};

use crate::Failure;
use crate::clock;
use crate::json::JsonLine;
use crate::options::Options;
use crate::ours::{Crowd, Line};
use crate::progress;
use crate::rounding::to_float;
use crate::table::Table;

const KEYS: u64 = 10_000_000;

/// Slots that one call of `sweep` examines under one lock. While a table shrinks, a call takes up to
/// as many steps, each under a separate lock.
const SWEPT_AT_ONCE: usize = 256;

/// A stage does the same work for each of the 1024 shards. So the median of its
/// 1024 longest steps is the program's work; the longest one includes what the machine did meanwhile.
const KEPT: usize = 1024;

const HEADINGS: [&str; 4] =
    ["stage", "512th longest step, cpu us", "longest step, cpu us", "longest hold, wall us"];

/// Runs the stages and prints the longest steps of each.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let crowd = Crowd::new()?;
    let mut table = Table::new(&HEADINGS);
    for stage in [Stage::Line, Stage::Growth, Stage::Snapshot, Stage::Sweep] {
        progress::say(&format!("holds: {}", stage.name()));
        let (steps, wall) = stage.run(&crowd)?;
        let [typical, cpu] = steps.longest().map(micros);
        let wall = micros(wall);
        if options.json {
            JsonLine::new("holds")
                .text("workload", stage.workload())
                .text("stage", stage.name())
                .number("typical_cpu_us", Some(typical), 1)
                .number("longest_cpu_us", Some(cpu), 1)
                .number("longest_wall_us", Some(wall), 1)
                .print();
        }
        let columns = [typical, cpu, wall].map(|micros| format!("{micros:.1}"));
        table.row([stage.name().to_owned()].into_iter().chain(columns).collect());
    }
    if !options.json {
        table.print();
    }
    Ok(())
}

/// The work that holds locks.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Line,
    Growth,
    Snapshot,
    Sweep,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Line => "queue of waiters",
            Self::Growth => "growth",
            Self::Snapshot => "snapshot",
            Self::Sweep => "sweep",
        }
    }

    fn workload(self) -> &'static str {
        if let Self::Line = self { "line-1000" } else { "log-10m" }
    }

    /// Returns the steps, and the longest hold of a lock in wall time.
    fn run(self, crowd: &Crowd) -> Result<(Steps, Duration), Failure> {
        let mut steps = Steps::new();
        match self {
            Self::Line => {
                let line = Line::new()?;
                let waiters = (0..Line::WAITERS).map(|_| line.waiter());
                let mut waiters = waiters.collect::<Result<VecDeque<_>, _>>()?;
                while let Some(first) = waiters.pop_front() {
                    steps.begin();
                    drop(first);
                    steps.end();
                }
                return Ok((steps, line.longest_hold()));
            }
            Self::Growth => {
                for key in 0..KEYS {
                    steps.begin();
                    crowd.check(key);
                    steps.end();
                }
            }
            Self::Snapshot => {
                steps.begin();
                crowd.save(&mut steps)?;
            }
            Self::Sweep => {
                crowd.let_all_expire();
                let mut left = KEYS;
                while left > 0 {
                    steps.begin();
                    let dropped = crowd.sweep(SWEPT_AT_ONCE);
                    steps.end();
                    left = left.saturating_sub(dropped as u64);
                }
            }
        }
        Ok((steps, crowd.longest_hold()))
    }
}

/// Measures steps in processor time of this thread.
#[derive(Debug)]
struct Steps {
    began: Duration,
    /// The longest, with the shortest of them on top.
    longest: BinaryHeap<Reverse<Duration>>,
}

impl Steps {
    fn new() -> Self {
        Self { began: clock::thread_cpu(), longest: BinaryHeap::new() }
    }

    fn begin(&mut self) {
        self.began = clock::thread_cpu();
    }

    fn end(&mut self) {
        let step = Reverse(clock::thread_cpu().saturating_sub(self.began));
        if self.longest.len() < KEPT {
            self.longest.push(step);
        } else if self.longest.peek().is_some_and(|shortest| step < *shortest) {
            self.longest.pop();
            self.longest.push(step);
        }
    }

    /// Returns the median of the longest steps, and the longest of all.
    fn longest(self) -> [Duration; 2] {
        let sorted = self.longest.into_sorted_vec();
        let at = |place: usize| sorted.get(place).map_or(Duration::ZERO, |step| step.0);
        [at(sorted.len() / 2), at(0)]
    }
}

/// Discards a snapshot. A lock is held between two writes, never during one.
impl Write for Steps {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.end();
        self.begin();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn micros(duration: Duration) -> f64 {
    to_float(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)) / 1000.0
}
