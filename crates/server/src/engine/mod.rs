//! Limits at work.
//!
//! A [`Spec`] says what is wanted; the engine keeps the [`Plan`] that is in force, and swaps it for
//! another without losing a count.

mod all;
mod caller;
mod counts;
mod limit;
mod plan;
mod pool;
mod pools;
mod units;
mod witness;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use slidegate::{Error, ManualClock, MonotonicClock};
use slidegate_redis::Redis;

pub use self::all::{ASKS_MAX, Answer, Ask, check_all};
pub use self::caller::{Caller, Listener};
pub use self::counts::{BOUNDS, Count, Counts, Histogram};
pub use self::limit::{Limit, TierId};
pub use self::plan::{Plan, Planner};
pub use self::pool::Pool;
use self::pools::Pools;
pub use self::pools::{Afresh, PoolId, Restore};
pub use self::units::Units;
pub use self::witness::{Seen, Witness};
use crate::domain::Statistics;
use crate::spec::Spec;

/// What is in force, and all state.
#[derive(Debug)]
pub struct Engine {
    plan: ArcSwap<Plan>,
    pools: Pools,
    /// Of every limit there ever was under a name: metrics must not go back.
    counts: Mutex<HashMap<Box<str>, Arc<Counts>>>,
    statistics: Arc<Statistics>,
    timer: Arc<MonotonicClock>,
    witness: Option<Arc<dyn Witness>>,
}

/// The most limits whose counts are remembered after they are gone.
const REMEMBERED: usize = 10_000;

impl Engine {
    /// An engine that does what `spec` says, with the state that `restore` brings back.
    ///
    /// # Errors
    ///
    /// When a value is out of range, a store is not configured, or `restore` says to stop.
    pub fn new(spec: &Spec, restore: &mut dyn Restore) -> Result<Self, Error> {
        Self::with_clock(spec, None, restore)
    }

    /// As [`new`](Engine::new), with a clock that is set by hand; for tests.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new).
    pub fn with_clock(
        spec: &Spec,
        clock: Option<ManualClock>,
        restore: &mut dyn Restore,
    ) -> Result<Self, Error> {
        Self::make(spec, clock, None, restore)
    }

    /// As [`new`](Engine::new), with somebody who is told of every decision.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new).
    pub fn with_witness(
        spec: &Spec,
        witness: Option<Arc<dyn Witness>>,
        restore: &mut dyn Restore,
    ) -> Result<Self, Error> {
        Self::make(spec, None, witness, restore)
    }

    fn make(
        spec: &Spec,
        clock: Option<ManualClock>,
        witness: Option<Arc<dyn Witness>>,
        restore: &mut dyn Restore,
    ) -> Result<Self, Error> {
        let pools = Pools::new(clock);
        let (timer, counts) = (Arc::new(MonotonicClock::new()), HashMap::new());
        let statistics = Arc::new(Statistics::default());
        let witnessed = witness.as_ref();
        let planner = Planner::new(spec, &pools, &counts, &statistics, &timer, witnessed, restore);
        let plan = ArcSwap::from_pointee(planner.plan()?);
        let counts = Mutex::new(counts);
        let engine = Self { plan, pools, counts, statistics, timer, witness };
        engine.remember();
        Ok(engine)
    }

    /// What is in force now.
    pub fn plan(&self) -> Guard<Arc<Plan>> {
        self.plan.load()
    }

    /// Puts another configuration in force. Limits that are in both keep their counts, and those
    /// whose quotas changed keep what can be kept, to the safe side. On an error nothing changes.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new).
    pub fn swap(&self, spec: &Spec) -> Result<(), Error> {
        let counts = self.counts.lock().clone();
        let (pools, witness, mut restore) = (&self.pools, self.witness.as_ref(), Afresh);
        let (statistics, timer) = (&self.statistics, &self.timer);
        let planner = Planner::new(spec, pools, &counts, statistics, timer, witness, &mut restore);
        let plan = planner.plan()?;
        let used: Vec<PoolId> = plan.pools().iter().map(|(id, _)| id.clone()).collect();
        self.plan.store(Arc::new(plan));
        self.pools.keep(&used);
        self.remember();
        Ok(())
    }

    /// What has happened to descriptors, under every configuration so far.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// The Redis servers in use, by the name of their store.
    pub fn redises(&self) -> Vec<(String, Redis)> {
        self.pools.redises()
    }

    fn remember(&self) {
        let mut counts = self.counts.lock();
        let plan = self.plan.load();
        if counts.len() > REMEMBERED {
            counts.clear();
        }
        for limit in plan.limits() {
            counts.insert(limit.name().into(), Arc::clone(&limit.counts));
        }
        for limit in plan.domains().flat_map(|domain| &domain.units().limits) {
            counts.insert(limit.name().into(), Arc::clone(&limit.counts));
        }
    }
}
