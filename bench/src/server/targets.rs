//! The targets, next to the measured values.

use super::Results;
use super::measure::{Measured, Row, median, ratio_to};
use super::subject::ServerKind;
use crate::table::Table;

struct Target {
    what: String,
    value: Option<f64>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub(super) fn print(results: &Results) {
    let mut table = Table::new(&["target", "bound", "measured", ""]);
    for Target { what, value, bound } in
        results.workloads.iter().flat_map(of).chain(decision(results))
    {
        let Some(value) = value else { continue };
        let (shown, is_met) = match bound {
            Bound::AtLeast(bound) => (format!(">= {bound}"), value >= bound),
            Bound::AtMost(bound) => (format!("<= {bound}"), value <= bound),
        };
        let verdict = if is_met { "met" } else { "missed" };
        table.row(vec![what, shown, format!("{value:.2}"), verdict.to_owned()]);
    }
    println!();
    table.print();
}

fn of(measured: &Measured) -> Vec<Target> {
    let Some((ours, base)) = measured.ours_and_base() else { return Vec::new() };
    let name = measured.workload.name;
    let base_name = base.which.name(measured.workload.protocol);
    let rate = |base| ratio_to(ours, base, |row| row.per_second.clone()).map(|ratio| ratio.median);
    let mut targets = Vec::new();
    let mut aim = |what: String, value, bound| targets.push(Target { what, value, bound });
    match base.which {
        ServerKind::EmptyHyper => {
            aim(format!("{name}: throughput / {base_name}"), rate(base), Bound::AtLeast(0.85));
        }
        ServerKind::Redis => {
            aim(format!("{name}: throughput / {base_name}"), rate(base), Bound::AtLeast(0.7));
        }
        _ => {
            aim(format!("{name}: throughput / {base_name}"), rate(base), Bound::AtLeast(1.0));
            let peer = measured.row(ServerKind::Throttlecrab);
            let what = format!("{name}: throughput / throttlecrab-grpc");
            aim(what, peer.and_then(rate), Bound::AtLeast(1.0));
        }
    }
    if matches!(base.which, ServerKind::EmptyHyper | ServerKind::EmptyTonic) {
        let costs = ours.cost.zip(base.cost);
        let instructions = costs.map(|(ours, base)| ours.instructions / base.instructions);
        aim(format!("{name}: instructions / {base_name}"), instructions, Bound::AtMost(1.15));
        let p99 = measured.ratio(ours, Row::p99).map(|ratio| ratio.median);
        aim(format!("{name}: p99 / {base_name}"), p99, Bound::AtMost(1.25));
        aim(format!("{name}: p99 in us"), median(&ours.p99()), Bound::AtMost(2000.0));
    }
    targets
}

fn decision(results: &Results) -> Option<Target> {
    let decisions = results.decisions.as_ref()?;
    let (what, value) = ("decision: p99 in us".to_owned(), decisions.p99_us());
    Some(Target { what, value, bound: Bound::AtMost(200.0) })
}
