//! Units that a limiter admits when two threads check one key at the same time.

use core::num::NonZeroU32;
use std::sync::Barrier;
use std::thread;

use crate::Failure;
use crate::contender::{Contender, GOVERNOR, LOG, PINGORA, RING, Setting, THROTTLECRAB, TRYPEMA};
use crate::json::JsonLine;
use crate::numbers::Numbers;
use crate::options::Options;
use crate::progress;
use crate::rounding::to_float;
use crate::subject::Bound;
use crate::table::Table;

/// Units per minute.
const LIMIT: NonZeroU32 = NonZeroU32::new(1000).unwrap();
const THREADS: usize = 2;
/// Each thread checks twice the limit.
const CHECKS: u64 = 2000;
/// Each starts with a new limiter. A round takes a few milliseconds, in which a limit per minute that refills
/// evenly gets back less than one unit.
const ROUNDS: usize = 1000;

const SUBJECTS: [&str; 6] = [LOG, GOVERNOR, TRYPEMA, THROTTLECRAB, PINGORA, RING];
const HEADINGS: [&str; 4] = [
    "two threads, one key, 1000 per minute",
    "rounds over the limit",
    "most admitted",
    "fewest admitted",
];

/// Counts the rounds in which a subject admitted more than the limit.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let rounds = if options.quick { ROUNDS / 10 } else { ROUNDS };
    let mut table = Table::new(&HEADINGS);
    for name in SUBJECTS {
        progress::say(&format!("over: {name}"));
        let mut admitted = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            admitted.push(round(name)?);
        }
        let over = admitted.iter().filter(|units| **units > u64::from(LIMIT.get())).count();
        let most = admitted.iter().max().copied().unwrap_or_default();
        let fewest = admitted.iter().min().copied().unwrap_or_default();
        if options.json {
            JsonLine::new("over")
                .text("workload", "one-key")
                .text("subject", name)
                .number("rounds", Some(to_float(rounds as u64)), 0)
                .number("rounds_over", Some(to_float(over as u64)), 0)
                .number("most_admitted", Some(to_float(most)), 0)
                .number("fewest_admitted", Some(to_float(fewest)), 0)
                .print();
        }
        let columns = [format!("{over} of {rounds}"), most.to_string(), fewest.to_string()];
        table.row([name.to_owned()].into_iter().chain(columns).collect());
    }
    if !options.json {
        table.print();
    }
    Ok(())
}

/// Returns the units that a new limiter admits to both threads together.
fn round(name: &'static str) -> Result<u64, Failure> {
    let setting = Setting { keys: 1, limit: LIMIT, memory_limit: 1 << 20 };
    let contender = Contender::make(name, setting)?;
    let bound = Bound { checks: CHECKS, ..Bound::NONE };
    let start = Barrier::new(THREADS);
    let check = || {
        start.wait();
        contender.runner.run(&mut Numbers::One, bound).admitted
    };
    let admitted = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(check)).collect();
        // A thread that panicked has no count; its panic is on standard error already.
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    Ok(admitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_log_admits_exactly_its_limit() {
        for _ in 0..20 {
            assert_eq!(round(LOG).unwrap(), u64::from(LIMIT.get()));
        }
    }
}
