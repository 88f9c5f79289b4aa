//! The stores of all gates, by the id of their state, so that a reload finds the state again.

use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{
    Algorithm, Clock, Error, ErrorKind, FailureMode, Limiter, LimiterBuilder, ManualClock,
    MonotonicClock, Policy, RestoreReport, Store,
};
use slidegate_redis::Redis;
use tracing::warn;

use crate::spec::{PolicySpec, RedisPlace, RedisSpec, SharedSpec, Spec, StoreSpec};

/// The stores of all gates.
#[derive(Debug)]
pub struct Stores {
    found: Mutex<HashMap<StateId, Vec<Found>>>,
    servers: Mutex<Vec<Servers>>,
    manual: Option<ManualClock>,
    clock: Arc<dyn Clock>,
}

/// A store, and how long its state counts.
#[derive(Debug)]
struct Found {
    store: Arc<dyn Store>,
    /// The settings of a shared store. State in memory depends on none of them.
    shared: Option<SharedSettings>,
    /// The longest window of the policy.
    window: Duration,
    /// For a store in memory that no gate uses any more: when its last window ends, in nanoseconds.
    expires: Option<u64>,
}

/// The servers of a store in Redis.
#[derive(Debug)]
struct Servers {
    /// The name in the configuration.
    name: String,
    made_with: Arc<RedisSpec>,
    redis: Redis,
}

impl Servers {
    /// Returns `true` if `spec` has this store with the same settings.
    fn is_in(&self, spec: &Spec) -> bool {
        matches!(spec.store(&self.name), Some(StoreSpec::Redis(_, wanted)) if *wanted == *self.made_with)
    }
}

/// The settings that a shared store is made with. Other settings need another store for the same
/// state.
#[derive(Debug, Clone, PartialEq)]
struct SharedSettings {
    servers: Arc<RedisSpec>,
    failure_mode: FailureMode,
    shared: SharedSpec,
    secret_keys: bool,
}

/// Identifies a state. Another algorithm or another number of quotas is another state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateId {
    /// The name of the store in the configuration.
    pub store: String,
    /// The policy, or `envoy.` and the unit.
    pub name: String,
    /// The algorithm with its parameter, usable in a file name.
    pub algorithm: String,
    /// The number of quotas.
    pub quotas: usize,
}

/// Stores, with the ids of their states.
pub type StoreList = Vec<(StateId, Arc<dyn Store>)>;

/// Where the state of a store may be restored from.
pub trait Restore {
    /// Returns the snapshot of this state, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read.
    fn open(&mut self, state: &StateId) -> Result<Option<Box<dyn Read>>, Error>;

    /// Called after a snapshot was restored, or could not be.
    ///
    /// # Errors
    ///
    /// Returns an error to stop; otherwise the state starts empty.
    fn ended(&mut self, state: &StateId, read: Result<RestoreReport, Error>) -> Result<(), Error>;
}

/// Restores nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoRestore;

impl Restore for NoRestore {
    fn open(&mut self, _: &StateId) -> Result<Option<Box<dyn Read>>, Error> {
        Ok(None)
    }

    fn ended(&mut self, _: &StateId, read: Result<RestoreReport, Error>) -> Result<(), Error> {
        read.map(|_| ())
    }
}

impl From<&PolicySpec> for StateId {
    fn from(policy: &PolicySpec) -> Self {
        Self {
            store: policy.store.clone(),
            name: policy.name.clone(),
            algorithm: algorithm_name(policy.algorithm),
            quotas: policy.quotas.len(),
        }
    }
}

/// The policy that a store decides by. The gate applies its mode.
fn policy(spec: &PolicySpec) -> Result<Policy, Error> {
    Policy::builder(&spec.name)
        .quotas(spec.quotas.iter().copied())
        .algorithm(spec.algorithm)
        .failure_mode(spec.failure_mode)
        .build()
}

/// The algorithm with its parameter, usable in names of files and Redis keys.
pub(super) fn algorithm_name(algorithm: Algorithm) -> String {
    algorithm.to_string().replace(": ", "_")
}

impl Stores {
    /// Creates an empty set. With `manual`, stores in memory read that clock.
    pub fn new(manual: Option<ManualClock>) -> Self {
        let clock: Arc<dyn Clock> = match &manual {
            Some(manual) => Arc::new(manual.clone()),
            None => Arc::new(MonotonicClock::new()),
        };
        Self { found: Mutex::default(), servers: Mutex::default(), manual, clock }
    }

    /// Returns the store of a policy, created if it does not exist yet. One in memory may take
    /// `memory_limit` bytes.
    pub(super) fn get(
        &self,
        wanted: &PolicySpec,
        memory_limit: usize,
        spec: &Spec,
        restore: &mut dyn Restore,
    ) -> Result<(StateId, Arc<dyn Store>), Error> {
        let id = StateId::from(wanted);
        let store_spec = spec.store(&wanted.store);
        let window = longest_window(wanted);
        let (store, shared): (Arc<dyn Store>, _) = match store_spec {
            Some(StoreSpec::Memory(memory)) => {
                if let Some(store) = self.find(&id, None, window) {
                    return Ok((id, store));
                }
                let builder = || -> Result<_, Error> {
                    let builder = Limiter::builder(policy(wanted)?).memory_limit(memory_limit);
                    Ok(self.with_clock(builder.on_full(memory.on_full)))
                };
                (Arc::new(in_memory(builder, &id, restore)?), None)
            }
            Some(StoreSpec::Redis(name, redis)) => {
                let (servers, redis) = self.redis(&name, *redis)?;
                let shared = Some(SharedSettings {
                    servers,
                    failure_mode: wanted.failure_mode,
                    shared: wanted.shared.clone(),
                    secret_keys: wanted.secret_keys,
                });
                if let Some(store) = self.find(&id, shared.as_ref(), window) {
                    return Ok((id, store));
                }
                (in_redis(wanted, &redis)?, shared)
            }
            None => {
                let name = &wanted.store;
                let message = format!("store {name:?} is not configured: add it to `stores`");
                return Err(Error::new(ErrorKind::Setting, message));
            }
        };
        let found = Found { store: Arc::clone(&store), shared, window, expires: None };
        self.found.lock().entry(id.clone()).or_default().push(found);
        Ok((id, store))
    }

    /// Returns the store of this state that was made with these settings.
    fn find(
        &self,
        id: &StateId,
        shared: Option<&SharedSettings>,
        window: Duration,
    ) -> Option<Arc<dyn Store>> {
        let mut found = self.found.lock();
        let found = found.get_mut(id)?.iter_mut().find(|found| found.shared.as_ref() == shared)?;
        found.window = window;
        Some(Arc::clone(&found.store))
    }

    fn with_clock(&self, builder: LimiterBuilder) -> LimiterBuilder {
        match &self.manual {
            Some(clock) => builder.clock(clock.clone()),
            None => builder,
        }
    }

    /// Returns the servers of a store, and the settings that they were made with; the same as before
    /// while these are the same. Other servers of that name stay until
    /// [`retain_servers`](Self::retain_servers), for the plan that uses them.
    fn redis(&self, name: &str, wanted: RedisSpec) -> Result<(Arc<RedisSpec>, Redis), Error> {
        let mut servers = self.servers.lock();
        let known = servers.iter().find(|it| it.name == name && *it.made_with == wanted);
        if let Some(known) = known {
            return Ok((Arc::clone(&known.made_with), known.redis.clone()));
        }
        let redis = connect(name, &wanted)?;
        let made_with = Arc::new(wanted);
        let new = (Arc::clone(&made_with), redis.clone());
        servers.push(Servers { name: name.to_owned(), made_with, redis });
        Ok(new)
    }

    /// Returns the servers of all stores of `spec` in Redis, by name.
    pub fn redis_servers(&self, spec: &Spec) -> Vec<(String, Redis)> {
        let servers = self.servers.lock();
        let servers = servers.iter().filter(|servers| servers.is_in(spec));
        let mut servers: Vec<_> =
            servers.map(|servers| (servers.name.clone(), servers.redis.clone())).collect();
        servers.sort_by(|(one, _), (other, _)| one.cmp(other));
        servers
    }

    /// Closes the connections to servers that `spec` does not use.
    pub fn retain_servers(&self, spec: &Spec) {
        self.servers.lock().retain(|servers| servers.is_in(spec));
    }

    /// Keeps the stores in `used`, and of the others those in memory whose counts still matter, so
    /// that a policy that comes back continues with them. Their memory is bounded by `unused_max`:
    /// above it, those that expire first are dropped. Returns how many bytes they take.
    pub fn retain(&self, used: &[(StateId, Arc<dyn Store>)], unused_max: usize) -> usize {
        let now = self.clock.now();
        let used: HashSet<usize> = used.iter().map(|(_, store)| address(store)).collect();
        let mut unused: Vec<(u64, StateId, usize)> = Vec::new();
        let mut all = self.found.lock();
        for (id, several) in &mut *all {
            several.retain_mut(|found| {
                if used.contains(&address(&found.store)) {
                    found.expires = None;
                    return true;
                }
                let Some(stats) = found.store.in_process().map(Limiter::stats) else {
                    return false;
                };
                let window = u64::try_from(found.window.as_nanos()).unwrap_or(u64::MAX);
                let expires = *found.expires.get_or_insert(now.saturating_add(window));
                let matters = expires > now && (stats.keys > 0 || stats.overflowed > 0);
                if matters {
                    // The sketches of a table that was full are not among its bytes.
                    let is_full = stats.overflowed > 0;
                    let sketches = stats.memory_limit.saturating_sub(stats.table_limit);
                    let bytes = stats.bytes + if is_full { sketches } else { 0 };
                    unused.push((expires, id.clone(), bytes));
                }
                matters
            });
        }
        let mut bytes = unused.iter().map(|(.., bytes)| bytes).sum();
        unused.sort_by_key(|(expires, ..)| *expires);
        for (_, id, its_bytes) in unused {
            if bytes <= unused_max {
                break;
            }
            let name = &id.name;
            warn!(
                "the counts of policy {name:?}, which is no longer configured, are dropped: such \
                 counts may take {unused_max} bytes. If it comes back, it starts empty"
            );
            all.remove(&id);
            bytes -= its_bytes;
        }
        all.retain(|_, several| !several.is_empty());
        bytes
    }
}

/// Returns the address of a store, which distinguishes it from others while both exist.
pub(super) fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>().addr()
}

/// Returns the longest window of a policy and its tiers.
fn longest_window(policy: &PolicySpec) -> Duration {
    let quotas = policy.quotas.iter().chain(policy.tiers.values().flatten());
    quotas.map(slidegate::Quota::window).max().unwrap_or_default()
}

/// Makes a limiter, with its state from a snapshot if there is one.
fn in_memory(
    builder: impl Fn() -> Result<LimiterBuilder, Error>,
    id: &StateId,
    restore: &mut dyn Restore,
) -> Result<Limiter, Error> {
    if let Some(mut input) = restore.open(id)? {
        match builder()?.restore(&mut input) {
            Ok((limiter, report)) => {
                restore.ended(id, Ok(report))?;
                return Ok(limiter);
            }
            Err(error) => restore.ended(id, Err(error))?,
        }
    }
    builder()?.build()
}

/// Makes the limiter of a policy on these servers.
fn in_redis(wanted: &PolicySpec, redis: &Redis) -> Result<Arc<dyn Store>, Error> {
    let SharedSpec { nodes, guard_band, deny_cache, leases } = wanted.shared;
    let mut builder = redis.limiter(policy(wanted)?).nodes(nodes).deny_cache(deny_cache);
    if let Some(share) = guard_band {
        builder = builder.guard_band(share);
    }
    if let Some(length) = leases {
        builder = builder.leases(length);
    }
    if wanted.secret_keys {
        builder = builder.secret_keys();
    }
    Ok(Arc::new(builder.build()?))
}

fn connect(name: &str, spec: &RedisSpec) -> Result<Redis, Error> {
    let builder = match &spec.place {
        RedisPlace::Single(address) => Redis::single(address)?,
        RedisPlace::Sentinel { addresses, service } => Redis::sentinel(addresses, service)?,
        RedisPlace::Cluster(addresses) => Redis::cluster(addresses)?,
    };
    let mut builder = builder
        .prefix(&spec.prefix)
        .deadline(spec.deadline)
        .connect_deadline(spec.connect_deadline)
        .in_flight_max(spec.in_flight_max)
        .checks_per_call_max(spec.checks_per_call_max);
    let name = name.to_owned();
    builder = builder.on_state_change(move |change| warn!("store {name}: {change}"));
    if let Some(username) = &spec.username {
        builder = builder.username(username);
    }
    if let Some(password) = &spec.password {
        builder = builder.password(password);
    }
    if let Some(database) = spec.database {
        builder = builder.database(database);
    }
    if let Some(secret) = &spec.key_secret {
        builder = builder.key_secret(secret);
    }
    if let Some(pem) = &spec.tls_authority {
        builder = builder.tls_authority(pem);
    }
    builder.build()
}
