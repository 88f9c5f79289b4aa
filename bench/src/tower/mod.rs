//! Overhead of a layer per request, compared with `tower_governor` and a layer that does nothing.

mod bare;
mod count;
mod layered;
mod time;

use crate::Failure;
use crate::json::JsonLine;
use crate::options::Options;
use crate::rounding::to_float;
use crate::summary::Summary;
use crate::table::Table;

pub(crate) use self::count::run_child;

/// Names of what is measured, as they are printed.
pub(crate) const BARE: &str = "bare";
pub(crate) const EMPTY: &str = "empty-layer";
pub(crate) const GOVERNOR: &str = "tower_governor";
pub(crate) const GOVERNOR_FIELDS: &str = "tower_governor-fields";
pub(crate) const OURS: &str = "slidegate-tower";
pub(crate) const OURS_FIELDS: &str = "slidegate-tower-fields";
pub(crate) const OURS_ALL: &str = "slidegate-tower-all-fields";

/// In the order of the table; the bare service is subtracted from all others.
const SUBJECTS: [&str; 7] = [BARE, EMPTY, GOVERNOR, OURS, GOVERNOR_FIELDS, OURS_FIELDS, OURS_ALL];

/// One row.
struct Row {
    subject: &'static str,
    ns: Option<Summary>,
    instructions: f64,
}

/// Measures, and prints a table or lines of JSON.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let times = time::measure(options.quick)?;
    let mut rows = Vec::with_capacity(SUBJECTS.len());
    for (subject, ns) in SUBJECTS.into_iter().zip(times) {
        rows.push(Row { subject, ns, instructions: count::count(subject)? });
    }
    let bare = rows.first().map_or(0.0, |row| row.instructions);
    let added = |subject: &str| {
        let row = rows.iter().find(|row| row.subject == subject);
        row.map(|row| row.instructions - bare)
    };
    let mut table = Table::new(&["subject", "ns added", "instructions added", "x tower_governor"]);
    for row in rows.iter().skip(1) {
        let instructions = row.instructions - bare;
        let peer = peer(row.subject).and_then(added);
        let ratio = peer.map(|peer| instructions / peer);
        if options.json {
            JsonLine::new("tower")
                .text("subject", row.subject)
                .number("ns_added", row.ns.map(|ns| ns.median), 1)
                .number("ns_added_q1", row.ns.map(|ns| ns.q1), 1)
                .number("ns_added_q3", row.ns.map(|ns| ns.q3), 1)
                .number("instructions_added", Some(instructions), 1)
                .number("ratio_to_tower_governor", ratio, 3)
                .print();
        }
        table.row(vec![
            row.subject.to_owned(),
            row.ns.map_or_else(
                || "-".to_owned(),
                |ns| format!("{:.1} ({:.1} to {:.1})", ns.median, ns.q1, ns.q3),
            ),
            format!("{instructions:.1}"),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    if !options.json {
        println!("\nadded to a request by a layer; a bare service takes {bare:.1} instructions\n");
        table.print();
    }
    Ok(())
}

/// The peer that does the same: with fields on the response, or without.
fn peer(subject: &str) -> Option<&'static str> {
    match subject {
        OURS => Some(GOVERNOR),
        OURS_FIELDS | OURS_ALL => Some(GOVERNOR_FIELDS),
        _ => None,
    }
}

/// Nanoseconds, or instructions, for each request.
fn each(total: f64, requests: u64) -> f64 {
    total / to_float(requests)
}
