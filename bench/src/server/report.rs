//! Results for people and for programs.

use super::Results;
use super::measure::{Measured, Row, median};
use super::targets;
use super::workload::Protocol;
use crate::json::JsonLine;
use crate::options::Options;
use crate::summary::Summary;
use crate::table::Table;

pub(super) fn print(options: &Options, results: &Results) {
    for measured in &results.workloads {
        if options.json { as_json(measured) } else { as_table(measured) }
    }
    if options.json {
        others_as_json(results);
    } else {
        others_as_text(results);
        targets::print(results);
    }
}

fn as_json(measured: &Measured) {
    for row in &measured.rows {
        let ratio = measured.ratio(row, |row| row.per_second.clone());
        let cpu = measured.ratio(row, |row| row.cpu_us.clone());
        let p99 = measured.ratio(row, Row::p99);
        JsonLine::new("server")
            .text("workload", measured.workload.name)
            .text("subject", row.which.name(measured.workload.protocol))
            .number("requests_per_second", median(&row.per_second), 0)
            .number("ratio", ratio.map(|ratio| ratio.median), 3)
            .number("ratio_q1", ratio.map(|ratio| ratio.q1), 3)
            .number("ratio_q3", ratio.map(|ratio| ratio.q3), 3)
            .number("cpu_us", median(&row.cpu_us), 2)
            .number("cpu_ratio", cpu.map(|cpu| cpu.median), 3)
            .number("offered_per_second", measured.offered.map(f64::from), 0)
            .number("p50_us", median(&row.p50()), 0)
            .number("p99_us", median(&row.p99()), 0)
            .number("p99_ratio", p99.map(|p99| p99.median), 3)
            .number("instructions", row.cost.map(|cost| cost.instructions), 0)
            .number("allocations", row.cost.map(|cost| cost.allocations), 2)
            .number("allocated_bytes", row.cost.map(|cost| cost.allocated_bytes), 0)
            .print();
    }
}

fn as_table(measured: &Measured) {
    let at = measured.offered.map_or_else(String::new, |rate| format!(", latency at {rate}/s"));
    println!("\n{}{at}\n", measured.workload.name);
    let mut table = Table::new(&[
        "subject",
        "requests/s",
        "ratio (quartiles)",
        "server cpu us",
        "ratio",
        "p50 us",
        "p99 us",
        "ratio (quartiles)",
        "instructions",
        "allocations",
    ]);
    for row in &measured.rows {
        let cpu = measured.ratio(row, |row| row.cpu_us.clone());
        table.row(vec![
            row.which.name(measured.workload.protocol).to_owned(),
            whole(median(&row.per_second)),
            spread(measured.ratio(row, |row| row.per_second.clone())),
            median(&row.cpu_us).map_or_else(dash, |cpu| format!("{cpu:.1}")),
            cpu.map_or_else(dash, |cpu| format!("{:.2}", cpu.median)),
            whole(median(&row.p50())),
            whole(median(&row.p99())),
            spread(measured.ratio(row, Row::p99)),
            whole(row.cost.map(|cost| cost.instructions)),
            row.cost.map_or_else(dash, |cost| format!("{:.1}", cost.allocations)),
        ]);
    }
    table.print();
}

fn others_as_json(results: &Results) {
    for idle in &results.idle {
        JsonLine::new("server")
            .text("workload", "http-idle")
            .text("subject", idle.which.name(Protocol::Http))
            .whole("idle_connections", idle.connections as u64)
            .number("requests_per_second", Some(idle.per_second.median), 0)
            .number("ratio_to_none_idle", Some(idle.ratio.median), 3)
            .number("bytes_per_connection", Some(idle.bytes_each), 0)
            .print();
    }
    if let Some(decisions) = &results.decisions {
        JsonLine::new("server")
            .text("workload", "http")
            .text("subject", "slidegate-decision")
            .number("decisions", Some(decisions.count()), 0)
            .number("p99_us", decisions.p99_us(), 0)
            .print();
    }
}

fn others_as_text(results: &Results) {
    println!();
    for idle in &results.idle {
        println!(
            "{} with {} idle connections: {:.0} requests/s, {} of what it does without; \
             {:.0} bytes resident for each",
            idle.which.name(Protocol::Http),
            idle.connections,
            idle.per_second.median,
            spread(Some(idle.ratio)),
            idle.bytes_each,
        );
    }
    if let Some(decisions) = &results.decisions {
        println!(
            "decisions by the daemon's own histogram: 99 % of {:.0} within {} us",
            decisions.count(),
            whole(decisions.p99_us()),
        );
    }
}

fn whole(value: Option<f64>) -> String {
    value.map_or_else(dash, |value| format!("{value:.0}"))
}

fn spread(ratio: Option<Summary>) -> String {
    ratio.map_or_else(dash, |ratio| {
        format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.q1, ratio.q3)
    })
}

fn dash() -> String {
    "-".to_owned()
}
