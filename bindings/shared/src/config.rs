//! Configuration files of the daemon.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use slidegate::{Error, ErrorKind, ManualClock};
use slidegate_gate::{Gate, Metrics};

use crate::memory::MemoryOptions;
use crate::policy::{Place, PolicyOptions};
use crate::store::{StoreOptions, Warn};

/// The part of a daemon's configuration that a package uses: `policies`, `memory` and `stores`.
/// Listeners, rules and everything else is ignored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The policies.
    pub policies: Vec<PolicyOptions>,
    /// Memory as a store.
    pub memory: MemoryOptions,
    /// Stores in Redis, by name.
    pub stores: BTreeMap<String, StoreOptions>,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// Returns an error with the line if the text is not YAML or a value is invalid.
    pub fn from_yaml(text: &str) -> Result<Self, Error> {
        serde_saphyr::from_str(text).map_err(|error| {
            Error::new(ErrorKind::Setting, format!("invalid configuration: {error}"))
        })
    }

    /// Makes the gates of all policies, in order. Policies of one store share its connections, so
    /// that several of them decide in one atomic step. `warn` is that of
    /// [`StoreOptions::connect`].
    ///
    /// # Errors
    ///
    /// Returns an error if two policies have the same name, a store is not configured, or a value
    /// is out of range.
    pub fn gates(
        &self,
        clock: Option<&ManualClock>,
        metrics: &Arc<Metrics>,
        warn: &Warn,
    ) -> Result<Vec<Gate>, Error> {
        let in_memory = self.policies.iter().filter(|policy| is_in_memory(policy));
        let bytes = self.memory.share(in_memory.map(PolicyOptions::stores).sum())?;
        let memory = Place::Memory { bytes, on_full: self.memory.on_full()? };
        let mut places = BTreeMap::from([("memory", memory)]);
        let mut gates: Vec<Gate> = Vec::with_capacity(self.policies.len());
        for policy in &self.policies {
            if gates.iter().any(|gate| gate.name() == policy.name) {
                return Err(setting(format!("two policies are named {:?}", policy.name)));
            }
            let name = policy.store.as_deref().unwrap_or("memory");
            if !places.contains_key(name) {
                let store = self.stores.get(name).ok_or_else(|| {
                    setting(format!("store {name:?} is not configured: add it to `stores`"))
                })?;
                places.insert(name, Place::Redis(store.connect(warn)?));
            }
            gates.push(policy.gate(&places[name], clock, metrics)?);
        }
        Ok(gates)
    }
}

fn is_in_memory(policy: &PolicyOptions) -> bool {
    policy.store.as_deref().is_none_or(|store| store == "memory")
}

fn setting(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}
