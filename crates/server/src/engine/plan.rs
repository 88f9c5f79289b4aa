//! The current configuration: every gate by its name, and the rules that select it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use slidegate::{Error, Limiter, Store};
use slidegate_gate::Gate;
use slidegate_http::QuotaUnit;

use crate::config::EnvoySettings;
use crate::domain::{Domains, Statistics};
use crate::gates::{GateFactory, StateId, StoreList, divide_memory};
use crate::spec::{RuleSpec, Spec};

/// An active configuration. It never changes: a reload creates another one.
#[derive(Debug)]
pub struct Plan {
    spec: Spec,
    /// Policies sorted by name: there are few, and comparing is faster than hashing.
    policies: Box<[Arc<Gate>]>,
    /// Includes the gates of domains.
    gates: Vec<Arc<Gate>>,
    domains: Domains,
    throttle: Option<Arc<Gate>>,
    stores: StoreList,
    /// Units of policies that do not count requests, by name.
    quota_units: HashMap<String, QuotaUnit>,
}

impl Plan {
    pub(super) fn new(
        spec: &Spec,
        mut factory: GateFactory<'_>,
        statistics: &Arc<Statistics>,
    ) -> Result<Self, Error> {
        let policies = spec.policies.iter().map(|policy| factory.policy(policy));
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        policies.sort_by(|one, other| one.name().cmp(other.name()));
        let throttle = factory.throttle()?;
        let domains = Domains::new(&spec.domains, &mut factory, statistics)?;
        let (gates, stores) = factory.finish();
        let (spec, policies) = (spec.clone(), policies.into());
        let quota_units = quota_units(&spec);
        Ok(Self { spec, policies, gates, domains, throttle, stores, quota_units })
    }

    /// Returns the gate of the policy of this name.
    #[inline]
    pub fn gate(&self, policy: &str) -> Option<&Arc<Gate>> {
        let found = self.policies.binary_search_by(|gate| gate.name().cmp(policy)).ok()?;
        self.policies.get(found)
    }

    /// Returns the quota unit of a policy, or `None` if it counts requests.
    pub fn quota_unit(&self, policy: &str) -> Option<&QuotaUnit> {
        self.quota_units.get(policy)
    }

    /// Returns every gate, in the order of the configuration.
    pub fn gates(&self) -> &[Arc<Gate>] {
        &self.gates
    }

    /// Returns the domains.
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// Returns the gate of `CL.THROTTLE`, whose calls bring their own quotas. `None` until it is used: see
    /// [`Engine::start_throttle`](super::Engine::start_throttle).
    pub fn throttle(&self) -> Option<&Arc<Gate>> {
        self.throttle.as_ref()
    }

    /// Returns the configuration that the plan was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the rules of forward auth.
    pub fn rules(&self) -> &[RuleSpec] {
        &self.spec.rules
    }

    /// Returns all stores.
    pub fn stores(&self) -> &[(StateId, Arc<dyn Store>)] {
        &self.stores
    }

    /// Returns whether Envoy's health checks pass. The settings may require that there is a domain, and
    /// that the stores of all domains are available.
    pub fn is_healthy(&self, envoy: &EnvoySettings) -> bool {
        let domains = &self.spec.domains;
        let has_store = |name: &str| domains.iter().any(|domain| domain.store == name);
        let is_down =
            |(id, store): &(StateId, Arc<dyn Store>)| has_store(&id.store) && !store.is_available();
        (!envoy.health_needs_limits || !domains.is_empty())
            && (!envoy.health_needs_store || !self.stores.iter().any(is_down))
    }

    /// Returns one store per name. All policies of a name report the same about its servers.
    pub fn distinct_stores(&self) -> impl Iterator<Item = (&str, &Arc<dyn Store>)> {
        let mut seen = HashSet::new();
        let stores = self.stores.iter().filter(move |(id, _)| seen.insert(&id.store));
        stores.map(|(id, store)| (id.store.as_str(), store))
    }

    /// Returns the memory beyond the minimum sizes of the stores in memory.
    pub(super) fn spare_memory(&self) -> usize {
        let least: usize = self.limiters().map(Limiter::memory_limit_min).sum();
        self.spec.memory().limit.saturating_sub(least)
    }

    /// Divides the memory, except for `unused` bytes, among the stores in memory, including those that an
    /// older plan created. Applies the configured treatment of keys that do not fit.
    pub(super) fn share_memory(&self, unused: usize) -> Result<(), Error> {
        let limiters: Vec<_> = self.limiters().collect();
        let memory = self.spec.memory();
        divide_memory(memory.limit.saturating_sub(unused), &limiters)?;
        for limiter in &limiters {
            limiter.set_on_full(memory.on_full);
        }
        Ok(())
    }

    fn limiters(&self) -> impl Iterator<Item = &Limiter> {
        self.stores.iter().filter_map(|(_, store)| store.in_process())
    }
}

fn quota_units(spec: &Spec) -> HashMap<String, QuotaUnit> {
    let policies = spec.policies.iter();
    let others = policies.filter(|policy| policy.quota_unit != QuotaUnit::REQUESTS);
    others.map(|policy| (policy.name.clone(), policy.quota_unit.clone())).collect()
}
