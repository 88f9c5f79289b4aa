//! Callers that check one key of a shared limit.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use slidegate::{FailureMode, Policy, Quota};
use slidegate_redis::{Redis, RedisBuilder, RedisLimiter};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::record::{Observation, Outcome, Span, summarize};
use crate::Failure;

/// Limiters with their own connections.
pub(super) const NODES: u64 = 4;
pub(super) const LIMIT: u64 = 100;
pub(super) const WINDOW: Duration = Duration::from_secs(2);

/// Time between two checks of one node.
const PAUSE: Duration = Duration::from_millis(10);

/// Windows before the fault, and after it.
const WINDOWS_BEFORE: u32 = 2;
const WINDOWS_AFTER: u32 = 4;

/// How long the ledger may take to be read when Redis is back.
const LEDGER_DEADLINE: Duration = Duration::from_secs(10);

const KEY: &str = "alice";

/// A load that runs until it is finished.
pub(super) struct Load {
    tasks: JoinSet<Vec<Observation>>,
    is_over: Arc<AtomicBool>,
    nodes: Vec<Arc<Node>>,
}

/// What one process has.
struct Node {
    /// Decides by `FailureMode::Local` during the fault.
    limiter: RedisLimiter,
    /// Has a limit that is never reached, and denies during the fault. What it allowed must be recorded
    /// in Redis afterwards.
    ledger: RedisLimiter,
    ledger_units: AtomicU64,
    /// Whether it has begun to check.
    has_begun: AtomicBool,
}

impl Load {
    /// Prepares the load on handles from `connect`, one per node. A node waits until it may begin.
    pub(super) fn start(
        connect: impl Fn() -> Result<RedisBuilder, Failure>,
    ) -> Result<Self, Failure> {
        let nodes: Vec<Arc<Node>> = (0..NODES)
            .map(|_| Node::new(&connect()?.build()?).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let is_over = Arc::<AtomicBool>::default();
        let mut tasks = JoinSet::new();
        for node in &nodes {
            tasks.spawn(check_until(Arc::clone(node), Arc::clone(&is_over)));
        }
        Ok(Self { tasks, is_over, nodes })
    }

    /// Lets every node check.
    pub(super) fn begin_all(&self) {
        for node in &self.nodes {
            node.has_begun.store(true, Ordering::Relaxed);
        }
    }

    /// Lets only the first node check.
    pub(super) fn begin_first(&self) {
        if let Some(node) = self.nodes.first() {
            node.has_begun.store(true, Ordering::Relaxed);
        }
    }

    /// Runs until the limit has been reached and the state is steady.
    pub(super) async fn warm_up(&self) {
        sleep(WINDOW * WINDOWS_BEFORE).await;
    }

    /// Runs for some more windows and returns what callers observed.
    pub(super) async fn finish(mut self, span: Span) -> Result<Outcome, Failure> {
        sleep(WINDOW * WINDOWS_AFTER).await;
        self.is_over.store(true, Ordering::Relaxed);
        let mut observations = Vec::new();
        while let Some(node) = self.tasks.join_next().await {
            observations.extend(node?);
        }
        let mut outcome = summarize(&observations, span, WINDOW);
        let granted: u64 =
            self.nodes.iter().map(|node| node.ledger_units.load(Ordering::Relaxed)).sum();
        let recorded = self.recorded().await?;
        outcome.lost = granted.saturating_sub(recorded);
        outcome.unclaimed = recorded.saturating_sub(granted);
        outcome.connections =
            self.nodes.iter().map(|node| node.limiter.stats().connections).sum::<u64>();
        Ok(outcome)
    }

    /// Returns the units of the ledger that Redis has.
    async fn recorded(&self) -> Result<u64, Failure> {
        let node = self.nodes.first().ok_or("there are no nodes")?;
        let usage = async {
            loop {
                match node.ledger.usage(KEY).await {
                    Ok(usage) => return usage.units(0),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        Ok(timeout(LEDGER_DEADLINE, usage).await?)
    }
}

impl Node {
    fn new(redis: &Redis) -> Result<Self, Failure> {
        let limited = Policy::builder("limited")
            .quota(Quota::new(LIMIT, WINDOW)?)
            .failure_mode(FailureMode::Local)
            .build()?;
        let ledger = Policy::builder("ledger")
            .quota(Quota::per_hour(1_000_000))
            .failure_mode(FailureMode::Deny)
            .build()?;
        Ok(Self {
            limiter: redis.limiter(limited).nodes(NODES).build()?,
            ledger: redis.limiter(ledger).build()?,
            ledger_units: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
        })
    }
}

async fn check_until(node: Arc<Node>, is_over: Arc<AtomicBool>) -> Vec<Observation> {
    let mut observations = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if !node.has_begun.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1)).await;
            continue;
        }
        let sent = Instant::now();
        let decision = node.limiter.check(KEY).await;
        observations.push(Observation {
            sent,
            received: Instant::now(),
            is_allowed: decision.is_allowed(),
            is_degraded: decision.is_degraded(),
        });
        if node.ledger.check(KEY).await.is_allowed() {
            node.ledger_units.fetch_add(1, Ordering::Relaxed);
        }
        sleep(PAUSE).await;
    }
    observations
}
