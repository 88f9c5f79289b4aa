//! The stores of all gates, by what they belong to, so that a reload finds the state again.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{
    Algorithm, Error, ErrorKind, Limiter, LimiterBuilder, ManualClock, Policy, RestoreReport, Store,
};
use slidegate_redis::Redis;

use crate::spec::{PolicySpec, RedisPlace, RedisSpec, SharedSpec, Spec, StoreSpec};

/// The stores of all gates.
#[derive(Debug, Default)]
pub struct Stores {
    found: Mutex<HashMap<StateId, Arc<dyn Store>>>,
    servers: Mutex<HashMap<String, (RedisSpec, Redis)>>,
    clock: Option<ManualClock>,
}

/// What state belongs to. Another algorithm or another number of quotas is other state.
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

/// Stores, with what their state belongs to.
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

/// The policy that a store decides by. Its mode is the gate's business.
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
    /// Creates an empty set. With `clock`, stores in memory read that clock.
    pub fn new(clock: Option<ManualClock>) -> Self {
        Self { clock, ..Self::default() }
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
        if let Some(store) = self.found.lock().get(&id) {
            return Ok((id, Arc::clone(store)));
        }
        let store: Arc<dyn Store> = match spec.store(&wanted.store) {
            Some(StoreSpec::Memory(memory)) => {
                let builder = || -> Result<_, Error> {
                    let builder = Limiter::builder(policy(wanted)?).memory_limit(memory_limit);
                    Ok(self.with_clock(builder.on_full(memory.on_full)))
                };
                Arc::new(in_memory(builder, &id, restore)?)
            }
            Some(StoreSpec::Redis(name, redis)) => self.in_redis(wanted, &name, &redis)?,
            None => {
                let name = &wanted.store;
                let message = format!("store {name:?} is not configured: add it to `stores`");
                return Err(Error::new(ErrorKind::Setting, message));
            }
        };
        self.found.lock().insert(id.clone(), Arc::clone(&store));
        Ok((id, store))
    }

    fn with_clock(&self, builder: LimiterBuilder) -> LimiterBuilder {
        match &self.clock {
            Some(clock) => builder.clock(clock.clone()),
            None => builder,
        }
    }

    fn in_redis(
        &self,
        wanted: &PolicySpec,
        name: &str,
        spec: &RedisSpec,
    ) -> Result<Arc<dyn Store>, Error> {
        let redis = self.redis(name, spec)?;
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

    /// Returns the servers of a store; the same as before while its settings are the same.
    fn redis(&self, name: &str, wanted: &RedisSpec) -> Result<Redis, Error> {
        let mut servers = self.servers.lock();
        if let Some((made_with, redis)) = servers.get(name)
            && made_with == wanted
        {
            return Ok(redis.clone());
        }
        let redis = connect(wanted)?;
        servers.insert(name.to_owned(), (wanted.clone(), redis.clone()));
        drop(servers);
        // Limiters on the old servers must not be found again.
        self.found.lock().retain(|id, _| id.store != name);
        Ok(redis)
    }

    /// Drops all stores that are not in `used`.
    pub fn retain(&self, used: &[(StateId, Arc<dyn Store>)]) {
        self.found.lock().retain(|id, _| used.iter().any(|(used, _)| used == id));
    }
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

fn connect(spec: &RedisSpec) -> Result<Redis, Error> {
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
        .together_max(spec.together_max);
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
