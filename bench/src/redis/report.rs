//! Results for people and for programs.

use super::bytes::Bytes;
use super::rate::{Rate, Rates};
use super::reserve::Reserved;
use super::single::{Call, LONG, Latency};
use super::subject::SubjectKind;
use crate::json::JsonLine;
use crate::options::Options;
use crate::rounding::to_float;
use crate::summary::Summary;
use crate::table::Table;

pub(super) fn print(options: &Options, rates: &[Rates], bytes: &[Bytes]) {
    for rates in rates {
        if options.json {
            rates_as_json(rates);
        } else {
            rates_as_table(rates);
        }
    }
    for bytes in bytes {
        if options.json {
            bytes_as_json(bytes);
        } else {
            bytes_as_table(bytes);
        }
    }
}

pub(super) fn print_single(
    options: &Options,
    calls: &[Call],
    latency: &[Latency],
    reserved: &Reserved,
) {
    if options.json {
        single_as_json(calls, latency, reserved);
    } else {
        single_as_table(calls, latency, reserved);
    }
}

fn single_as_json(calls: &[Call], latency: &[Latency], reserved: &Reserved) {
    let ours = |workload: &str| {
        JsonLine::new("redis").text("workload", workload).text("subject", SubjectKind::Log.name())
    };
    for call in calls {
        ours(&call.workload)
            .number("server_us", median(&call.server_micros), 1)
            .number("ratio_to_check", to_check(call), 3)
            .whole("calls", call.calls)
            .whole("calls_over_2ms", call.long)
            .print();
    }
    for latency in latency {
        JsonLine::new("redis")
            .text("workload", "latency")
            .text("subject", latency.which.name())
            .number("p50_us", Some(latency.p50), 1)
            .number("p99_us", Some(latency.p99), 1)
            .print();
    }
    ours("reserve-settle")
        .whole("reserves", reserved.reserves)
        .whole("degraded", reserved.degraded)
        .whole("unrelated", reserved.unrelated)
        .whole("unrelated_degraded", reserved.unrelated_degraded)
        .print();
}

fn single_as_table(calls: &[Call], latency: &[Latency], reserved: &Reserved) {
    println!("\nsingle calls, {}", SubjectKind::Log.name());
    let long = format!("over {LONG} us");
    let mut table = Table::new(&["call", "server us", "to a check", &long]);
    for call in calls {
        let number =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
        table.row(vec![
            call.workload.clone(),
            number(median(&call.server_micros)),
            number(to_check(call)),
            format!("{} of {}", call.long, call.calls),
        ]);
    }
    table.print();
    println!("\nlatency of a single check");
    let mut table = Table::new(&["subject", "p50 us", "p99 us"]);
    for latency in latency {
        let [p50, p99] = [latency.p50, latency.p99].map(|micros| format!("{micros:.0}"));
        table.row(vec![latency.which.name().to_owned(), p50, p99]);
    }
    table.print();
    println!("\nreserve-settle, 1000 per second on one key and 1000 checks of others");
    let mut table = Table::new(&["", "decisions", "degraded"]);
    for (name, decisions, degraded) in [
        ("reserved and settled", reserved.reserves, reserved.degraded),
        ("unrelated", reserved.unrelated, reserved.unrelated_degraded),
    ] {
        table.row(vec![name.to_owned(), decisions.to_string(), degraded.to_string()]);
    }
    table.print();
}

/// To a check of the same key, in the same round.
fn to_check(call: &Call) -> Option<f64> {
    let ratios =
        call.server_micros.iter().zip(&call.check_micros).map(|(call, check)| call / check);
    Summary::of(ratios).map(|summary| summary.median)
}

fn rates_as_json(rates: &Rates) {
    for rate in &rates.subjects {
        let line = JsonLine::new("redis")
            .text("workload", rates.workload)
            .text("subject", rate.which.name())
            .number("per_second", median(&rate.per_second), 0)
            .number("ratio_to_sorted_set", ratio(rates, rate).map(|ratio| ratio.median), 3)
            .number("server_us", median(&rate.server_micros), 3)
            .whole("decisions", rate.decisions)
            .whole("admitted", rate.admitted);
        match rate.calls {
            Some(calls) => line.whole("calls", calls).print(),
            None => line.print(),
        }
    }
}

fn rates_as_table(rates: &Rates) {
    println!("\n{}", rates.workload);
    let mut table = Table::new(&[
        "subject",
        "decisions/s",
        "to sorted set",
        "quartiles",
        "server us/decision",
        "calls/decision",
    ]);
    for rate in &rates.subjects {
        let ratio = ratio(rates, rate);
        let calls = rate.calls.map(|calls| to_float(calls) / to_float(rate.decisions.max(1)));
        table.row(vec![
            rate.which.name().to_owned(),
            median(&rate.per_second).map_or_else(String::new, |value| format!("{value:.0}")),
            ratio.map_or_else(String::new, |ratio| format!("{:.2}x", ratio.median)),
            ratio.map_or_else(String::new, |ratio| format!("{:.2}-{:.2}", ratio.q1, ratio.q3)),
            median(&rate.server_micros).map_or_else(String::new, |value| format!("{value:.3}")),
            calls.map_or_else(|| "1".to_owned(), |calls| format!("{calls:.5}")),
        ]);
    }
    table.print();
}

fn bytes_as_json(bytes: &Bytes) {
    for (which, value) in &bytes.subjects {
        JsonLine::new("redis")
            .text("workload", &bytes.workload)
            .text("subject", which.name())
            .text("per", bytes.per)
            .number("bytes", Some(*value), 1)
            .number("ratio_to_sorted_set", share(bytes, *value), 4)
            .print();
    }
}

fn bytes_as_table(bytes: &Bytes) {
    println!("\n{}, bytes a {}", bytes.workload, bytes.per);
    let mut table = Table::new(&["subject", "bytes", "to sorted set"]);
    for (which, value) in &bytes.subjects {
        let share = share(bytes, *value);
        table.row(vec![
            which.name().to_owned(),
            format!("{value:.0}"),
            share.map_or_else(String::new, |share| format!("1/{:.1}", 1.0 / share)),
        ]);
    }
    table.print();
}

/// To the sorted set of the same round.
fn ratio(rates: &Rates, rate: &Rate) -> Option<Summary> {
    let base = rates.subjects.iter().find(|rate| rate.which == SubjectKind::SortedSet)?;
    Summary::of(rate.per_second.iter().zip(&base.per_second).map(|(ours, base)| ours / base))
}

fn share(bytes: &Bytes, value: f64) -> Option<f64> {
    let base = bytes.subjects.iter().find(|(which, _)| *which == SubjectKind::SortedSet)?;
    Some(value / base.1)
}

fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values.iter().copied()).map(|summary| summary.median)
}
