//! What the servers report: memory, keys, settings that make limits leak.

use core::fmt;
use core::sync::atomic::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use redis::Value;
use slidegate::Error;
use tokio::time::Instant;

use crate::redis::Redis;
use crate::servers::{Failure, Node};

/// The memory of the servers, summed over all primaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreUsage {
    /// Bytes that the servers use, for all their keys.
    pub bytes: u64,
    /// Of these, bytes of keys and values, without what the servers need for themselves.
    pub dataset_bytes: u64,
    /// Bytes that they may use; zero if one of them has no bound.
    pub bytes_max: u64,
    /// Keys there are, also those that are not ours.
    pub keys: u64,
    /// Keys that the servers have evicted since they started.
    pub evicted: u64,
    /// Primaries whose `maxmemory-policy` evicts keys that still count: see [`Warning::Evicts`].
    pub evicting: u64,
}

/// A setting of a server that can make limits leak.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// With this `maxmemory-policy` a server that runs full evicts keys that still count, and their
    /// limits start from zero. All our keys have a TTL, so `volatile-*` is no better.
    Evicts {
        /// The server.
        address: String,
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// With `cluster-require-full-coverage yes`, a node refuses every key as soon as one range of slots
    /// has no node, and the failure modes decide for all policies. Reported only if the user may
    /// send `CONFIG GET`.
    FullCoverage {
        /// The server.
        address: String,
    },
    /// Without `min-replicas-to-write`, a primary behind Sentinels that is cut off from its replicas admits
    /// units after one of them was promoted in its place. The new primary does not have these units.
    NoMinReplicas {
        /// The server.
        address: String,
    },
    /// Clocks of servers stepped since the last call of [`Redis::warnings`]. A step forward lets units
    /// expire early.
    ClockStepped {
        /// The number of steps beyond [`RedisBuilder::clock_step`](crate::RedisBuilder::clock_step).
        steps: u64,
    },
}

impl Warning {
    /// All values of [`kind`](Warning::kind).
    pub(crate) const KINDS: [&'static str; 4] =
        ["evicts", "full_coverage", "no_min_replicas", "clock_stepped"];

    /// Returns the kind of problem in a word: the label `kind` of metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Evicts { .. } => Self::KINDS[0],
            Self::FullCoverage { .. } => Self::KINDS[1],
            Self::NoMinReplicas { .. } => Self::KINDS[2],
            Self::ClockStepped { .. } => Self::KINDS[3],
        }
    }
}

impl Redis {
    /// The memory of the servers, for metrics.
    ///
    /// # Errors
    ///
    /// When a server gave no answer.
    pub async fn usage(&self) -> Result<StoreUsage, Error> {
        let mut all = StoreUsage::default();
        let mut bounded = true;
        for info in self.info(&["memory", "stats"]).await? {
            let number = |name| field(&info.text, name).and_then(|value| value.parse().ok());
            let most = number("maxmemory").unwrap_or(0);
            bounded &= most > 0;
            all.bytes += number("used_memory").unwrap_or(0);
            all.dataset_bytes += number("used_memory_dataset").unwrap_or(0);
            all.bytes_max += most;
            all.evicted += number("evicted_keys").unwrap_or(0);
            all.keys += info.keys;
            all.evicting += u64::from(info.eviction_policy().is_some());
        }
        all.bytes_max = if bounded { all.bytes_max } else { 0 };
        Ok(all)
    }

    /// Returns settings of the servers that can make limits leak. Call it at startup and every now
    /// and then, because settings change and other servers become primaries.
    ///
    /// # Errors
    ///
    /// When a server gave no answer.
    pub async fn warnings(&self) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        let shared = &self.shared;
        for info in self.info(&["memory", "replication"]).await? {
            if shared.servers.is_sentinel() && !info.needs_replicas() {
                warnings.push(Warning::NoMinReplicas { address: info.address.clone() });
            }
            if let Some(policy) = info.eviction_policy() {
                let policy = policy.to_owned();
                warnings.push(Warning::Evicts { address: info.address, policy });
            }
        }
        if shared.servers.is_cluster() {
            for node in shared.servers.primaries().await? {
                if requires_full_coverage(&node, shared.servers.query_deadline()).await {
                    warnings.push(Warning::FullCoverage { address: node.address().to_owned() });
                }
            }
        }
        let steps = shared.servers.counts.clock_steps.load(Ordering::Relaxed);
        let steps = steps.saturating_sub(shared.warned_steps.swap(steps, Ordering::Relaxed));
        if steps > 0 {
            warnings.push(Warning::ClockStepped { steps });
        }
        Ok(warnings)
    }

    async fn info(&self, sections: &[&str]) -> Result<Vec<Info>, Error> {
        let servers = &self.shared.servers;
        let mut all = Vec::new();
        for node in servers.primaries().await? {
            let mut text = String::new();
            for section in sections {
                let mut info = redis::cmd("INFO");
                info.arg(section);
                text += &words(node.query(&info, servers.query_deadline()).await?)?;
            }
            let size = redis::cmd("DBSIZE");
            let keys = match node.query(&size, servers.query_deadline()).await? {
                Value::Int(keys) => u64::try_from(keys).unwrap_or(0),
                _ => 0,
            };
            all.push(Info { address: node.address().to_owned(), text, keys });
        }
        Ok(all)
    }
}

/// Whether a node of a cluster serves no key unless all slots are served. A user that may not ask is not
/// warned.
async fn requires_full_coverage(node: &Arc<Node>, until: Instant) -> bool {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("cluster-require-full-coverage");
    let Ok(reply) = node.query(&get, until).await else { return false };
    let setting: Option<HashMap<String, String>> = redis::from_redis_value(reply).ok();
    setting.is_some_and(|setting| setting.values().any(|value| value == "yes"))
}

struct Info {
    address: String,
    text: String,
    keys: u64,
}

impl Info {
    /// The server's `maxmemory-policy`, if it evicts keys.
    fn eviction_policy(&self) -> Option<&str> {
        field(&self.text, "maxmemory_policy").filter(|policy| *policy != "noeviction")
    }

    /// Returns `true` if the server refuses writes without a replica. It then reports how many it has.
    fn needs_replicas(&self) -> bool {
        field(&self.text, "min_slaves_good_slaves").is_some()
    }
}

fn words(value: Value) -> Result<String, Failure> {
    redis::from_redis_value(value)
        .map_err(|error| Failure::bad_reply(format!("invalid reply to INFO: {error}")))
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { address, policy } => write!(
                f,
                "{address} has maxmemory-policy {policy}: when its memory runs out it evicts keys \
                 that still count; set it to noeviction"
            ),
            Self::FullCoverage { address } => write!(
                f,
                "{address} has cluster-require-full-coverage yes: when one range of slots has no node, \
                 no key is decided by Redis; set it to no"
            ),
            Self::NoMinReplicas { address } => write!(
                f,
                "{address} has min-replicas-to-write 0: cut off from its replicas, it goes on admitting \
                 while a new primary does too; use two replicas, min-replicas-to-write 1 and \
                 min-replicas-max-lag 2"
            ),
            Self::ClockStepped { steps } => write!(
                f,
                "clocks of servers have stepped {steps} times: a step forward lets units expire early; \
                 have the clocks slewed, not stepped"
            ),
        }
    }
}
