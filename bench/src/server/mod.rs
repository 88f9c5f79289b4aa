//! The daemon compared with servers that do nothing, Redis and a peer, all as separate processes on
//! loopback; and a soak.

mod closed;
mod count;
mod dashboard;
mod decision;
mod empty;
mod grpc;
mod idle;
mod load_client;
mod measure;
mod open;
mod process;
mod program;
mod report;
mod soak;
mod subject;
mod targets;
mod wire;
mod workload;

use core::time::Duration;

pub(crate) use self::dashboard::run as run_dashboard;
use self::decision::Decisions;
pub(crate) use self::empty::run_child;
use self::idle::Idle;
use self::load_client::LoadClient;
use self::measure::Measured;
use self::process::{Server, Wrapper};
use self::program::Programs;
pub(crate) use self::soak::run as run_soak;
use self::subject::ServerKind;
use self::workload::{Protocol, WORKLOADS};
use crate::Failure;
use crate::options::Options;
use crate::progress;

/// How long and how often.
#[derive(Debug)]
struct Effort {
    rounds: usize,
    lap: Duration,
    paced_rounds: usize,
    paced_lap: Duration,
    /// Requests that are counted under valgrind.
    counted: u64,
    /// Threads of each server.
    workers: usize,
}

/// All that was measured.
#[derive(Debug)]
struct Results {
    workloads: Vec<Measured>,
    idle: Vec<Idle>,
    decisions: Option<Decisions>,
}

impl Effort {
    fn new(quick: bool) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let millis = Duration::from_millis;
        if quick {
            let (lap, paced_lap) = (millis(200), millis(300));
            return Self { rounds: 3, lap, paced_rounds: 2, paced_lap, counted: 320, workers };
        }
        let (lap, paced_lap) = (millis(1000), millis(2000));
        Self { rounds: 11, lap, paced_rounds: 5, paced_lap, counted: 4800, workers }
    }
}

/// Measures everything, and prints tables or lines of JSON.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    // One thread sends requests: the servers need the others.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_all(options))
}

async fn run_all(options: &Options) -> Result<(), Failure> {
    let effort = Effort::new(options.quick);
    idle::room()?;
    let mut programs = Programs::prepare()?;
    get_to_know(&mut programs).await?;
    let mut results = Results { workloads: Vec::new(), idle: Vec::new(), decisions: None };
    for workload in &WORKLOADS {
        results.workloads.push(measure::measure(workload, &programs, &effort).await?);
    }
    progress::say("server: decision times");
    results.decisions = Some(decide(&programs, &effort).await?);
    for which in [ServerKind::Slidegate, ServerKind::EmptyHyper] {
        let name = which.name(Protocol::Http);
        progress::say(&format!("server: {name} with idle connections"));
        let (rounds, lap) = (effort.paced_rounds, effort.lap);
        let idle = idle::measure(which, &programs, effort.workers, rounds, lap).await?;
        results.idle.push(idle);
    }
    report::print(options, &results);
    Ok(())
}

/// Values that must be known before the reference servers can be started.
async fn get_to_know(programs: &mut Programs) -> Result<(), Failure> {
    let server = ServerKind::Slidegate.start(programs, 1, Wrapper::None).await?;
    let mut line = LoadClient::open_one(ServerKind::Slidegate, Protocol::Http, &server).await?;
    line.ask().await?;
    let body = String::from_utf8_lossy(line.last_body());
    if !body.starts_with(r#"{"allowed":true,"#) {
        return Err(format!("the daemon does not allow a first request: {body}").into());
    }
    programs.answer_bytes = body.len();
    Ok(())
}

/// Decisions under a full load, from the daemon's own metrics.
async fn decide(programs: &Programs, effort: &Effort) -> Result<Decisions, Failure> {
    let server: Server =
        ServerKind::Slidegate.start(programs, effort.workers, Wrapper::None).await?;
    let mut lines = LoadClient::open_all(ServerKind::Slidegate, Protocol::Http, &server).await?;
    closed::lap(&mut lines, &server, effort.lap * 2).await?;
    decision::read(server.ports.admin).await
}
