//! Resident memory after one window of filling and three of churn.

mod arrivals;
mod fill;
mod measurement;
mod report;
pub(crate) mod resident;
mod ring_store;
mod store;
mod workload;

use core::time::Duration;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::clock;
use crate::memory::fill::fill;
use crate::memory::measurement::Measurement;
use crate::memory::report::Report;
use crate::memory::ring_store::RingStore;
use crate::memory::workload::{RING, Workload};
use crate::options::Options;
use crate::ours::OursTimed;
use crate::progress;

pub(crate) use self::store::Store;

/// When the last workload ends; ten minutes, and some time to start and to count.
const TIME_MAX: Duration = Duration::from_secs(560);

/// Runs all workloads, or the one that is named, each in a separate process.
pub(crate) fn run(options: &Options, only: Option<&str>) -> Result<(), Failure> {
    let chosen = |workload: &&Workload| only.is_none_or(|only| workload.name == only);
    let workloads: Vec<&Workload> = Workload::ALL.iter().filter(chosen).collect();
    if workloads.is_empty() {
        return Err(unknown(only.unwrap_or_default()));
    }
    let (mut report, began) = (Report::new(options.json), clock::instant());
    for workload in workloads {
        for subject in workload.subjects {
            progress::say(&format!("{} {subject}: started", workload.name));
            let left = TIME_MAX.saturating_sub(began.elapsed());
            report.add(workload, subject, &run_in_process(workload.name, subject, left)?);
        }
    }
    report.finish();
    Ok(())
}

/// Runs one workload in this process and prints what it took, for [`run`] to read.
pub(crate) fn run_child(name: &str, subject: &str, time: Duration) -> Result<(), Failure> {
    let workload = Workload::ALL.iter().find(|workload| workload.name == name);
    let workload = workload.ok_or_else(|| unknown(name))?;
    let Workload { algorithm, limit, blocks, .. } = *workload;
    let measurement = if subject == RING {
        fill(workload, time, || Ok(RingStore::new(limit)))?
    } else {
        fill(workload, time, || OursTimed::part(algorithm, limit, blocks))?
    };
    println!("{measurement}");
    Ok(())
}

/// Runs the workload in a new process of this program, so that nothing else is in its memory.
fn run_in_process(workload: &str, subject: &str, time: Duration) -> Result<Measurement, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["memory-child", workload, subject, &time.as_secs().to_string()])
        .stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{workload} {subject} ended with {}", output.status).into());
    }
    String::from_utf8(output.stdout)?.trim().parse()
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = Workload::ALL.iter().map(|workload| workload.name).collect();
    format!("no workload {name:?}: use one of {}", names.join(", ")).into()
}
