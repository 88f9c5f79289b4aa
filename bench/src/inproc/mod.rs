//! Time of a check in process, beside peers and a floor.

mod report;
mod results;
mod round;
mod workload;

use core::time::Duration;

use crate::Failure;
use crate::clock;
use crate::contender::Contender;
use crate::inproc::results::Results;
use crate::inproc::round::Round;
use crate::inproc::workload::Workload;
use crate::numbers::Numbers;
use crate::options::Options;
use crate::progress;
use crate::subject::Bound;

/// One thread, then two: this says little about more cores.
const THREADS: [usize; 2] = [1, 2];

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Effort {
    rounds: usize,
    bound: Bound,
}

/// Measures all workloads and prints each as it is done.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let effort = Effort::of(options.quick);
    let began = clock::instant();
    for workload in &Workload::ALL {
        let results = measure(workload, effort)?;
        if options.json {
            report::print_json(workload, &results);
        } else {
            report::print_table(workload, &results);
        }
        progress::say(&format!("{} s so far", began.elapsed().as_secs()));
    }
    Ok(())
}

impl Effort {
    fn of(quick: bool) -> Self {
        let (rounds, checks) = if quick { (3, 100_000) } else { (11, 400_000) };
        Self { rounds, bound: Bound { checks, time: Duration::from_millis(100) } }
    }
}

/// Interleaves the rounds of all contenders, each round starting with another of them, so that
/// what else the machine does falls on all alike.
fn measure(workload: &Workload, effort: Effort) -> Result<Results, Failure> {
    let field = Contender::field(workload.limit, workload.keys)?;
    for contender in &field {
        progress::say(&format!("{}: warming {}", workload.name, contender.name));
        warm(contender, workload, effort);
    }
    let mut results = Results::new(field.iter().map(|contender| contender.name).collect());
    for number in 0..effort.rounds {
        progress::say(&format!("{}: round {} of {}", workload.name, number + 1, effort.rounds));
        for threads in THREADS {
            let round = Round::prepare(workload, number, threads, effort.bound);
            for turn in 0..field.len() {
                let place = (number + turn) % field.len();
                results.add(threads, number, place, round.run(&*field[place].runner));
            }
        }
    }
    Ok(results)
}

/// Touches every key once and runs one round that does not count.
fn warm(contender: &Contender, workload: &Workload, effort: Effort) {
    let all = Bound { checks: u64::MAX, time: Duration::MAX };
    contender.runner.run(&mut Numbers::InOrder(0..workload.keys), all);
    Round::prepare(workload, effort.rounds, 1, effort.bound).run(&*contender.runner);
}
