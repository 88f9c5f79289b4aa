//! Envoy's domains: a tree of descriptors, compiled for matching, and decisions for lists of them.
//!
//! Only this module and [`grpc`](crate::grpc) use the terms of the protocol (domain, descriptor,
//! hits). The semantics are those of envoyproxy/ratelimit, with windows that slide:
//!
//! * If one descriptor denies a request, none is charged.
//! * A denied request is not recorded, so its `retry-after` is exact and does not grow.
//! * Usage that has happened is recorded in full, also if it is denied. A descriptor or
//!   [`usage`](crate::config::EnvoySettings::usage) decides which requests report usage.
//! * A request with `hits_addend` 0 only peeks. It is over the limit if no unit is left, unless
//!   [`look_grace`](crate::config::EnvoySettings::look_grace) allows one.
//! * The windows are as long as those of the reference service, and start at any time.

mod answer;
mod decide;
mod json;
mod key;
mod limit_request;
mod meter;
mod pattern;
mod response;
mod response_extras;
mod rule;
mod statistics;
mod tree;

use core::fmt::Write;
use std::collections::HashMap;
use std::sync::Arc;

use slidegate::{Algorithm, Error, ErrorKind};

pub use self::answer::{AnswerError, Options, answer};
pub(crate) use self::json::read as json_form;
pub use self::json::{JsonReply, healthcheck, json};
use self::key::KeyBytes;
use self::limit_request::Hits;
pub use self::limit_request::{
    DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Entry, Invalid, LimitRequest, Override, TEXT_MAX,
    number_of, unit_of, unknown_unit,
};
use self::meter::{ConfigCow, DescriptorMatch, LimitStatus, Meter};
pub use self::response::{Code, CurrentLimit, Response, Status};
use self::rule::Rule;
pub use self::statistics::{DomainStatistics, HitCounts, OTHER, SEEN_MAX, Statistics};
use self::tree::{Builder, Inherited, Naming, TreeLevel};
pub(crate) use self::tree::{LevelNames, MatchKind};
use crate::gates::{DomainStore, GateFactory, UnitGates};
use crate::spec::{DomainSpec, EnvoyFailureMode, HitsUsage};

/// A compiled tree of descriptors.
#[derive(Debug)]
pub struct Domain {
    name: Box<str>,
    root: TreeLevel,
    /// For limits in requests.
    units: UnitGates,
    /// Their failure mode.
    failure_mode: EnvoyFailureMode,
    statistics: Arc<DomainStatistics>,
}

/// All domains with their statistics.
#[derive(Debug)]
pub struct Domains {
    by_name: HashMap<Box<str>, Domain>,
    /// In the order of the configuration.
    names: Vec<Box<str>>,
    statistics: Arc<Statistics>,
}

impl Domains {
    /// Compiles all domains; their gates are made by `factory`.
    ///
    /// # Errors
    ///
    /// Returns an error if a domain is invalid, or if two have the same name.
    pub fn new(
        specs: &[DomainSpec],
        factory: &mut GateFactory<'_>,
        statistics: &Arc<Statistics>,
    ) -> Result<Self, Error> {
        let mut domains =
            Self { by_name: HashMap::new(), names: Vec::new(), statistics: Arc::clone(statistics) };
        for spec in specs {
            let (name, domain) =
                (Box::from(spec.name.as_str()), Domain::new(spec, factory, statistics)?);
            domains.names.push(Box::clone(&name));
            if domains.by_name.insert(name, domain).is_some() {
                let message = format!("duplicate domain {:?}: join its files", spec.name);
                return Err(Error::new(ErrorKind::Setting, message));
            }
        }
        Ok(domains)
    }

    /// Returns the domain of this name.
    pub fn get(&self, name: &str) -> Option<&Domain> {
        self.by_name.get(name)
    }

    /// Returns every domain, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Domain> {
        self.names.iter().filter_map(|name| self.get(name))
    }

    /// Returns the statistics of descriptors.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}

impl Domain {
    /// Compiles a tree. `factory` creates its gates.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is empty, a descriptor is repeated, a text or the tree is too
    /// long, a setting contradicts another, or the store is not configured.
    pub fn new(
        spec: &DomainSpec,
        factory: &mut GateFactory<'_>,
        statistics: &Statistics,
    ) -> Result<Self, Error> {
        let statistics = statistics.domain(&spec.name);
        // Limits in requests use the algorithm of the first configured limit.
        let algorithm = spec.algorithms().first().copied().unwrap_or(Algorithm::Log);
        let store = DomainStore { name: &spec.store, failure_mode: spec.failure_mode };
        let units = factory.units(store, &format!("{}:override", spec.name), algorithm)?;
        let mut builder = Builder { statistics: &statistics, factory };
        let inherited = Inherited { by_values: false, usage: None, store };
        let root = builder.level(&spec.descriptors, &spec.name, 0, inherited)?;
        let failure_mode = spec.failure_mode;
        Ok(Self { name: spec.name.as_str().into(), root, units, failure_mode, statistics })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the statistics of its limits.
    pub fn statistics(&self) -> &Arc<DomainStatistics> {
        &self.statistics
    }

    /// Returns the match of a descriptor, and the names of limits that it replaces.
    fn match_descriptor(
        &self,
        descriptor: &Descriptor<'_>,
        hits: impl FnOnce(Option<HitsUsage>) -> Hits,
        key_max: usize,
    ) -> (DescriptorMatch<'_>, &[Box<str>]) {
        if let Some(limit) = descriptor.limit {
            let key = KeyBytes::of(&self.name, &descriptor.entries, key_max);
            return (
                DescriptorMatch::Limited(Box::new(self.meter_of(
                    descriptor,
                    limit,
                    hits(None),
                    key,
                ))),
                &[],
            );
        }
        let mut key = KeyBytes::new(&self.name, key_max);
        let mut shares = false;
        let node = self.root.walk(&descriptor.entries, |entry, step| {
            key.push_entry(entry.key, step.counted(entry));
            shares |= step.shares();
        });
        let Some((node, rule)) = node.and_then(|node| Some((node, node.rule.as_ref()?))) else {
            return (DescriptorMatch::Free, &[]);
        };
        let Some(rate) = &rule.rate else {
            return (DescriptorMatch::Unlimited, &rule.replaces);
        };
        let counts = match node.naming(shares) {
            Naming::Configured => ConfigCow::Borrowed(&*rule.counts),
            naming => {
                let mut label = self.name.to_string();
                self.root.walk(&descriptor.entries, |entry, step| {
                    step.name_series(entry, naming, &mut label);
                });
                ConfigCow::Owned(self.statistics.seen(&label))
            }
        };
        let meter = Meter {
            requests: rate.requests,
            unit: rate.unit,
            name: rule.name.as_ref(),
            gate: rate.gate.as_deref().map(ConfigCow::Borrowed),
            shadow_mode: rule.shadow_mode,
            quota_mode: rule.quota_mode,
            failure_mode: rule.failure_mode,
            metadata: rule.metadata.as_ref(),
            counts,
            key,
            hits: hits(rule.usage),
            units: &self.units,
            limit_status: LimitStatus::unknown(rate.requests),
        };
        (DescriptorMatch::Limited(Box::new(meter)), &rule.replaces)
    }

    /// Returns the limit of a request: it overrides the configuration and is never in shadow mode.
    fn meter_of(
        &self,
        descriptor: &Descriptor<'_>,
        limit: Override,
        hits: Hits,
        key: KeyBytes,
    ) -> Meter<'_> {
        let Override { requests, unit } = limit;
        let mut label = self.name.to_string();
        for entry in &descriptor.entries {
            let separator = if entry.value.is_empty() { "" } else { "_" };
            label.extend([".", entry.key, separator, entry.value]);
        }
        Meter {
            requests,
            unit,
            name: None,
            // Zero denies in any state, so it needs none.
            gate: (requests > 0)
                .then(|| self.units.gate(requests, unit).ok())
                .flatten()
                .map(|gate| ConfigCow::Owned(Box::new(gate))),
            shadow_mode: false,
            quota_mode: false,
            failure_mode: self.failure_mode,
            metadata: None,
            counts: ConfigCow::Owned(self.statistics.seen(&label)),
            key,
            hits,
            units: &self.units,
            limit_status: LimitStatus::unknown(requests),
        }
    }

    fn rules(&self) -> Vec<&Rule> {
        let mut rules = Vec::new();
        self.root.rules(&mut rules);
        rules
    }
}

/// Formats all limits of all domains, as the reference service does at `/rlconfig`: one line per
/// limit, with its name, unit, requests, and modes.
pub fn dump(domains: &Domains) -> String {
    let mut text = String::new();
    for rule in domains.iter().flat_map(|domain| domain.rules()) {
        let (unit, requests) = match &rule.rate {
            Some(rate) => (rate.unit.name().to_ascii_uppercase(), rate.requests),
            None => ("UNKNOWN".to_owned(), 0),
        };
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "{}: unit={unit} requests_per_unit={requests}, shadow_mode: {}, quota_mode: {}",
            rule.label, rule.shadow_mode, rule.quota_mode
        );
    }
    text
}
