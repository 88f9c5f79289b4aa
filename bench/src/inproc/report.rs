//! The results of a workload, for people and for programs.

use crate::contender::{FLOOR, GOVERNOR, LOG, LOG_MANY};
use crate::inproc::THREADS;
use crate::inproc::results::Results;
use crate::inproc::workload::{Target, Workload};
use crate::json::JsonLine;
use crate::summary::Summary;
use crate::table::Table;

/// Prints one object per line.
pub(crate) fn print_json(workload: &Workload, results: &Results) {
    for threads in THREADS {
        for name in results.names() {
            let nanos = results.nanos(threads, name);
            let to_governor = results.ratio(threads, name, GOVERNOR);
            let to_floor = results.ratio(threads, name, FLOOR);
            let mut line = JsonLine::new("inproc")
                .text("workload", workload.name)
                .whole("threads", threads as u64)
                .text("subject", name)
                .number("ns", nanos.map(|nanos| nanos.median), 2)
                .number("q1", nanos.map(|nanos| nanos.q1), 2)
                .number("q3", nanos.map(|nanos| nanos.q3), 2)
                .number("ratio_to_governor", to_governor.map(|ratio| ratio.median), 4)
                .number("ratio_to_governor_q1", to_governor.map(|ratio| ratio.q1), 4)
                .number("ratio_to_governor_q3", to_governor.map(|ratio| ratio.q3), 4)
                .number("ratio_to_floor", to_floor.map(|ratio| ratio.median), 4)
                .number("ratio_to_floor_q1", to_floor.map(|ratio| ratio.q1), 4)
                .number("ratio_to_floor_q3", to_floor.map(|ratio| ratio.q3), 4);
            if *name == LOG_MANY {
                let to_single = results.ratio(threads, name, LOG);
                line = line.number("ratio_to_single", to_single.map(|ratio| ratio.median), 4);
            }
            let admitted = results.admitted(threads, name).map(|admitted| admitted.median);
            line.number("admitted", admitted, 3).print();
        }
    }
}

/// Prints a table for each number of threads, with the targets underneath.
pub(crate) fn print_table(workload: &Workload, results: &Results) {
    for threads in THREADS {
        let plural = if threads == 1 { "" } else { "s" };
        println!("\n{}, {threads} thread{plural}\n", workload.name);
        let mut table = Table::new(&["subject", "ns/check", "to governor", "to floor", "admitted"]);
        for name in results.names() {
            let admitted = results.admitted(threads, name);
            table.row(vec![
                (*name).to_owned(),
                spread(results.nanos(threads, name), 1),
                spread(results.ratio(threads, name, GOVERNOR), 2),
                spread(results.ratio(threads, name, FLOOR), 2),
                admitted.map_or_else(String::new, |share| format!("{:.3}", share.median)),
            ]);
        }
        table.print();
        print_targets(workload, results, threads);
    }
}

fn print_targets(workload: &Workload, results: &Results, threads: usize) {
    println!();
    for Target { subject, other, share } in workload.targets {
        let Some(ratio) = results.ratio(threads, subject, other) else {
            continue;
        };
        let met = if ratio.median <= *share { "met" } else { "missed" };
        println!("{subject}: {:.2}x {other} (target {share:.2}, {met})", ratio.median);
    }
}

/// The median with its quartiles.
fn spread(summary: Option<Summary>, digits: usize) -> String {
    summary.map_or_else(String::new, |Summary { q1, median, q3 }| {
        format!("{median:.digits$} ({q1:.digits$}..{q3:.digits$})")
    })
}
