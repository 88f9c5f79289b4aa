//! A primary and a replica with sentinels.

use super::builder::quoted;
use super::redis_server::with_logs;
use super::wait::poll;
use super::{RedisServer, ServerBuilder, ServerError};

/// One primary, one or more replicas, and three sentinels of which two must agree.
///
/// Servers are identified by their index in [`servers`](Sentinel::servers): 0 starts as the
/// primary.
#[derive(Debug)]
pub struct Sentinel {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

const SERVICE: &str = "slidegate";
const SENTINELS: usize = 3;

impl Sentinel {
    /// Starts two servers like `server` and the sentinels, and waits until they know each other.
    pub fn start(server: &ServerBuilder) -> Result<Self, ServerError> {
        Self::with_replicas(server, 1)
    }

    /// Starts a primary and replicas like `server`, and the sentinels, and waits until they know each
    /// other.
    pub fn with_replicas(server: &ServerBuilder, replicas: usize) -> Result<Self, ServerError> {
        let mut servers = vec![server.start()?];
        for _ in 0..replicas {
            let replica = server.clone().replica_of(&servers[0]).start()?;
            replica.wait_for_primary()?;
            servers.push(replica);
        }
        let primary = &servers[0];
        let sentinel = sentinel_of(primary);
        let sentinels = (0..SENTINELS).map(|_| sentinel.start()).collect::<Result<Vec<_>, _>>()?;
        let sentinel = Self { servers, sentinels };
        sentinel.wait_until_whole()?;
        Ok(sentinel)
    }

    /// Returns the name of the service.
    pub fn service_name(&self) -> &'static str {
        SERVICE
    }

    /// Returns the addresses of the sentinels.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::url).collect()
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the sentinels, to stop or suspend them.
    pub fn sentinels_mut(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// Returns the servers, including killed ones.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The servers, to stop, suspend or restart them.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// Returns the server that all live sentinels report as the primary.
    pub fn primary(&self) -> Result<usize, ServerError> {
        let living = self.sentinels.iter().filter(|sentinel| sentinel.is_awake());
        let mut ports = living.map(primary_seen_by).collect::<Result<Vec<u16>, _>>()?;
        ports.dedup();
        let is_named = |server: &RedisServer| ports == [server.port()];
        self.servers.iter().position(is_named).ok_or_else(|| {
            ServerError::new(format!("the sentinels do not agree on a primary: {ports:?}"))
        })
    }

    /// Kills the primary, and returns its index.
    pub fn kill_primary(&mut self) -> Result<usize, ServerError> {
        let place = self.primary()?;
        self.servers[place].kill()?;
        Ok(place)
    }

    /// Waits until all live sentinels report a primary other than `old` and its role is primary.
    /// Returns its index.
    pub fn wait_for_failover(&self, old: usize) -> Result<usize, ServerError> {
        let waited = poll("the sentinels to choose another primary", || {
            let Some(new) = self.primary().ok().filter(|new| *new != old) else {
                return Ok(None);
            };
            let role = self.servers[new].info("replication", "role");
            Ok(role.is_ok_and(|role| role == "master").then_some(new))
        });
        waited.map_err(|error| with_logs(&error, &self.sentinels))
    }

    /// Waits until every sentinel knows the others and the replica.
    fn wait_until_whole(&self) -> Result<(), ServerError> {
        let waited = poll("the sentinels to find each other", || {
            Ok(self
                .sentinels
                .iter()
                .all(|sentinel| knows_all(sentinel, self.servers.len() - 1).unwrap_or(false))
                .then_some(()))
        });
        waited.map_err(|error| with_logs(&error, &self.sentinels))
    }
}

fn sentinel_of(primary: &RedisServer) -> ServerBuilder {
    let settings = primary.settings();
    let mut sentinel = settings.as_sentinel();
    sentinel = sentinel
        .config(format!("sentinel monitor {SERVICE} 127.0.0.1 {} 2", primary.port()))
        .config(format!("sentinel down-after-milliseconds {SERVICE} 500"))
        .config(format!("sentinel failover-timeout {SERVICE} 2000"));
    match &settings.password {
        Some(password) => {
            sentinel.config(format!("sentinel auth-pass {SERVICE} {}", quoted(password)))
        }
        None => sentinel,
    }
}

fn knows_all(sentinel: &RedisServer, replicas: usize) -> Result<bool, ServerError> {
    let mut connection = sentinel.connection()?;
    let mut count = |what: &str| -> Result<usize, ServerError> {
        let list: Vec<redis::Value> =
            redis::cmd("SENTINEL").arg(what).arg(SERVICE).query(&mut connection)?;
        Ok(list.len())
    };
    Ok(count("sentinels")? == SENTINELS - 1 && count("replicas")? == replicas)
}

fn primary_seen_by(sentinel: &RedisServer) -> Result<u16, ServerError> {
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("get-master-addr-by-name").arg(SERVICE);
    let (_, port): (String, u16) = ask.query(&mut sentinel.connection()?)?;
    Ok(port)
}
