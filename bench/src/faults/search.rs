//! A search for load patterns in which `FailureMode::Local` admits more than its bound in an outage.
//!
//! In each round, many keys have a random pattern each: when each process joins, and how often it
//! checks. The server then stops, and stays stopped until every reply is older than the window.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{FailureMode, Policy, Quota};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::RedisServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::load::NODES;
use super::record::{Observation, worst_window};
use crate::Failure;
use crate::json::JsonLine;
use crate::options::Options;
use crate::progress;
use crate::random::Random;
use crate::table::Table;

const LIMITS: [u64; 4] = [10, 25, 60, 100];
const WINDOW: Duration = Duration::from_secs(1);

/// Keys in one outage.
const KEYS_MAX: u32 = 40;

/// Time for the servers to connect.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results for one limit.
#[derive(Debug, Default)]
struct Found {
    schedules: u64,
    /// The most units in a window, and the bound of that schedule.
    most: u64,
    most_bound: u64,
    /// The schedule that came closest to its bound or exceeded it: by how many units it was below.
    least_room: Option<i128>,
}

/// When a process checks a key.
#[derive(Debug, Clone, Copy)]
struct Plan {
    joins: Instant,
    period: Duration,
}

/// Tries random schedules, and prints the worst for each limit. Returns an error if one exceeds its
/// bound.
pub(crate) fn run(options: &Options, schedules: u32) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut found: Vec<Found> = LIMITS.iter().map(|_| Found::default()).collect();
    let (mut left, mut round) = (schedules, 0_usize);
    while left > 0 {
        let keys = left.min(KEYS_MAX);
        let place = round % LIMITS.len();
        progress::say(&format!("outages: {left} schedules left"));
        let seed = u64::try_from(round)? + 1;
        runtime.block_on(search(LIMITS[place], keys, seed, &mut found[place]))?;
        left -= keys;
        round += 1;
    }
    print(options, &found);
    match found.iter().filter_map(|found| found.least_room).min() {
        Some(room) if room < 0 => Err(format!("a schedule exceeds its bound by {}", -room).into()),
        _ => Ok(()),
    }
}

/// Runs one outage with a schedule for each of some keys.
async fn search(limit: u64, keys: u32, seed: u64, found: &mut Found) -> Result<(), Failure> {
    let mut server = RedisServer::start()?;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let redis = Redis::single(&server.url())?.build()?;
        redis.connect(PATIENCE).await?;
        let policy = Policy::builder("outage")
            .quota(Quota::new(limit, WINDOW)?)
            .failure_mode(FailureMode::Local)
            .build()?;
        // A cached denial is not a reply.
        nodes.push(Arc::new(redis.limiter(policy).nodes(NODES).deny_cache(0).build()?));
    }
    let mut random = Random::new(seed);
    let millis = |random: &mut Random, bound| Duration::from_millis(random.below(bound).into());
    let start = now();
    let outage = start + WINDOW + millis(&mut random, 2000);
    let until = outage + WINDOW * 5 / 2;
    let mut tasks = JoinSet::new();
    for key in 0..keys {
        for node in &nodes {
            let joins = start + millis(&mut random, 2500);
            let slowest = if random.below(2) == 0 { 20 } else { 350 };
            let period = Duration::from_millis(5) + millis(&mut random, slowest);
            tasks.spawn(check(Arc::clone(node), key, Plan { joins, period }, until));
        }
    }
    sleep_until(outage).await;
    server.suspend()?;
    let mut by_key: Vec<Vec<Vec<Observation>>> = (0..keys).map(|_| Vec::new()).collect();
    while let Some(observed) = tasks.join_next().await {
        let (key, observations) = observed?;
        by_key[usize::try_from(key)?].push(observations);
    }
    server.resume()?;
    for nodes in by_key {
        found.add(limit, &nodes);
    }
    Ok(())
}

async fn check(
    node: Arc<RedisLimiter>,
    key: u32,
    plan: Plan,
    until: Instant,
) -> (u32, Vec<Observation>) {
    let mut observations = Vec::new();
    let mut due = plan.joins;
    while due < until {
        sleep_until(due).await;
        let sent = now();
        let decision = node.check(key.to_be_bytes()).await;
        observations.push(Observation {
            sent,
            received: now(),
            is_allowed: decision.is_allowed(),
            is_degraded: decision.is_degraded(),
        });
        due = now().max(due + plan.period);
    }
    (key, observations)
}

impl Found {
    /// Adds what the processes observed for one key.
    fn add(&mut self, limit: u64, nodes: &[Vec<Observation>]) {
        let mut admitted: Vec<Observation> =
            nodes.iter().flatten().copied().filter(|one| one.is_allowed).collect();
        admitted.sort_by_key(|one| one.received);
        let bound = bound(limit, nodes);
        let most = worst_window(&admitted, WINDOW);
        self.schedules += 1;
        if most > self.most {
            (self.most, self.most_bound) = (most, bound);
        }
        let room = i128::from(bound) - i128::from(most);
        self.least_room = Some(self.least_room.map_or(room, |least| least.min(room)));
    }
}

/// The bound of `docs/explanation/failure-modes.md`.
fn bound(limit: u64, nodes: &[Vec<Observation>]) -> u64 {
    let by_redis = |one: &&Observation| !one.is_degraded;
    let last = |node: &Vec<Observation>| node.iter().rfind(by_redis).map(|one| one.sent);
    // A process without a reply knows nothing.
    let oldest = nodes.iter().map(last).min().flatten();
    let replies = nodes.iter().flatten().filter(by_redis).filter(|one| one.is_allowed);
    let unknown = replies.filter(|one| oldest.is_none_or(|oldest| one.received >= oldest)).count();
    let unknown = u64::try_from(unknown).unwrap_or(u64::MAX).min(limit);
    limit + (unknown * (NODES - 1)).div_ceil(NODES) + NODES - 1
}

fn now() -> Instant {
    Instant::now()
}

fn print(options: &Options, found: &[Found]) {
    let rows = LIMITS.iter().zip(found).filter(|(_, found)| found.schedules > 0);
    if options.json {
        for (limit, found) in rows {
            JsonLine::new("outages")
                .whole("limit", *limit)
                .whole("schedules", found.schedules)
                .whole("most", found.most)
                .whole("bound", found.most_bound)
                .text("least_room", &found.least_room.unwrap_or_default().to_string())
                .print();
        }
        return;
    }
    println!("{NODES} nodes share a limit per second, and the server stops\n");
    let headings = ["limit", "schedules", "most in a window", "its bound", "least room to a bound"];
    let mut table = Table::new(&headings);
    for (limit, found) in rows {
        table.row(vec![
            limit.to_string(),
            found.schedules.to_string(),
            found.most.to_string(),
            found.most_bound.to_string(),
            found.least_room.unwrap_or_default().to_string(),
        ]);
    }
    table.print();
}
