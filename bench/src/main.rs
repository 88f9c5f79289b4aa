//! Side-by-side runs of Slidegate, its peers and a floor. `README.md` says how to read them.
#![expect(clippy::print_stdout, reason = "a bench prints its tables")]

mod options;
mod progress;

mod clock;
mod key;
mod numbers;
mod poisson;
mod random;
mod rounding;
mod zipf;

mod contender;
mod subject;

mod floor;
mod harness;
mod ours;
mod peers;
mod ring;

mod json;
mod summary;
mod table;

#[cfg(feature = "services")]
mod faults;
mod holds;
mod inproc;
mod instructions;
mod memory;
mod over;
#[cfg(feature = "services")]
mod redis;
#[cfg(feature = "services")]
mod server;
#[cfg(feature = "services")]
mod tower;

use core::time::Duration;
use std::process::ExitCode;

use crate::options::{Command, Options, Service};

/// Why a bench could not run.
type Failure = Box<dyn core::error::Error>;

fn main() -> ExitCode {
    let outcome = Options::parse(std::env::args().skip(1)).and_then(|options| run(&options));
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("slidegate-bench: {failure}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.command {
        Command::Help => println!("{}", options::HELP),
        Command::Holds => holds::run(options)?,
        Command::Over => over::run(options)?,
        Command::Inproc { workload } => inproc::run(options, workload.as_deref())?,
        Command::Memory { workload } => memory::run(options, workload.as_deref())?,
        Command::MemoryChild { workload, subject, seconds } => {
            memory::run_child(workload, subject, Duration::from_secs(*seconds))?;
        }
        Command::Instructions { action } => return instructions::run(options, *action),
        Command::InstructionsChild { subject, checks } => {
            instructions::run_child(subject, *checks)?;
        }
        Command::Service(service) => return run_service(options, service),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "services")]
fn run_service(options: &Options, service: &Service) -> Result<ExitCode, Failure> {
    match service {
        Service::Dashboard => server::run_dashboard(options)?,
        Service::Outages { schedules } => faults::search(options, *schedules)?,
        Service::Faults { fault } => faults::run(options, fault.as_deref())?,
        Service::Redis => redis::run(options)?,
        Service::Server => server::run(options)?,
        Service::ServerChild { subject, port, bytes } => server::run_child(subject, *port, *bytes)?,
        Service::Soak { minutes } => return server::run_soak(options, *minutes),
        Service::Tower => tower::run(options)?,
        Service::TowerChild { subject, requests } => tower::run_child(subject, *requests)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "services"))]
fn run_service(_: &Options, service: &Service) -> Result<ExitCode, Failure> {
    Err(format!("built without the feature `services`, which {service:?} needs").into())
}
