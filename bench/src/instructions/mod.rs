//! Instructions per check, counted with callgrind: a figure without noise.

pub(crate) mod callgrind;
mod churn;
mod record;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::Failure;
use crate::contender::{COUNTER, FLOOR, GOVERNOR, HARNESS, LOG};
use crate::instructions::record::Record;
use crate::json::JsonLine;
use crate::options::{Action, Options};
use crate::progress;
use crate::rounding::to_float;
use crate::table::Table;

pub(crate) use self::churn::run_child;

/// Two lengths of the same run; the difference is counted.
#[derive(Debug, Clone, Copy)]
struct Workload {
    name: &'static str,
    lengths: [u64; 2],
}

const WORKLOADS: [Workload; 2] = [
    // Past the first window: for each request that is admitted one expires.
    Workload { name: "churn-10k", lengths: [800_000, 1_200_000] },
    // Within the first window, when every key has been seen: nothing expires yet.
    Workload { name: "fill-10k", lengths: [200_000, 500_000] },
];

/// In the order of the table. The harness comes first: it is subtracted from the others.
const SUBJECTS: [&str; 5] = [HARNESS, LOG, COUNTER, GOVERNOR, FLOOR];

/// Counts, prints, and records or compares.
pub(crate) fn run(options: &Options, action: Action) -> Result<ExitCode, Failure> {
    let recorded = Record::load();
    let mut counted = Record::default();
    let counts = count_all()?;
    for workload in WORKLOADS {
        workload.report(options, &counts, &recorded, &mut counted);
    }
    match action {
        Action::Print => {}
        Action::Record => counted.save()?,
        Action::Compare => return Ok(compare(&counted, &recorded)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The counts of all workloads and subjects, each with the harness.
///
/// One runs on each processor: a count does not depend on what else the machine does.
fn count_all() -> Result<BTreeMap<String, f64>, Failure> {
    let runs = WORKLOADS.iter().flat_map(|workload| SUBJECTS.map(|subject| (workload, subject)));
    let (runs, counts) = (Mutex::new(runs), Mutex::new(Vec::new()));
    let next = || runs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((workload, subject)) = next() {
            let count = workload.count(subject).map_err(|failure| failure.to_string());
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.push((workload.entry(subject), count));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    counts.into_iter().map(|(entry, count)| Ok((entry, count?))).collect()
}

impl Workload {
    fn report(
        self,
        options: &Options,
        counts: &BTreeMap<String, f64>,
        recorded: &Record,
        counted: &mut Record,
    ) {
        let count = |subject| counts.get(&self.entry(subject)).copied().unwrap_or_default();
        let harness = count(HARNESS);
        let mut table = Table::new(&["subject", "instructions/check", "recorded"]);
        for subject in &SUBJECTS[1..] {
            let instructions = count(subject) - harness;
            let before = recorded.get(&self.entry(subject));
            if options.json {
                JsonLine::new("instructions")
                    .text("workload", self.name)
                    .text("subject", subject)
                    .number("instructions", Some(instructions), 1)
                    .number("recorded", before, 1)
                    .print();
            }
            let before = before.map_or_else(|| "-".to_owned(), |before| format!("{before:.1}"));
            table.row(vec![(*subject).to_owned(), format!("{instructions:.1}"), before]);
            counted.set(&self.entry(subject), instructions);
        }
        if !options.json {
            println!("\n{}, harness of {harness:.1} instructions subtracted\n", self.name);
            table.print();
        }
    }

    /// What a subject's count is recorded as.
    fn entry(self, subject: &str) -> String {
        format!("{} {subject}", self.name)
    }

    /// Returns the instructions per check, with the harness.
    fn count(self, subject: &str) -> Result<f64, Failure> {
        progress::say(&format!("{}: counting {subject}", self.name));
        let [short, long] = self.lengths;
        let whole = |checks| callgrind::count("instructions-child", subject, checks);
        let difference = whole(long)? - whole(short)?;
        Ok(difference / to_float(long - short))
    }
}

fn compare(counted: &Record, recorded: &Record) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for workload in WORKLOADS {
        for subject in [LOG, COUNTER] {
            if let Err(difference) = counted.compare(recorded, &workload.entry(subject)) {
                eprintln!("slidegate-bench: {difference}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
