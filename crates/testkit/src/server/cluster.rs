//! A real cluster of six nodes.

use std::path::Path;

use super::process::{Process, require_program};
use super::redis_server::{info_field, with_logs};
use super::topology::Topology;
use super::wait::poll;
use super::{RedisServer, ServerBuilder, ServerError};

/// Three primaries and a replica of each, on loopback ports, with Redis or Valkey.
///
/// Nodes are identified by their index in [`nodes`](Cluster::nodes). Nodes that were killed,
/// stopped or suspended are not queried; the others are alive.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

const PRIMARIES: usize = 3;
const NODES: usize = 2 * PRIMARIES;

impl Cluster {
    /// Starts six nodes like `node`, joins them, and waits until each could replace another.
    pub fn start(node: &ServerBuilder) -> Result<Self, ServerError> {
        let node = node.clone().cluster_node();
        let nodes = (0..NODES).map(|_| node.start()).collect::<Result<Vec<_>, _>>()?;
        let cluster = Self { nodes };
        cluster.join()?;
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Returns all nodes, including killed ones.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// All nodes, to stop, suspend or restart them.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// Returns the addresses of all nodes, for a client of the cluster.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Returns the node of a key, as the first live node sees it.
    pub fn primary_of(&self, key: &str) -> Result<usize, ServerError> {
        let witness = self.living().next().ok_or_else(|| ServerError::new("no node is running"))?;
        let slot = slot_of(witness, key)?;
        let port = topology(witness)?.primary_of(slot);
        let no_node = || ServerError::new(format!("no node has slot {slot} of `{key}`"));
        self.place_of(port.ok_or_else(no_node)?)
    }

    /// Kills the node of a key, and returns its index.
    pub fn kill_primary_of(&mut self, key: &str) -> Result<usize, ServerError> {
        let place = self.primary_of(key)?;
        self.nodes[place].kill()?;
        Ok(place)
    }

    /// Waits until all live nodes agree that a node other than `old` has a key, and returns its
    /// index.
    pub fn wait_for_failover(&self, key: &str, old: usize) -> Result<usize, ServerError> {
        let old = self.nodes[old].port();
        let port = poll("another node to answer for the key", || {
            let primaries: Result<Vec<_>, _> =
                self.living().map(|node| primary_seen_by(node, key)).collect();
            let Ok(primaries) = primaries else { return Ok(None) };
            let new = primaries.first().copied().flatten();
            let agreed = primaries.iter().all(|primary| *primary == new);
            Ok(new.filter(|new| agreed && *new != old))
        })?;
        self.place_of(port)
    }

    /// Starts a node again and waits until the cluster is complete.
    pub fn restart(&mut self, place: usize) -> Result<(), ServerError> {
        self.nodes[place].restart()?;
        self.wait_until_whole()
    }

    /// Waits until all live nodes agree that every slot has a node, every live replica is up to
    /// date, and, if all are alive, every primary has a replica.
    ///
    /// If a primary is killed before its replica has the first copy, the cluster fails.
    pub fn wait_until_whole(&self) -> Result<(), ServerError> {
        let waited = poll("the cluster to be whole", || {
            let living: Vec<&RedisServer> = self.living().collect();
            let all_live = living.len() == NODES;
            // A node that does not reply yet is not complete.
            let whole = |node: &&RedisServer| is_whole(node, all_live).unwrap_or(false);
            Ok(living.iter().all(whole).then_some(()))
        });
        waited.map_err(|error| with_logs(&error, &self.nodes))
    }

    fn join(&self) -> Result<(), ServerError> {
        let mut arguments = vec!["--cluster".to_owned(), "create".to_owned()];
        arguments.extend(self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())));
        arguments.extend(["--cluster-replicas", "1", "--cluster-yes"].map(str::to_owned));
        let first = &self.nodes[0];
        let folder = first.folder();
        if first.settings().certificates.is_some() {
            let authority = folder.join("authority.pem").to_string_lossy().into_owned();
            arguments.extend(["--tls".to_owned(), "--cacert".to_owned(), authority]);
        }
        let password = first.settings().password.clone();
        let variables: Vec<_> = password.map(|word| ("REDISCLI_AUTH", word)).into_iter().collect();
        run_redis_cli(&arguments, &variables, &folder.join("join.log"))
    }

    fn living(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().filter(|node| node.is_awake())
    }

    fn place_of(&self, port: u16) -> Result<usize, ServerError> {
        let unknown = || ServerError::new(format!("port {port} is not of this cluster"));
        self.nodes.iter().position(|node| node.port() == port).ok_or_else(unknown)
    }
}

/// Runs `redis-cli` as a process that does not outlive the test, because it waits forever for a
/// cluster that does not form.
fn run_redis_cli(
    arguments: &[String],
    variables: &[(&str, String)],
    log: &Path,
) -> Result<(), ServerError> {
    let program = require_program("redis-cli", "redis-tools")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let process = Process::start(&program, &arguments, variables, log)?;
    let status = poll("redis-cli to form the cluster", || process.ended());
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let output = process.output();
            Err(ServerError::new(format!("redis-cli ended with {status}:\n{output}")))
        }
        Err(error) => Err(ServerError::new(format!("{error}:\n{}", process.output()))),
    }
}

fn is_whole(node: &RedisServer, all_live: bool) -> Result<bool, ServerError> {
    let text: String = redis::cmd("CLUSTER").arg("INFO").query(&mut node.connection()?)?;
    let topology = topology(node)?;
    let primaries = topology.primaries();
    let is_followed = |port: &u16| !topology.replicas_of(*port).is_empty();
    let is_primary = node.info("replication", "role")? == "master";
    let in_place = if is_primary {
        primaries.contains(&node.port())
    } else {
        node.info("replication", "master_link_status")? == "up"
    };
    Ok(info_field(&text, "cluster_state")? == "ok"
        && primaries.len() == PRIMARIES
        && (!all_live || primaries.iter().all(is_followed))
        && in_place)
}

fn primary_seen_by(node: &RedisServer, key: &str) -> Result<Option<u16>, ServerError> {
    let text: String = redis::cmd("CLUSTER").arg("INFO").query(&mut node.connection()?)?;
    if info_field(&text, "cluster_state")? != "ok" {
        return Ok(None);
    }
    Ok(topology(node)?.primary_of(slot_of(node, key)?))
}

fn slot_of(node: &RedisServer, key: &str) -> Result<u16, ServerError> {
    Ok(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut node.connection()?)?)
}

fn topology(node: &RedisServer) -> Result<Topology, ServerError> {
    let text: String = redis::cmd("CLUSTER").arg("NODES").query(&mut node.connection()?)?;
    Topology::parse(&text)
}
