//! Makes gates from the configuration.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Algorithm, Clock, Error, Quota, Store};
use slidegate_gate::{Gate, GateBuilder, Metrics, Observer, Rollout};

use super::memory_share::share_of_new;
use super::stores::{Restore, StateId, StoreList, Stores, address, algorithm_name};
use crate::spec::{
    CANDIDATE_SUFFIX, EnvoyFailureMode, PolicySpec, RateSpec, Spec, THROTTLE, UNITS_PREFIX, Unit,
};

/// Makes gates from the configuration. Gates of a new configuration continue the state and the
/// counters of the one before.
pub struct GateFactory<'a> {
    spec: &'a Spec,
    stores: &'a Stores,
    shared: &'a GateSettings,
    restore: &'a mut dyn Restore,
    /// The memory limit of each store in memory, in bytes.
    memory_limit: usize,
    used: StoreList,
    /// The addresses of `used`.
    known: HashSet<usize>,
    all: Vec<Arc<Gate>>,
}

/// The store of a limit in a domain.
#[derive(Debug, Clone, Copy)]
pub struct DomainStore<'a> {
    /// Its name in the configuration.
    pub name: &'a str,
    /// The result when it fails.
    pub failure_mode: EnvoyFailureMode,
}

/// The settings that all gates share.
#[derive(Debug)]
pub struct GateSettings {
    /// Counts decisions.
    pub metrics: Arc<Metrics>,
    /// Gets every decision.
    pub observer: Option<Arc<dyn Observer>>,
    /// Gets every decision too, while a client reads the dashboard.
    pub watcher: Mutex<Option<Arc<dyn Observer>>>,
    /// Measures the time of decisions.
    pub clock: Arc<dyn Clock>,
    /// Whether `CL.THROTTLE` is used. Its table takes a share of the memory.
    pub throttle: AtomicBool,
}

impl GateSettings {
    fn observers(&self) -> Option<Arc<dyn Observer>> {
        match (self.observer.clone(), self.watcher.lock().clone()) {
            (Some(observer), Some(watcher)) => Some(Arc::new(vec![observer, watcher])),
            (observer, watcher) => observer.or(watcher),
        }
    }

    fn has_throttle(&self) -> bool {
        // Written and read by the one thread that makes a plan, under the engine's lock.
        self.throttle.load(Ordering::Relaxed)
    }
}

/// One gate per unit in a domain's store, for limits that requests carry.
#[derive(Debug)]
pub struct UnitGates {
    /// In the order of [`Unit::ALL`].
    gates: Vec<Gate>,
}

impl UnitGates {
    /// Returns a gate of `requests` per unit. It shares its state with all others of that unit.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not accept the quota.
    pub fn gate(&self, requests: u32, unit: Unit) -> Result<Gate, Error> {
        let quota = Quota::new(u64::from(requests), unit.window())?;
        self.gates[unit as usize].with_quotas(&[quota])
    }
}

impl<'a> GateFactory<'a> {
    /// Creates a factory that has made no gates yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory is too small for the number of policies.
    pub fn new(
        spec: &'a Spec,
        stores: &'a Stores,
        shared: &'a GateSettings,
        restore: &'a mut dyn Restore,
    ) -> Result<Self, Error> {
        let memory_limit = share_of_new(spec, shared.has_throttle())?;
        let (used, known, all) = (Vec::new(), HashSet::new(), Vec::new());
        Ok(Self { spec, stores, shared, restore, memory_limit, used, known, all })
    }

    /// Makes the gate of a policy.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is out of range or the store is not configured.
    pub fn policy(&mut self, policy: &PolicySpec) -> Result<Arc<Gate>, Error> {
        let mut gate = Gate::builder(self.store(policy)?)
            .name(&policy.name)
            .quotas(policy.quotas.as_slice())
            .rollout(policy.rollout)
            .enforce_percent(policy.enforce_percent)
            .secret_keys(policy.secret_keys);
        for (name, quotas) in &policy.tiers {
            gate = gate.tier(name, quotas.as_slice());
        }
        if let Some(candidate) = &policy.candidate {
            let store = self.store(&PolicySpec {
                name: format!("{}{CANDIDATE_SUFFIX}", policy.name),
                quotas: candidate.quotas.clone(),
                algorithm: candidate.algorithm,
                ..policy.clone()
            })?;
            gate = gate.candidate_quotas(store, &candidate.quotas);
        }
        let gate = Arc::new(self.build(gate)?);
        self.all.push(Arc::clone(&gate));
        Ok(gate)
    }

    /// Makes the gate of `CL.THROTTLE`, if it is used.
    ///
    /// # Errors
    ///
    /// Returns an error if its state cannot be restored.
    pub fn throttle(&mut self) -> Result<Option<Arc<Gate>>, Error> {
        if !self.shared.has_throttle() {
            return Ok(None);
        }
        self.policy(&throttle_policy()).map(Some)
    }

    /// Makes the gate of a descriptor. All descriptors of one unit share a store, in which their
    /// keys differ.
    ///
    /// # Errors
    ///
    /// Returns an error if the rate is zero or the store is not configured.
    pub fn descriptor(
        &mut self,
        store: DomainStore<'_>,
        name: &str,
        rate: &RateSpec,
        rollout: Rollout,
    ) -> Result<Arc<Gate>, Error> {
        let gate = Arc::new(self.unit_gate(store, name, rate, rollout)?);
        self.all.push(Arc::clone(&gate));
        Ok(gate)
    }

    /// Creates one gate per unit, for limits that requests carry.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is not configured.
    pub fn units(
        &mut self,
        store: DomainStore<'_>,
        name: &str,
        algorithm: Algorithm,
    ) -> Result<UnitGates, Error> {
        let gate = |unit| {
            let rate = RateSpec { requests: 1, unit, algorithm };
            self.unit_gate(store, name, &rate, Rollout::Enforce)
        };
        Ok(UnitGates { gates: Unit::ALL.into_iter().map(gate).collect::<Result<_, _>>()? })
    }

    /// Returns all gates and the stores that they use.
    pub fn finish(self) -> (Vec<Arc<Gate>>, StoreList) {
        (self.all, self.used)
    }

    fn unit_gate(
        &mut self,
        store: DomainStore<'_>,
        name: &str,
        rate: &RateSpec,
        rollout: Rollout,
    ) -> Result<Gate, Error> {
        let RateSpec { requests, unit, algorithm } = *rate;
        // An algorithm cannot read the state of another one, and keys in Redis contain only the policy's name.
        let policy = match algorithm {
            Algorithm::Log => format!("{UNITS_PREFIX}{}", unit.name()),
            other => format!("{UNITS_PREFIX}{}.{}", unit.name(), algorithm_name(other)),
        };
        let store = self.store(&PolicySpec {
            algorithm,
            store: store.name.to_owned(),
            failure_mode: store.failure_mode.into(),
            ..PolicySpec::new(&policy, vec![Quota::new(1, unit.window())?])
        })?;
        let quota = Quota::new(u64::from(requests), unit.window())?;
        self.build(Gate::builder(store).name(name).quotas([quota]).rollout(rollout))
    }

    fn build(&self, gate: GateBuilder) -> Result<Gate, Error> {
        let GateSettings { metrics, clock, .. } = self.shared;
        let gate = gate.metrics(metrics).clock(Arc::clone(clock));
        match self.shared.observers() {
            Some(observer) => gate.observer(observer).build(),
            None => gate.build(),
        }
    }

    fn store(&mut self, wanted: &PolicySpec) -> Result<Arc<dyn Store>, Error> {
        let (id, store) = self.stores.get(wanted, self.memory_limit, self.spec, self.restore)?;
        if self.known.insert(address(&store)) {
            self.shared.metrics.register_store(&id.store, &store);
            self.used.push((id, Arc::clone(&store)));
        }
        Ok(store)
    }
}

impl fmt::Debug for GateFactory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateFactory").field("used", &self.used).finish_non_exhaustive()
    }
}

/// The policy under which `CL.THROTTLE` counts. Its calls bring their own quotas.
fn throttle_policy() -> PolicySpec {
    PolicySpec {
        algorithm: Algorithm::Gcra,
        ..PolicySpec::new(THROTTLE, vec![Quota::per_minute(1)])
    }
}

/// Returns the id of the state of `CL.THROTTLE`.
pub fn throttle_state() -> StateId {
    StateId::from(&throttle_policy())
}
