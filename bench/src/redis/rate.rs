//! Decisions a second.

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;

use slidegate::Quota;
use slidegate_testkit::server::RedisServer;

use super::TASKS;
use super::subject::{Subject, SubjectKind};
use crate::Failure;
use crate::clock;
use crate::key::Key;
use crate::random::Random;
use crate::rounding::to_float;

/// The callers and their keys.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    keys: u32,
    limit: u64,
    window: Duration,
    subjects: &'static [SubjectKind],
}

/// What came out of a workload: for every subject one value a round.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) workload: &'static str,
    pub(super) subjects: Vec<Rate>,
}

/// What one subject did.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) which: SubjectKind,
    /// Decisions a second, by round.
    pub(super) per_second: Vec<f64>,
    /// Processor time that the server spent on a decision, in microseconds, by round.
    pub(super) server_micros: Vec<f64>,
    pub(super) decisions: u64,
    pub(super) admitted: u64,
    pub(super) calls: Option<u64>,
}

const PLAIN: &[SubjectKind] = &[
    SubjectKind::Log,
    SubjectKind::Counter,
    SubjectKind::SortedSet,
    SubjectKind::Increment,
    SubjectKind::Empty,
];

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "keys-100k",
        keys: 100_000,
        limit: 100,
        window: Duration::from_secs(60),
        subjects: PLAIN,
    },
    // As fast as one key can be asked for: mostly denied, and each that is allowed has seen
    // others expire.
    Workload {
        name: "one-key",
        keys: 1,
        limit: 10_000,
        window: Duration::from_secs(1),
        subjects: PLAIN,
    },
    Workload {
        name: "flooded-key",
        keys: 1,
        limit: 1000,
        window: Duration::from_secs(60),
        subjects: &[SubjectKind::LogDenyCache, SubjectKind::SortedSet],
    },
    Workload {
        name: "hot-allowed-key",
        keys: 1,
        limit: 1_000_000_000,
        window: Duration::from_secs(1),
        subjects: &[SubjectKind::LogLeases, SubjectKind::SortedSet],
    },
];

/// Runs all subjects of a workload in turn, `rounds` times.
pub(super) async fn measure(
    server: &RedisServer,
    workload: &Workload,
    rounds: usize,
    seconds: f64,
) -> Result<Rates, Failure> {
    let quota = Quota::new(workload.limit, workload.window)?;
    let mut running = Vec::new();
    for which in workload.subjects {
        let subject = Rc::new(Subject::new(*which, &server.url(), quota).await?);
        // Fills the tables and loads the scripts.
        lap(&subject, workload.keys, seconds / 2.0).await?;
        let rate = Rate {
            which: *which,
            per_second: Vec::new(),
            server_micros: Vec::new(),
            decisions: 0,
            admitted: 0,
            calls: subject.calls().map(|_| 0),
        };
        running.push((subject, rate));
    }
    for round in 0..rounds {
        let count = running.len();
        for turn in 0..count {
            let (subject, rate) = &mut running[(round + turn) % count];
            let (before, server_before) = (subject.calls(), server_seconds(server)?);
            let lap = lap(subject, workload.keys, seconds).await?;
            let on_server = server_seconds(server)? - server_before;
            rate.per_second.push(lap.per_second);
            rate.server_micros.push(on_server * 1e6 / to_float(lap.decisions.max(1)));
            rate.decisions += lap.decisions;
            rate.admitted += lap.admitted;
            if let (Some(calls), Some(before), Some(after)) =
                (&mut rate.calls, before, subject.calls())
            {
                *calls += after - before;
            }
        }
    }
    let subjects = running.into_iter().map(|(_, rate)| rate).collect();
    Ok(Rates { workload: workload.name, subjects })
}

/// Processor time of the server so far.
fn server_seconds(server: &RedisServer) -> Result<f64, Failure> {
    let [user, system] = ["used_cpu_user", "used_cpu_sys"].map(|name| server.info("cpu", name));
    Ok(user?.parse::<f64>()? + system?.parse::<f64>()?)
}

struct Lap {
    per_second: f64,
    decisions: u64,
    admitted: u64,
}

/// All tasks ask until the time is over.
async fn lap(subject: &Rc<Subject>, keys: u32, seconds: f64) -> Result<Lap, Failure> {
    let (decisions, admitted) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let over = Rc::new(Cell::new(false));
    let began = clock::instant();
    let local = tokio::task::LocalSet::new();
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (subject, decisions, admitted, over) =
            (Rc::clone(subject), Rc::clone(&decisions), Rc::clone(&admitted), Rc::clone(&over));
        let (mut random, mut key) = (Random::new(task as u64 + 1), Key::new());
        tasks.push(local.spawn_local(async move {
            while !over.get() {
                // A subject that answers without waiting must let the others have their turn.
                for _ in 0..32 {
                    let number = decisions.get();
                    decisions.set(number + 1);
                    let key = key.write(random.below(keys));
                    let allowed =
                        subject.check(key, number).await.map_err(|error| error.to_string())?;
                    admitted.set(admitted.get() + u64::from(allowed));
                }
                // Not each time: to read a clock takes a fifth of a decision from memory.
                if began.elapsed().as_secs_f64() >= seconds {
                    over.set(true);
                }
                tokio::task::yield_now().await;
            }
            Ok::<(), String>(())
        }));
    }
    local.await;
    for task in tasks {
        task.await??;
    }
    let took = began.elapsed().as_secs_f64();
    Ok(Lap {
        per_second: to_float(decisions.get()) / took,
        decisions: decisions.get(),
        admitted: admitted.get(),
    })
}
