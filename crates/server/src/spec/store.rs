//! A store in the configuration.

use core::fmt;
use core::time::Duration;

use slidegate::OnFull;

use crate::config::report::Report;
use crate::config::table::{Read, Reader, given, section};
use crate::config::yaml::{MapEntry, Node, Style};
use crate::spec::Spec;

/// The name of the store that always exists: the memory of this process.
pub const MEMORY: &str = "memory";

/// The minimum length of a secret for keys, in bytes.
const KEY_SECRET_MIN: usize = 16;

/// The store of the state of policies.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreSpec {
    /// This process. There is one, named [`MEMORY`].
    Memory(MemorySpec),
    /// A Redis or Valkey server with this name.
    Redis(String, Box<RedisSpec>),
}

impl StoreSpec {
    /// Returns the name that policies use.
    pub fn name(&self) -> &str {
        match self {
            Self::Memory(_) => MEMORY,
            Self::Redis(name, _) => name,
        }
    }

    /// Reads a store under `stores`, and reports its errors.
    pub(crate) fn read(entry: &MapEntry, reader: &mut Reader<'_>) -> Option<Self> {
        let (name, node) = (&entry.key.text, &entry.value);
        if name == MEMORY {
            let message = format!("`{MEMORY}` is the store of this process and always exists");
            reader.report.error(entry.key_span, "value", message).help("use another name");
            return None;
        }
        if !has_place(entry, reader.report) {
            return None;
        }
        let spec = RedisSpec::read(node, reader)?;
        if let (RedisPlace::Cluster(_), Some(node), Some(database @ 1..)) =
            (&spec.place, node.get("database"), spec.database)
        {
            let message = format!("a cluster has no database {database}");
            reader.report.error(node.span, "value", message).help("use 0, or remove it");
        }
        Some(Self::Redis(name.clone(), Box::new(spec)))
    }
}

impl Spec {
    /// Returns the store with this name. Memory exists even if it is not configured.
    pub fn store(&self, name: &str) -> Option<StoreSpec> {
        let configured = self.stores.iter().find(|store| store.name() == name).cloned();
        let memory = || (name == MEMORY).then(|| StoreSpec::Memory(MemorySpec::default()));
        configured.or_else(memory)
    }

    /// Returns memory as a store.
    pub fn memory(&self) -> MemorySpec {
        let memory = self.stores.iter().find_map(|store| match store {
            StoreSpec::Memory(memory) => Some(*memory),
            StoreSpec::Redis(..) => None,
        });
        memory.unwrap_or_default()
    }
}

section! {
    /// Memory as a store.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MemorySpec, MEMORY_KEYS = "memory" {
        /// The memory limit of all counts in memory, in MiB.
        limit("limit_mb"): usize = Whole(1, 1 << 20), default "256", example "512", via mebibytes;
        /// The treatment of a key that does not fit: it is counted in a shared sketch that can only
        /// over-count, another key is moved there, or it is denied.
        on_full: OnFull = Choice(OnFull::KEYWORDS), default "overflow", example "deny";
        /// The interval at which keys are examined, to remove expired ones.
        sweep_every("sweep_interval"): Duration = Time(MILLISECOND, HOUR), default "10s",
            example "5s";
    }
}

section! {
    /// Redis as a store.
    #[derive(Clone, PartialEq)]
    pub struct RedisSpec, STORE = "a store" {
        /// One server.
        key redis = Leaf(&REDIS), absent "`sentinel` or `cluster` is set",
            example "\"redis://127.0.0.1:6379\"";
        /// The primary that Sentinels report.
        key sentinel = Section(&SENTINEL), absent "`redis` or `cluster` is set",
            example "{addresses: [\"redis://10.0.0.1:26379\"], service: main}";
        /// Some nodes of a cluster. The others are discovered.
        key cluster = List(&Leaf(&REDIS), 64), absent "`redis` or `sentinel` is set",
            example "[\"redis://10.0.0.1:7000\", \"redis://10.0.0.2:7000\"]";
        /// The user.
        username: Option<String> = Leaf(&TEXT), absent "from the address", example "slidegate";
        /// A file with the password.
        key password_file = Leaf(&PATH), absent "from the address", example "redis.password";
        /// The password. Prefer `password_file`.
        key password = Leaf(&SECRET), absent "from the address", example "swordfish";
        /// The number of the database, instead of the one in the address. A cluster has only 0.
        database: Option<i64> = Whole(0, 1 << 30), absent "from the address, otherwise 0",
            example "2";
        /// The prefix of all keys in Redis. It must be the same on all nodes.
        prefix: String = Leaf(&PREFIX), default "sg", example "shop";
        /// A file of at least 16 bytes with which secret keys are hashed. It must be the same on
        /// all nodes.
        key key_secret_file = Leaf(&PATH), absent "no policy here can have `secret_keys`",
            example "keys.secret";
        /// The maximum time of a call. After that, the policy's `failure_mode` decides.
        deadline: Duration = Time(MILLISECOND, MINUTE), default "20ms", example "10ms";
        /// The maximum time of one connection attempt.
        connect_deadline: Duration = Time(MILLISECOND, MINUTE), default "500ms",
            example "1s";
        /// The maximum number of checks in flight. Others wait for their turn.
        in_flight_max: usize = Whole(1, 1 << 20), default "1024", example "256";
        /// The maximum number of concurrent checks that are sent in one call. 1 disables batching.
        checks_per_call_max: usize = Whole(1, 256), default "32", example "1";
        /// The interval at which keys that have lost their TTL get one again, and keys of policies that
        /// are not configured are counted. No unit that counts is removed.
        sweep_every("sweep_interval"): Option<Duration> = Time(SECOND, DAY),
            absent "never", example "6h";
        /// Authorities as PEM. The certificate of a `rediss://` server must be from one of them.
        key tls_authority = Leaf(&PATH), absent "the authorities of the system",
            example "redis-ca.pem";
        /// The servers.
        let place: RedisPlace = place, else RedisPlace::Single(String::new());
        /// The password. Never shown.
        let password: Option<String> = password, else None;
        /// The secret for secret keys, shared by all nodes. Never shown.
        let key_secret: Option<Vec<u8>> = key_secret, else None;
        /// Authorities to trust, as PEM.
        let tls_authority: Option<Vec<u8>> = tls_authority, else None;
    }
}

section! {
    /// The Sentinels of a primary.
    struct SentinelKeys, SENTINEL = "Sentinels" {
        /// The addresses of the Sentinels.
        addresses: Vec<String> = List(&Leaf(&REDIS), 64), required,
            example "[\"redis://10.0.0.1:26379\", \"redis://10.0.0.2:26379\"]";
        /// The name of the service.
        service: String = Leaf(&NAME), required, example "main";
    }
}

/// The servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisPlace {
    /// One server.
    Single(String),
    /// The primary that these Sentinels report for a service.
    Sentinel {
        /// Their addresses.
        addresses: Vec<String>,
        /// The name of the service.
        service: String,
    },
    /// A cluster with these nodes, among others.
    Cluster(Vec<String>),
}

impl fmt::Debug for RedisSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may contain a password too.
        formatter.debug_struct("RedisSpec").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Converts a number of MiB that has been checked to bytes.
pub(crate) fn mebibytes<T: core::ops::Shl<u32, Output = T>>(count: T) -> T {
    count << 20
}

/// Reads the servers from one of the three keys.
fn place(node: &Node, reader: &mut Reader<'_>) -> RedisPlace {
    if let Some(SentinelKeys { addresses, service }) = given(&STORE, "sentinel", node, reader) {
        return RedisPlace::Sentinel { addresses, service };
    }
    match given(&STORE, "cluster", node, reader) {
        Some(nodes) => RedisPlace::Cluster(nodes),
        None => RedisPlace::Single(given(&STORE, "redis", node, reader).unwrap_or_default()),
    }
}

fn password(node: &Node, reader: &mut Reader<'_>) -> Option<String> {
    let Reader { files, report } = reader;
    let (file, given) = (node.get("password_file"), node.get("password"));
    if let (Some(_), Some(given)) = (file, given) {
        let message = "both `password` and `password_file` are set";
        report.error(given.span, "one-of", message).help("keep `password_file`");
    }
    if let Some(file) = file {
        let Ok(text) = String::from_utf8(files.content(file, report)?) else {
            report.error(file.span, "file", "the password is not UTF-8");
            return None;
        };
        return Some(text.trim_end_matches(['\n', '\r']).to_owned());
    }
    let (span, scalar) = (given?.span, given?.as_scalar()?);
    if scalar.style != Style::Given {
        let message = "the file contains a password";
        report.warning(span, "password", message).help("use `password_file`");
    }
    Some(scalar.text.clone())
}

/// Reads the file `key_secret_file`.
pub(crate) fn key_secret(node: &Node, reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    read_secret(node.get("key_secret_file")?, reader)
}

/// Reads a file with a secret that all nodes share.
pub(crate) fn read_secret(file: &Node, reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let Reader { files, report } = reader;
    let mut secret = files.content(file, report)?;
    // A file written by an editor ends with a line break that another node may not have.
    while secret.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        secret.pop();
    }
    if secret.len() < KEY_SECRET_MIN {
        let message = format!("a secret of {} bytes is too short", secret.len());
        let help = format!("use at least {KEY_SECRET_MIN}, the same on all nodes");
        report.error(file.span, "file", message).help(help);
        return None;
    }
    Some(secret)
}

fn tls_authority(node: &Node, reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    reader.files.content(node.get("tls_authority")?, reader.report)
}

/// Returns `true` if exactly one key names the servers.
fn has_place(entry: &MapEntry, report: &mut Report) -> bool {
    let node = &entry.value;
    let kinds = ["redis", "sentinel", "cluster"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| node.get(kind).is_some()).collect();
    let name = &entry.key.text;
    let message = match given.as_slice() {
        ["cluster"] if node.get("cluster").is_some_and(Node::is_empty_list) => {
            let message = format!("the store `{name}` has no cluster node");
            report.error(entry.key_span, "missing-key", message).help("name at least one");
            return false;
        }
        [_] => return true,
        [] => format!("the store `{name}` has no servers"),
        several => {
            format!("the store `{name}` must have exactly one of {}", several.join(" and "))
        }
    };
    report.error(entry.key_span, "one-of", message).choices("", kinds);
    false
}
