//! Options of the store in memory.

use serde::Deserialize;
use slidegate::{Error, ErrorKind, Limiter, OnFull};

use crate::policy::{Place, PolicyOptions};

/// Memory as a store, as under `memory` in a file of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryOptions {
    /// The memory limit in MiB.
    #[serde(alias = "limitMb")]
    pub limit_mb: usize,
    /// What happens to a key that does not fit: `overflow`, `lru` or `deny`.
    #[serde(alias = "onFull")]
    pub on_full: String,
    /// Read for files of the daemon. In a package, checks remove expired keys.
    #[serde(alias = "sweepInterval")]
    pub sweep_interval: Option<String>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { limit_mb: 256, on_full: "overflow".to_owned(), sweep_interval: None }
    }
}

impl MemoryOptions {
    /// Reads options as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is unknown or a value is invalid.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::Setting, format!("invalid memory options: {error}"))
        })
    }

    /// Returns the place of a policy that has all of this memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory limit is too small or a word is unknown.
    pub fn place(&self, policy: &PolicyOptions) -> Result<Place, Error> {
        Ok(Place::Memory { bytes: self.share(policy.stores())?, on_full: self.on_full()? })
    }

    /// Returns the share of one of `stores` stores in bytes.
    pub(crate) fn share(&self, stores: usize) -> Result<usize, Error> {
        let bytes = self.limit_mb.saturating_mul(1 << 20);
        let share = bytes / stores.max(1);
        if share >= Limiter::MEMORY_MIN {
            return Ok(share);
        }
        let message = format!(
            "a memory limit of {} MiB is too small for {stores} policies: use at least {} KiB each",
            self.limit_mb,
            Limiter::MEMORY_MIN >> 10,
        );
        Err(Error::new(ErrorKind::Setting, message))
    }

    pub(crate) fn on_full(&self) -> Result<OnFull, Error> {
        match self.on_full.as_str() {
            "overflow" => Ok(OnFull::Overflow),
            "lru" => Ok(OnFull::Lru),
            "deny" => Ok(OnFull::Deny),
            other => {
                let message = format!("unknown on_full {other:?}: use overflow, lru or deny");
                Err(Error::new(ErrorKind::Setting, message))
            }
        }
    }
}
