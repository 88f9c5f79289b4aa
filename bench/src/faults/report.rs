//! Results for people and for programs.

use core::time::Duration;

use super::load::{LIMIT, NODES, WINDOW};
use super::record::Outcome;
use super::stage::Fault;
use crate::json::JsonLine;
use crate::options::Options;
use crate::table::Table;

pub(super) fn print(options: &Options, rows: &[(&Fault, Outcome)]) {
    if options.json {
        for (fault, outcome) in rows {
            as_json(fault, outcome);
        }
        return;
    }
    let seconds = WINDOW.as_secs();
    println!("{NODES} nodes share {LIMIT} requests per {seconds} s and check every 10 ms\n");
    let headings = [
        "fault",
        "slowest check",
        "recovered after",
        "degraded checks",
        "worst window",
        "fewest after",
        "units lost",
        "units unclaimed",
        "connections",
    ];
    let mut table = Table::new(&headings);
    for (fault, outcome) in rows {
        table.row(vec![
            fault.what.to_owned(),
            millis(outcome.slowest),
            millis(outcome.recovery),
            format!("{} of {}", outcome.degraded, outcome.checks),
            outcome.worst_window.to_string(),
            outcome.fewest_after.to_string(),
            outcome.lost.to_string(),
            outcome.unclaimed.to_string(),
            outcome.connections.to_string(),
        ]);
    }
    table.print();
}

fn as_json(fault: &Fault, outcome: &Outcome) {
    JsonLine::new("faults")
        .text("fault", fault.name)
        .number("slowest_ms", Some(outcome.slowest.as_secs_f64() * 1e3), 1)
        .number("recovery_ms", Some(outcome.recovery.as_secs_f64() * 1e3), 1)
        .whole("degraded", outcome.degraded)
        .whole("checks", outcome.checks)
        .whole("limit", LIMIT)
        .whole("worst_window", outcome.worst_window)
        .whole("fewest_after", outcome.fewest_after)
        .whole("lost", outcome.lost)
        .whole("unclaimed", outcome.unclaimed)
        .whole("connections", outcome.connections)
        .print();
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
