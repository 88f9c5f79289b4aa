//! All state there is, by what it belongs to, so that a new plan finds what the old one left.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{
    Algorithm, Error, ErrorKind, FailureMode, Limiter, ManualClock, Policy, Quota, RestoreReport,
};
use slidegate_redis::{Redis, RedisBuilder};

use super::pool::Pool;
use crate::spec::{MEMORY, MemorySpec, RedisPlace, RedisSpec, SharedSpec, Spec};

/// State by what it belongs to.
#[derive(Debug, Default)]
pub(super) struct Pools {
    found: Mutex<HashMap<PoolId, Pool>>,
    stores: Mutex<HashMap<String, (RedisSpec, Redis)>>,
    clock: Option<ManualClock>,
}

/// What state belongs to. Another algorithm or another number of quotas is other state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolId {
    /// The name of the store.
    pub store: String,
    /// The policy, or `envoy.` and the unit.
    pub name: String,
    /// A word for the algorithm.
    pub algorithm: String,
    /// How many it has.
    pub quotas: usize,
}

/// What a pool is made of, if it is not there yet.
#[derive(Debug)]
pub(super) struct PoolSpec<'a> {
    pub(super) name: &'a str,
    pub(super) quotas: &'a [Quota],
    pub(super) algorithm: Algorithm,
    pub(super) store: &'a str,
    pub(super) failure_mode: FailureMode,
    pub(super) secret_keys: bool,
    pub(super) shared: &'a SharedSpec,
    /// Bytes, in memory.
    pub(super) memory: usize,
}

/// Where the state of a pool may be brought back from.
pub trait Restore {
    /// The snapshot of this pool, if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn open(&mut self, pool: &PoolId) -> Result<Option<Box<dyn Read>>, Error>;

    /// It was read, or could not be.
    ///
    /// # Errors
    ///
    /// To stop; otherwise the pool starts empty.
    fn ended(&mut self, pool: &PoolId, read: Result<RestoreReport, Error>) -> Result<(), Error>;
}

/// Nothing to bring back.
#[derive(Debug, Clone, Copy)]
pub struct Afresh;

impl Restore for Afresh {
    fn open(&mut self, _: &PoolId) -> Result<Option<Box<dyn Read>>, Error> {
        Ok(None)
    }

    fn ended(&mut self, _: &PoolId, read: Result<RestoreReport, Error>) -> Result<(), Error> {
        read.map(|_| ())
    }
}

impl PoolSpec<'_> {
    fn id(&self) -> PoolId {
        PoolId {
            store: self.store.to_owned(),
            name: self.name.to_owned(),
            algorithm: algorithm_word(self.algorithm),
            quotas: self.quotas.len(),
        }
    }

    fn policy(&self) -> Result<Policy, Error> {
        Policy::builder(self.name)
            .quotas(self.quotas.iter().copied())
            .algorithm(self.algorithm)
            .failure_mode(self.failure_mode)
            .build()
    }
}

/// A word for an algorithm with its parameter.
pub(super) fn algorithm_word(algorithm: Algorithm) -> String {
    algorithm.to_string().replace(": ", "_")
}

impl Pools {
    pub(super) fn new(clock: Option<ManualClock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// The pool of a policy, made if it is not there.
    pub(super) fn get(
        &self,
        wanted: &PoolSpec<'_>,
        spec: &Spec,
        restore: &mut dyn Restore,
    ) -> Result<(PoolId, Pool), Error> {
        let id = wanted.id();
        if let Some(pool) = self.found.lock().get(&id) {
            return Ok((id, pool.clone()));
        }
        let pool = if wanted.store == MEMORY {
            Pool::Memory(Arc::new(self.in_memory(wanted, &id, spec.memory(), restore)?))
        } else {
            self.in_redis(wanted, spec)?
        };
        self.found.lock().insert(id.clone(), pool.clone());
        Ok((id, pool))
    }

    fn in_memory(
        &self,
        wanted: &PoolSpec<'_>,
        id: &PoolId,
        memory: MemorySpec,
        restore: &mut dyn Restore,
    ) -> Result<Limiter, Error> {
        let make = || -> Result<_, Error> {
            let builder = Limiter::builder(wanted.policy()?)
                .memory_limit(wanted.memory)
                .on_full(memory.on_full);
            Ok(match &self.clock {
                Some(clock) => builder.clock(clock.clone()),
                None => builder,
            })
        };
        if let Some(mut input) = restore.open(id)? {
            match make()?.restore(&mut input) {
                Ok((limiter, report)) => {
                    restore.ended(id, Ok(report))?;
                    return Ok(limiter);
                }
                Err(error) => restore.ended(id, Err(error))?,
            }
        }
        make()?.build()
    }

    fn in_redis(&self, wanted: &PoolSpec<'_>, spec: &Spec) -> Result<Pool, Error> {
        let redis = self.redis(wanted.store, spec)?;
        let SharedSpec { nodes, guard_band, deny_cache, leases } = *wanted.shared;
        let mut builder = redis.limiter(wanted.policy()?).nodes(nodes).deny_cache(deny_cache);
        if let Some(share) = guard_band {
            builder = builder.guard_band(share);
        }
        if let Some(length) = leases {
            builder = builder.leases(length);
        }
        if wanted.secret_keys {
            builder = builder.secret_keys();
        }
        Ok(Pool::Redis(Arc::new(builder.build()?)))
    }

    /// The servers of a store; the same as before while its settings are the same.
    fn redis(&self, name: &str, spec: &Spec) -> Result<Redis, Error> {
        let Some(wanted) = spec.redis(name) else {
            let message = format!("store {name:?} is not configured: add it to `stores`");
            return Err(Error::new(ErrorKind::Setting, message));
        };
        let mut stores = self.stores.lock();
        if let Some((made_with, redis)) = stores.get(name)
            && made_with == wanted
        {
            return Ok(redis.clone());
        }
        let redis = connect(wanted)?;
        stores.insert(name.to_owned(), (wanted.clone(), redis.clone()));
        drop(stores);
        // Limiters of the old servers must not be found again.
        self.found.lock().retain(|id, _| id.store != name);
        Ok(redis)
    }

    /// The servers that are in use, by the name of their store.
    pub(super) fn redises(&self) -> Vec<(String, Redis)> {
        let stores = self.stores.lock();
        stores.iter().map(|(name, (_, redis))| (name.clone(), redis.clone())).collect()
    }

    /// Lets go of all others.
    pub(super) fn keep(&self, used: &[PoolId]) {
        self.found.lock().retain(|id, _| used.contains(id));
    }
}

fn connect(spec: &RedisSpec) -> Result<Redis, Error> {
    let builder = match &spec.place {
        RedisPlace::Single(address) => Redis::single(address)?,
        RedisPlace::Sentinel { addresses, service } => Redis::sentinel(addresses, service)?,
        RedisPlace::Cluster(addresses) => Redis::cluster(addresses)?,
    };
    set_up(builder, spec).build()
}

fn set_up(mut builder: RedisBuilder, spec: &RedisSpec) -> RedisBuilder {
    if let Some(username) = &spec.username {
        builder = builder.username(username);
    }
    if let Some(password) = &spec.password {
        builder = builder.password(password);
    }
    if let Some(database) = spec.database {
        builder = builder.database(database);
    }
    if let Some(prefix) = &spec.prefix {
        builder = builder.prefix(prefix);
    }
    if let Some(secret) = &spec.key_secret {
        builder = builder.key_secret(secret);
    }
    if let Some(deadline) = spec.deadline {
        builder = builder.deadline(deadline);
    }
    if let Some(deadline) = spec.connect_deadline {
        builder = builder.connect_deadline(deadline);
    }
    if let Some(calls) = spec.in_flight_max {
        builder = builder.in_flight_max(calls);
    }
    if let Some(checks) = spec.together_max {
        builder = builder.together_max(checks);
    }
    if let Some(pem) = &spec.tls_authority {
        builder = builder.tls_authority(pem);
    }
    builder
}
