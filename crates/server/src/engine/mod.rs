//! The engine: the current configuration, and all state.
//!
//! A [`Spec`] describes a configuration. The engine keeps the current [`Plan`], and replaces it
//! without losing state or counters.

mod plan;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use slidegate::{Error, ErrorKind, Event, ManualClock, MonotonicClock};
use slidegate_gate::{Ask, Caller, GateDecision, Metrics, Observer, Sleep, WaitOptions, check_all};
use slidegate_redis::Redis;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

pub use self::plan::Plan;
use crate::domain::Statistics;
use crate::gates::{GateFactory, GateSettings, NoRestore, Restore, Stores, throttle_state};
use crate::spec::Spec;

/// The maximum number of requests in a reply about the history of a key.
pub(crate) const HISTORY_MAX: usize = 10_000;

/// Returns the latest [`HISTORY_MAX`] requests of a history.
pub(crate) fn latest(events: &[Event]) -> &[Event] {
    &events[events.len().saturating_sub(HISTORY_MAX)..]
}

/// The time within which a store must report the statistics of its servers.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);

/// The current plan, and all state.
#[derive(Debug)]
pub struct Engine {
    plan: ArcSwap<Plan>,
    stores: Stores,
    settings: GateSettings,
    statistics: Arc<Statistics>,
    /// Held while the plan or the stores that it does not use change.
    turn: Mutex<()>,
    /// Held while the gate of `CL.THROTTLE` is made for a command.
    starting_throttle: AsyncMutex<()>,
    /// Why that gate could not be made.
    throttle_error: Mutex<Option<Error>>,
    /// Bounds the requests that wait for units, over all protocols.
    waiting: WaitOptions,
}

/// A store in Redis.
#[derive(Debug)]
pub struct RedisStore {
    /// The name in the configuration.
    pub name: String,
    /// The servers.
    pub redis: Redis,
    /// The policies whose keys are there, candidates and units of domains included.
    pub policies: Vec<String>,
}

impl Engine {
    /// Creates an engine for a configuration, with the state that `restore` brings back.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is out of range, a store is not configured, or `restore` fails.
    pub fn new(spec: &Spec, restore: &mut dyn Restore) -> Result<Self, Error> {
        Self::create(spec, None, None, restore)
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
        Self::create(spec, clock, None, restore)
    }

    /// As [`new`](Engine::new), with an observer of every decision.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new).
    pub fn with_observer(
        spec: &Spec,
        observer: Option<Arc<dyn Observer>>,
        restore: &mut dyn Restore,
    ) -> Result<Self, Error> {
        Self::create(spec, None, observer, restore)
    }

    fn create(
        spec: &Spec,
        clock: Option<ManualClock>,
        observer: Option<Arc<dyn Observer>>,
        restore: &mut dyn Restore,
    ) -> Result<Self, Error> {
        let stores = Stores::new(clock);
        let clock = Arc::new(MonotonicClock::new());
        let throttle = AtomicBool::new(restore.open(&throttle_state())?.is_some());
        let settings = GateSettings {
            metrics: Arc::default(),
            observer,
            watcher: Mutex::default(),
            clock,
            throttle,
        };
        let statistics = Arc::default();
        let factory = GateFactory::new(spec, &stores, &settings, restore)?;
        let plan = Plan::new(spec, factory, &statistics)?;
        plan.share_memory(0)?;
        Ok(Self {
            plan: ArcSwap::from_pointee(plan),
            stores,
            settings,
            statistics,
            turn: Mutex::default(),
            starting_throttle: AsyncMutex::default(),
            throttle_error: Mutex::default(),
            waiting: WaitOptions::new(Duration::ZERO, Sleep::tokio()),
        })
    }

    /// Lets at most `waiters` requests wait for units at a time; 1024 by default.
    #[must_use]
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiting = self.waiting.waiters_max(waiters);
        self
    }

    /// Returns how a request waits for units for at most `time`.
    pub fn waiting(&self, time: Duration) -> WaitOptions {
        self.waiting.within(time)
    }

    /// Checks, and waits for units.
    pub async fn check_or_wait(
        &self,
        ask: Ask<'_>,
        waiting: &WaitOptions,
        caller: Caller<'_>,
    ) -> GateDecision {
        let all = check_all(&[ask], Some(waiting), caller).await;
        match all.ok().and_then(|mut all| all.pop()) {
            Some(decided) => decided,
            // The tier belongs to another gate, which therefore denies.
            None => ask.gate.check(ask.key, ask.tier, ask.cost, caller).await,
        }
    }

    /// Returns the current plan.
    pub fn plan(&self) -> Guard<Arc<Plan>> {
        self.plan.load()
    }

    /// Activates another configuration. Gates that are in both keep their state. Those whose quotas
    /// changed keep as much of it as possible, rounded up. The state in memory of
    /// gates that are gone is kept for their longest window. If there is an error, nothing changes.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new).
    pub fn swap(&self, spec: &Spec) -> Result<(), Error> {
        let _turn = self.turn.lock();
        self.replace(spec)
    }

    /// Reports every decision to `watcher` from now on, or to none.
    ///
    /// The gates are rebuilt, so that requests have no cost while there is no watcher.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new). The watcher stays as it was.
    pub fn set_watcher(&self, watcher: Option<Arc<dyn Observer>>) -> Result<(), Error> {
        let _turn = self.turn.lock();
        let before = core::mem::replace(&mut *self.settings.watcher.lock(), watcher);
        let replaced = self.replace(self.plan().spec());
        if replaced.is_err() {
            *self.settings.watcher.lock() = before;
        }
        replaced
    }

    /// Creates the gate of `CL.THROTTLE` if it does not exist yet. It takes a share of the memory, so it
    /// is created when it is used for the first time. After a failure, it is tried again when the plan
    /// changes and after a sweep.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory is too small for one more table.
    pub async fn start_throttle(self: &Arc<Self>) -> Result<(), Error> {
        // A plan takes a while. One task makes it in a thread, and the others wait without a thread.
        let _starting = self.starting_throttle.lock().await;
        if let Some(error) = self.throttle_error.lock().clone() {
            return Err(error);
        }
        let engine = Arc::clone(self);
        let started = tokio::task::spawn_blocking(move || engine.make_throttle()).await;
        started.unwrap_or_else(|error| Err(Error::new(ErrorKind::Store, error.to_string())))
    }

    fn make_throttle(&self) -> Result<(), Error> {
        let _turn = self.turn.lock();
        if self.plan().throttle().is_some() {
            return Ok(());
        }
        self.settings.throttle.store(true, Ordering::Relaxed);
        let started = self.replace(self.plan().spec());
        if let Err(error) = &started {
            self.settings.throttle.store(false, Ordering::Relaxed);
            *self.throttle_error.lock() = Some(error.clone());
        }
        started
    }

    fn replace(&self, spec: &Spec) -> Result<(), Error> {
        let mut restore = NoRestore;
        let factory = GateFactory::new(spec, &self.stores, &self.settings, &mut restore)?;
        let plan = Arc::new(Plan::new(spec, factory, &self.statistics)?);
        plan.share_memory(0)?;
        self.plan.store(Arc::clone(&plan));
        self.keep_unused(&plan);
        Ok(())
    }

    /// Drops the state of gates that were removed longer ago than their longest window.
    pub fn drop_expired(&self) {
        let _turn = self.turn.lock();
        self.keep_unused(&self.plan());
    }

    /// Keeps the state of removed gates, in at most half of the memory, and without taking the minimum
    /// sizes of current stores. The current stores share the rest.
    fn keep_unused(&self, plan: &Plan) {
        *self.throttle_error.lock() = None;
        let unused_max = plan.spare_memory().min(plan.spec().memory().limit / 2);
        let unused = self.stores.retain(plan.stores(), unused_max);
        self.stores.retain_servers(plan.spec());
        // The minimum sizes fit into the rest, so this does not fail.
        let _ = plan.share_memory(unused);
    }

    /// Returns the Redis stores of the current plan, each with the names of all policies in it.
    pub fn redis_stores(&self) -> Vec<RedisStore> {
        let plan = Guard::into_inner(self.plan());
        let policies = |name: &str| {
            let stores = plan.stores().iter().filter(|(id, _)| id.store == name);
            stores.map(|(id, _)| id.name.clone()).collect::<Vec<_>>()
        };
        let stores = self.stores.redis_servers(plan.spec()).into_iter();
        let stores = stores.map(|(name, redis)| {
            let policies = policies(&name);
            RedisStore { name, redis, policies }
        });
        stores.filter(|store| !store.policies.is_empty()).collect()
    }

    /// Returns the metrics of all gates and stores.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.settings.metrics
    }

    /// Refreshes the statistics that stores report about their servers. A store that does not reply in
    /// time keeps its previous ones.
    pub async fn refresh_stats(&self) {
        let plan = Guard::into_inner(self.plan());
        for (_, store) in plan.distinct_stores() {
            // Errors are in the metrics of the store.
            let _ = timeout(REFRESH_TIMEOUT, store.refresh_stats()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use slidegate::Quota;

    use super::*;
    use crate::spec::{MemorySpec, PolicySpec, StoreSpec};

    /// The result of the first poll of `start_throttle`.
    fn starts(engine: &Arc<Engine>) -> Poll<Result<(), Error>> {
        pin!(engine.start_throttle()).poll(&mut Context::from_waker(Waker::noop()))
    }

    // 64 tables fit into 1 MiB.
    fn engine(policies: usize) -> Arc<Engine> {
        let policy = |number| PolicySpec::new(&format!("p{number}"), vec![Quota::per_minute(1)]);
        let memory = MemorySpec { limit: 1 << 20, ..MemorySpec::default() };
        let spec = Spec {
            stores: vec![StoreSpec::Memory(memory)],
            policies: (0..policies).map(policy).collect(),
            ..Spec::default()
        };
        Arc::new(Engine::new(&spec, &mut NoRestore).unwrap())
    }

    #[tokio::test]
    async fn throttle_is_made_without_blocking_the_task() {
        let engine = engine(1);
        let turn = engine.turn.lock();
        assert!(starts(&engine).is_pending());
        drop(turn);
        engine.start_throttle().await.unwrap();
        assert!(engine.plan().throttle().is_some());
    }

    #[tokio::test]
    async fn throttle_that_does_not_fit_is_tried_again_after_a_sweep() {
        let engine = engine(64);
        let error = engine.start_throttle().await.unwrap_err();
        assert!(error.to_string().contains("memory.limit_mb"), "{error}");
        let turn = engine.turn.lock();
        assert_eq!(starts(&engine), Poll::Ready(Err(error)));
        drop(turn);
        engine.drop_expired();
        let turn = engine.turn.lock();
        assert!(starts(&engine).is_pending());
        drop(turn);
    }
}
