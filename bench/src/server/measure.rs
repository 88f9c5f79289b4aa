//! One workload: every subject in turn, round after round.

use super::count::{self, Cost};
use super::load_client::LoadClient;
use super::open::{self, Latency};
use super::process::{Server, Wrapper};
use super::program::Programs;
use super::subject::ServerKind;
use super::workload::Workload;
use super::{Effort, closed};
use crate::Failure;
use crate::progress;
use crate::rounding::to_whole;
use crate::summary::Summary;

/// The results of one subject, one value per round.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) which: ServerKind,
    pub(super) per_second: Vec<f64>,
    pub(super) cpu_us: Vec<f64>,
    pub(super) latency: Vec<Latency>,
    pub(super) cost: Option<Cost>,
}

/// The results of a workload. The second row is the reference.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) workload: &'static Workload,
    pub(super) rows: Vec<Row>,
    /// Requests per second at which the latency was measured.
    pub(super) offered: Option<u32>,
}

struct Running {
    server: Server,
    lines: Vec<LoadClient>,
}

/// The load at which the latency is measured, if the machine can.
const OFFERED: u32 = 10_000;

/// Measures all servers that speak the protocol.
pub(super) async fn measure(
    workload: &'static Workload,
    programs: &Programs,
    effort: &Effort,
) -> Result<Measured, Failure> {
    let name = workload.name;
    let mut rows = Vec::new();
    let mut running = Vec::new();
    for which in workload.subjects.iter().copied() {
        if which == ServerKind::Throttlecrab && programs.throttlecrab.is_none() {
            continue;
        }
        let server = which.start(programs, effort.workers, Wrapper::None).await?;
        let mut lines = LoadClient::open_all(which, workload.protocol, &server).await?;
        // Every key once or so, and code into caches.
        closed::lap(&mut lines, &server, effort.lap).await?;
        running.push(Running { server, lines });
        let (per_second, cpu_us, latency) = (Vec::new(), Vec::new(), Vec::new());
        rows.push(Row { which, per_second, cpu_us, latency, cost: None });
    }
    for round in 0..effort.rounds {
        progress::say(&format!("server: {name}, round {} of {}", round + 1, effort.rounds));
        for place in turns(round, rows.len()) {
            let Running { server, lines } = &mut running[place];
            let lap = closed::lap(lines, server, effort.lap).await?;
            #[expect(clippy::cast_precision_loss, reason = "a batch is 16 at most")]
            let batch = workload.protocol.batch() as f64;
            rows[place].per_second.push(lap.asks_per_second * batch);
            rows[place].cpu_us.push(lap.cpu_us / batch);
        }
    }
    let mut offered = None;
    if workload.is_paced {
        offered = Some(offer(&rows)?);
        paced(workload, effort, offered.unwrap_or(OFFERED), &mut rows, &mut running).await?;
    }
    drop(running);
    if workload.is_counted {
        for row in rows.iter_mut().take(2) {
            let subject = row.which.name(workload.protocol);
            progress::say(&format!("server: {name}, counting {subject}"));
            let asks = effort.counted / workload.protocol.batch();
            let cost = count::count(row.which, workload.protocol, programs, asks).await?;
            row.cost = Some(cost);
        }
    }
    Ok(Measured { workload, rows, offered })
}

/// The same load for all: at most half of what the slowest can do.
fn offer(rows: &[Row]) -> Result<u32, Failure> {
    let medians = rows.iter().filter_map(|row| Summary::of(row.per_second.iter().copied()));
    let least = medians.map(|summary| summary.median).fold(f64::INFINITY, f64::min);
    let half = u32::try_from(to_whole((least / 2.0).min(f64::from(OFFERED))))?;
    // Whole hundreds: a round number is easier to read, and the gaps come out even.
    Ok((half / 100 * 100).max(100))
}

async fn paced(
    workload: &Workload,
    effort: &Effort,
    rate: u32,
    rows: &mut [Row],
    running: &mut [Running],
) -> Result<(), Failure> {
    let name = workload.name;
    for round in 0..effort.paced_rounds {
        let counted = format!("round {} of {}", round + 1, effort.paced_rounds);
        progress::say(&format!("server: {name} at {rate}/s, {counted}"));
        for place in turns(round, rows.len()) {
            let lines = &mut running[place].lines;
            rows[place].latency.push(open::lap(lines, rate, effort.paced_lap).await?);
        }
    }
    Ok(())
}

/// Every round starts with another subject.
fn turns(round: usize, subjects: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |turn| (round + turn) % subjects)
}

/// A subject's values over another's, round by round.
pub(super) fn ratio_to(row: &Row, base: &Row, of: impl Fn(&Row) -> Vec<f64>) -> Option<Summary> {
    let pairs = of(row).into_iter().zip(of(base));
    Summary::of(pairs.map(|(value, base)| value / base))
}

impl Measured {
    /// A subject's values over the yardstick's, round by round.
    pub(super) fn ratio(&self, row: &Row, of: impl Fn(&Row) -> Vec<f64>) -> Option<Summary> {
        ratio_to(row, self.rows.get(1)?, of)
    }

    /// The row of a subject.
    pub(super) fn row(&self, which: ServerKind) -> Option<&Row> {
        self.rows.iter().find(|row| row.which == which)
    }

    /// Ours and the yardstick's.
    pub(super) fn ours_and_base(&self) -> Option<(&Row, &Row)> {
        Some((self.rows.first()?, self.rows.get(1)?))
    }
}

impl Row {
    pub(super) fn p50(&self) -> Vec<f64> {
        self.latency.iter().map(|latency| latency.p50).collect()
    }

    pub(super) fn p99(&self) -> Vec<f64> {
        self.latency.iter().map(|latency| latency.p99).collect()
    }
}

/// The middle of all rounds.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values.iter().copied()).map(|summary| summary.median)
}
