//! Time of a check in process, compared with peers and a floor.

mod report;
mod results;
mod round;
mod workload;

use core::time::Duration;

use crate::Failure;
use crate::clock;
use crate::contender::Contender;
use crate::inproc::results::Results;
use crate::inproc::round::{Round, Score};
use crate::inproc::workload::{Draw, Workload};
use crate::numbers::Numbers;
use crate::options::Options;
use crate::progress;
use crate::subject::Bound;

/// One thread, then two: this says little about more cores.
const THREADS: [usize; 2] = [1, 2];

/// Rounds of a workload of new keys, each of which fills a table from empty.
const FRESH_ROUNDS: usize = 5;
const FRESH_ROUNDS_QUICK: usize = 2;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Effort {
    rounds: usize,
    bound: Bound,
}

/// Measures all workloads, or the one that is named, and prints each as it is done.
pub(crate) fn run(options: &Options, only: Option<&str>) -> Result<(), Failure> {
    let mut workloads = Workload::all(options.quick);
    if let Some(only) = only {
        let names: Vec<&str> = workloads.iter().map(|workload| workload.name).collect();
        let names = names.join(", ");
        workloads.retain(|workload| workload.name == only);
        if workloads.is_empty() {
            return Err(format!("no workload {only:?}: use one of {names}").into());
        }
    }
    let began = clock::instant();
    for workload in &workloads {
        let effort = Effort::of(workload, options.quick);
        let results = if workload.draw == Draw::Fresh {
            measure_fresh(workload, effort)?
        } else {
            measure(workload, effort)?
        };
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
    fn of(workload: &Workload, quick: bool) -> Self {
        if workload.draw == Draw::Fresh {
            let rounds = if quick { FRESH_ROUNDS_QUICK } else { FRESH_ROUNDS };
            return Self { rounds, bound: Bound::NONE };
        }
        let (rounds, checks) = if quick { (3, 100_000) } else { (11, 400_000) };
        Self { rounds, bound: Bound { checks, time: Duration::from_millis(100) } }
    }
}

/// Interleaves the rounds of all contenders, each round starting with another of them, so that
/// what else the machine does falls on all alike.
fn measure(workload: &Workload, effort: Effort) -> Result<Results, Failure> {
    let make = |name: &&'static str| Contender::make(name, workload.setting);
    let field: Vec<Contender> = workload.subjects.iter().map(make).collect::<Result<_, _>>()?;
    for contender in &field {
        progress::say(&format!("{}: warming {}", workload.name, contender.name));
        warm(contender, workload, effort);
    }
    let run = |round: &Round, place: usize| Ok(round.run(&*field[place].runner));
    interleave(workload, effort, run)
}

/// As [`measure`], with a new contender for every turn. Making it and dropping it is not timed.
fn measure_fresh(workload: &Workload, effort: Effort) -> Result<Results, Failure> {
    let run = |round: &Round, place: usize| {
        let contender = Contender::make(workload.subjects[place], workload.setting)?;
        Ok(round.run(&*contender.runner))
    };
    interleave(workload, effort, run)
}

/// Calls `run` for the subject at every place, in every round and for every number of threads.
fn interleave(
    workload: &Workload,
    effort: Effort,
    run: impl Fn(&Round, usize) -> Result<Score, Failure>,
) -> Result<Results, Failure> {
    let places = workload.subjects.len();
    let mut results = Results::new(workload.subjects.to_vec());
    for number in 0..effort.rounds {
        progress::say(&format!("{}: round {} of {}", workload.name, number + 1, effort.rounds));
        for threads in THREADS {
            let round = Round::prepare(workload, number, threads, effort.bound);
            for turn in 0..places {
                let place = (number + turn) % places;
                results.add(threads, number, place, run(&round, place)?);
            }
        }
    }
    Ok(results)
}

/// Touches every key once and runs one round that does not count.
fn warm(contender: &Contender, workload: &Workload, effort: Effort) {
    contender.runner.run(&mut Numbers::InOrder(0..workload.setting.keys), Bound::NONE);
    Round::prepare(workload, effort.rounds, 1, effort.bound).run(&*contender.runner);
}
