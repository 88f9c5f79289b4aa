//! What is in force now: every limit by its name, and what leads to it.

use std::collections::HashMap;
use std::sync::Arc;

use slidegate::{Algorithm, Error, ErrorKind, FailureMode, MonotonicClock, Quota};
use slidegate_tower::Share;

use super::counts::Counts;
use super::limit::{Candidate, Limit, Named};
use super::pool::{Pool, PoolTier};
use super::pools::{PoolId, PoolSpec, Pools, Restore, algorithm_word};
use super::units::Units;
use super::witness::Witness;
use crate::domain::{Domain, Statistics};
use crate::spec::{MEMORY, PolicySpec, RateSpec, RuleSpec, SharedSpec, Spec, Switch, Unit};

/// A configuration at work. Never changes: a reload makes another one.
#[derive(Debug)]
pub struct Plan {
    spec: Spec,
    /// Policies by name, in the order of their names: there are few, and comparing beats hashing.
    limits: Box<[Arc<Limit>]>,
    /// Of the domains' limits too.
    all: Vec<Arc<Limit>>,
    domains: HashMap<Box<str>, Arc<Domain>>,
    statistics: Arc<Statistics>,
    throttle: Arc<Limit>,
    pub(super) pools: Vec<(PoolId, Pool)>,
}

/// What `CL.THROTTLE` counts under.
pub(crate) const THROTTLE: &str = "cl.throttle";

impl Plan {
    /// The policy of this name.
    #[inline]
    pub fn limit(&self, policy: &str) -> Option<&Arc<Limit>> {
        let place = self.limits.binary_search_by(|limit| limit.name().cmp(policy)).ok()?;
        self.limits.get(place)
    }

    /// Every limit there is, in the order of the configuration.
    pub fn limits(&self) -> &[Arc<Limit>] {
        &self.all
    }

    /// The domain of this name.
    pub fn domain(&self, name: &str) -> Option<&Arc<Domain>> {
        self.domains.get(name)
    }

    /// Every domain, in the order of the configuration.
    pub fn domains(&self) -> impl Iterator<Item = &Arc<Domain>> {
        self.spec.domains.iter().filter_map(|spec| self.domain(&spec.name))
    }

    /// What has happened to descriptors.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Gives all state in memory the same share of the budget, and what an older plan made another
    /// one than it had; and treats who finds no room as the file says now.
    pub(super) fn share_memory(&self) {
        let in_memory = |(_, pool): &'_ (PoolId, Pool)| match pool {
            Pool::Memory(limiter) => Some(Arc::clone(limiter)),
            Pool::Redis(_) => None,
        };
        let pools: Vec<_> = self.pools.iter().filter_map(in_memory).collect();
        for limiter in &pools {
            limiter.set_memory_limit(self.spec.memory().limit / pools.len());
            limiter.set_on_full(self.spec.memory().on_full);
        }
    }

    /// What `CL.THROTTLE` asks, with quotas that every call names.
    pub fn throttle(&self) -> &Arc<Limit> {
        &self.throttle
    }

    /// What it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Rules of forward auth.
    pub fn rules(&self) -> &[RuleSpec] {
        &self.spec.rules
    }

    /// All state.
    pub fn pools(&self) -> &[(PoolId, Pool)] {
        &self.pools
    }
}

/// Builds plans; a new one takes over counts and state from the one before.
pub struct Planner<'a> {
    spec: &'a Spec,
    pools: &'a Pools,
    counts: &'a HashMap<Box<str>, Arc<Counts>>,
    statistics: &'a Arc<Statistics>,
    timer: &'a Arc<MonotonicClock>,
    witness: Option<&'a Arc<dyn Witness>>,
    restore: &'a mut dyn Restore,
    memory: usize,
    used: Vec<(PoolId, Pool)>,
    all: Vec<Arc<Limit>>,
}

impl core::fmt::Debug for Planner<'_> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Planner").field("used", &self.used).finish_non_exhaustive()
    }
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        spec: &'a Spec,
        pools: &'a Pools,
        counts: &'a HashMap<Box<str>, Arc<Counts>>,
        statistics: &'a Arc<Statistics>,
        timer: &'a Arc<MonotonicClock>,
        witness: Option<&'a Arc<dyn Witness>>,
        restore: &'a mut dyn Restore,
    ) -> Self {
        let memory = spec.memory().limit / pools_in_memory(spec);
        let (used, all) = (Vec::new(), Vec::new());
        Self { spec, pools, counts, statistics, timer, witness, restore, memory, used, all }
    }

    pub(super) fn plan(mut self) -> Result<Plan, Error> {
        let mut limits = Vec::with_capacity(self.spec.policies.len());
        for policy in &self.spec.policies {
            let limit = Arc::new(self.limit_of(policy)?);
            self.all.push(Arc::clone(&limit));
            limits.push(limit);
        }
        limits.sort_by(|one, other| one.name().cmp(other.name()));
        let throttle = Arc::new(self.limit_of(&PolicySpec {
            algorithm: Algorithm::Gcra,
            ..PolicySpec::new(THROTTLE, vec![Quota::per_minute(1)?])
        })?);
        self.all.push(Arc::clone(&throttle));
        let domains = self.domains()?;
        Ok(Plan {
            spec: self.spec.clone(),
            limits: limits.into(),
            all: self.all,
            domains,
            statistics: Arc::clone(self.statistics),
            throttle,
            pools: self.used,
        })
    }

    fn domains(&mut self) -> Result<HashMap<Box<str>, Arc<Domain>>, Error> {
        let mut domains = HashMap::new();
        for domain in &self.spec.domains {
            let made = Arc::new(Domain::new(domain, self)?);
            if domains.insert(domain.name.as_str().into(), made).is_some() {
                let message = format!("domain {:?} is there twice: join its files", domain.name);
                return Err(Error::new(ErrorKind::Setting, message));
            }
        }
        Ok(domains)
    }

    /// Where what happens to descriptors is counted.
    pub fn statistics(&self) -> &Statistics {
        self.statistics
    }

    fn limit_of(&mut self, policy: &PolicySpec) -> Result<Limit, Error> {
        let wanted = PoolSpec {
            name: &policy.name,
            quotas: &policy.quotas,
            algorithm: policy.algorithm,
            store: &policy.store,
            failure_mode: policy.failure_mode,
            secret_keys: policy.secret_keys,
            shared: &policy.shared,
            memory: self.memory,
        };
        let pool = self.pool(&wanted)?;
        let mut tiers = Vec::with_capacity(policy.tiers.len());
        for (name, quotas) in &policy.tiers {
            let tier = pool.tier(quotas)?;
            tiers.push(Named { name: name.clone(), quotas: quotas.as_slice().into(), tier });
        }
        let candidate = match &policy.candidate {
            Some(candidate) => {
                let name = format!("{}:candidate", policy.name);
                let wanted = PoolSpec {
                    name: &name,
                    quotas: &candidate.quotas,
                    algorithm: candidate.algorithm,
                    ..wanted
                };
                let pool = self.pool(&wanted)?;
                let own = own(&pool, &candidate.quotas)?;
                Some(Box::new(Candidate { pool, own }))
            }
            None => None,
        };
        let share = Share::new(policy.enforce_percent).ok_or_else(|| {
            let message =
                format!("{} percent is out of range: use 0 to 100", policy.enforce_percent);
            Error::new(ErrorKind::Setting, message)
        })?;
        Ok(Limit {
            name: policy.name.as_str().into(),
            quotas: policy.quotas.as_slice().into(),
            own: own(&pool, &policy.quotas)?,
            pool,
            tiers,
            switch: policy.switch,
            share,
            candidate,
            secret_keys: policy.secret_keys,
            counts: self.counts_of(&policy.name),
            timer: Arc::clone(self.timer),
            witness: self.witness.cloned(),
        })
    }

    /// A limit of a domain. All limits of one unit share their state, told apart by their keys.
    ///
    /// # Errors
    ///
    /// When the rate is zero, or the store is not configured.
    pub fn descriptor_limit(
        &mut self,
        store: &str,
        name: &str,
        rate: &RateSpec,
        switch: Switch,
    ) -> Result<Arc<Limit>, Error> {
        let limit = Arc::new(self.descriptor(store, name, rate, switch)?);
        self.all.push(Arc::clone(&limit));
        Ok(limit)
    }

    fn descriptor(
        &mut self,
        store: &str,
        name: &str,
        rate: &RateSpec,
        switch: Switch,
    ) -> Result<Limit, Error> {
        let quotas = [Quota::new(u64::from(rate.requests), rate.unit.window())?];
        let pool = self.unit_pool(store, rate.unit, rate.algorithm)?;
        Ok(Limit {
            name: name.into(),
            own: Some(pool.tier(&quotas)?),
            quotas: quotas.into(),
            pool,
            tiers: Vec::new(),
            switch,
            share: Share::ALL,
            candidate: None,
            secret_keys: false,
            counts: self.counts_of(name),
            timer: Arc::clone(self.timer),
            witness: self.witness.cloned(),
        })
    }

    /// The state of every unit, for limits that requests bring along.
    ///
    /// # Errors
    ///
    /// When the store is not configured.
    pub fn units(&mut self, store: &str, name: &str, algorithm: Algorithm) -> Result<Units, Error> {
        let counts = self.counts_of(name);
        let mut limits = Vec::with_capacity(Unit::ALL.len());
        for unit in Unit::ALL {
            let rate = RateSpec { requests: 1, unit, algorithm };
            let limit = self.descriptor(store, name, &rate, Switch::Enforce)?;
            limits.push(Limit { counts: Arc::clone(&counts), ..limit });
        }
        Ok(Units { limits })
    }

    fn unit_pool(&mut self, store: &str, unit: Unit, algorithm: Algorithm) -> Result<Pool, Error> {
        let quotas = [Quota::new(1, unit.window())?];
        // Keys in Redis are named by the policy alone, and no algorithm reads what another wrote.
        let name = match algorithm {
            Algorithm::Log => format!("envoy.{}", unit.name()),
            other => format!("envoy.{}.{}", unit.name(), algorithm_word(other)),
        };
        self.pool(&PoolSpec {
            name: &name,
            quotas: &quotas,
            algorithm,
            store,
            failure_mode: FailureMode::Allow,
            secret_keys: false,
            shared: &SharedSpec::default(),
            memory: self.memory,
        })
    }

    fn pool(&mut self, wanted: &PoolSpec<'_>) -> Result<Pool, Error> {
        let (id, pool) = self.pools.get(wanted, self.spec, self.restore)?;
        if !self.used.iter().any(|(used, _)| *used == id) {
            self.used.push((id, pool.clone()));
        }
        Ok(pool)
    }

    fn counts_of(&self, name: &str) -> Arc<Counts> {
        self.counts.get(name).cloned().unwrap_or_default()
    }
}

/// The quotas as a tier, unless the pool has them anyway.
fn own(pool: &Pool, quotas: &[Quota]) -> Result<Option<PoolTier>, Error> {
    if pool.quotas() == quotas { Ok(None) } else { pool.tier(quotas).map(Some) }
}

/// How many share the memory there is: policies, candidates, the units of domains, `CL.THROTTLE`.
fn pools_in_memory(spec: &Spec) -> usize {
    let policies = spec.policies.iter().filter(|policy| policy.store == MEMORY);
    let own: usize = policies.map(|policy| 1 + usize::from(policy.candidate.is_some())).sum();
    let mut algorithms: Vec<Algorithm> = Vec::new();
    for domain in spec.domains.iter().filter(|domain| domain.store == MEMORY) {
        for algorithm in domain.algorithms() {
            if !algorithms.contains(&algorithm) {
                algorithms.push(algorithm);
            }
        }
    }
    1 + own + algorithms.len() * Unit::ALL.len()
}
