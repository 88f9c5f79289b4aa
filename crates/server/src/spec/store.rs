//! A store as configured.

use core::fmt;
use core::time::Duration;

use slidegate::OnFull;

/// The name of the store that is always there: this process's memory.
pub const MEMORY: &str = "memory";

/// Where the state of policies lives.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreSpec {
    /// This process. There is one, named [`MEMORY`].
    Memory(MemorySpec),
    /// A Redis or Valkey, of this name.
    Redis(String, Box<RedisSpec>),
}

/// Memory as a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySpec {
    /// What all policies together may take, in bytes.
    pub limit: usize,
    /// What happens to a key that finds no room.
    pub on_full: OnFull,
    /// How often a part of the keys is looked at, to drop those that have passed.
    pub sweep_every: Duration,
}

/// Redis as a store.
#[derive(Clone, PartialEq)]
pub struct RedisSpec {
    /// Which servers.
    pub place: RedisPlace,
    /// The user, unless the addresses name one.
    pub username: Option<String>,
    /// The password: never shown.
    pub password: Option<String>,
    /// Of a single server or Sentinel's, instead of the one in the address.
    pub database: Option<i64>,
    /// Put before every key.
    pub prefix: Option<String>,
    /// Shared by all nodes, for keys that are secrets: never shown.
    pub key_secret: Option<Vec<u8>>,
    /// For each call.
    pub deadline: Option<Duration>,
    /// For connecting.
    pub connect_deadline: Option<Duration>,
    /// Checks under way at once.
    pub in_flight_max: Option<usize>,
    /// Checks that go in one call if they come at the same time.
    pub together_max: Option<usize>,
    /// Authorities to trust, as PEM.
    pub tls_authority: Option<Vec<u8>>,
}

/// Which servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisPlace {
    /// One server.
    Single(String),
    /// The primary that these Sentinels know by a name.
    Sentinel {
        /// Their addresses.
        addresses: Vec<String>,
        /// The name.
        service: String,
    },
    /// A cluster that has these among its nodes.
    Cluster(Vec<String>),
}

impl Default for MemorySpec {
    fn default() -> Self {
        Self { limit: 256 << 20, on_full: OnFull::Overflow, sweep_every: Duration::from_secs(10) }
    }
}

impl RedisSpec {
    /// Servers with every other setting at its default.
    pub fn new(place: RedisPlace) -> Self {
        Self {
            place,
            username: None,
            password: None,
            database: None,
            prefix: None,
            key_secret: None,
            deadline: None,
            connect_deadline: None,
            in_flight_max: None,
            together_max: None,
            tls_authority: None,
        }
    }
}

impl fmt::Debug for RedisSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may hold a password too.
        formatter.debug_struct("RedisSpec").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
