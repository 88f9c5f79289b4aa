//! Instructions of a check, counted by callgrind: the figure that noise cannot move.

pub(crate) mod callgrind;
mod churn;
mod record;

use std::process::ExitCode;

use crate::Failure;
use crate::contender::{COUNTER, FLOOR, GOVERNOR, HARNESS, LOG};
use crate::instructions::record::Record;
use crate::json::JsonLine;
use crate::options::{Action, Options};
use crate::progress;
use crate::rounding::to_float;
use crate::table::Table;

pub(crate) use self::churn::run_child;

/// What the only workload is called.
const WORKLOAD: &str = "churn-10k";

/// Two lengths of a run. The shorter one is past the filling of the first window, so that the
/// difference is steady churn only.
const LENGTHS: [u64; 2] = [800_000, 1_200_000];

/// Counts, prints, and records or compares.
pub(crate) fn run(options: &Options, action: Action) -> Result<ExitCode, Failure> {
    let recorded = Record::load();
    let harness = count(HARNESS)?;
    let mut counted = Record::default();
    let mut table = Table::new(&["subject", "instructions/check", "recorded"]);
    for subject in [LOG, COUNTER, GOVERNOR, FLOOR] {
        let instructions = count(subject)? - harness;
        let before = recorded.get(subject);
        if options.json {
            JsonLine::new("instructions")
                .text("workload", WORKLOAD)
                .text("subject", subject)
                .number("instructions", Some(instructions), 1)
                .number("recorded", before, 1)
                .print();
        }
        let before = before.map_or_else(|| "-".to_owned(), |before| format!("{before:.1}"));
        table.row(vec![subject.to_owned(), format!("{instructions:.1}"), before]);
        counted.set(subject, instructions);
    }
    if !options.json {
        println!("\n{WORKLOAD}, harness of {harness:.1} instructions subtracted\n");
        table.print();
    }
    match action {
        Action::Print => {}
        Action::Record => counted.save()?,
        Action::Compare => return Ok(compare(&counted, &recorded)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Instructions a check, with the harness.
fn count(subject: &str) -> Result<f64, Failure> {
    progress::say(&format!("{WORKLOAD}: counting {subject}"));
    let [short, long] = LENGTHS;
    let whole = |checks| callgrind::count("instructions-child", subject, checks);
    let difference = whole(long)? - whole(short)?;
    Ok(difference / to_float(long - short))
}

fn compare(counted: &Record, recorded: &Record) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for subject in [LOG, COUNTER] {
        if let Err(difference) = counted.compare(recorded, subject) {
            eprintln!("slidegate-bench: {difference}");
            code = ExitCode::FAILURE;
        }
    }
    code
}
