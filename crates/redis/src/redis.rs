//! The servers that limits are shared through, and their connections.

use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo,
};
use slidegate::{Error, ErrorKind, Policy};

use crate::batcher::Batcher;
use crate::inspect::{StoreUsage, Warning};
use crate::key::KeyNames;
use crate::limiter::RedisLimiterBuilder;
use crate::outage::{OnStateChange, Outage};
use crate::sample::KeySample;
use crate::servers::{
    BreakerSettings, Cluster, ConnectionPool, Failure, Greeting, Layout, MakeNode, Node, Sentinel,
    ServerCounts, Servers, SharedConnection, Timing, UserConnection,
};
use crate::tls::Tls;

/// The servers that limits are shared through: Redis, Valkey, a primary behind Sentinels, or a
/// cluster.
///
/// It is cheap to clone, and clones share their connections. Connections are opened in the
/// background when they are first needed, so building it needs no server.
/// [`connect`](Redis::connect) waits for them.
///
/// Calls need a tokio runtime with timers and I/O enabled (`enable_all`).
///
/// ```no_run
/// use slidegate::{Policy, Quota};
/// use slidegate_redis::Redis;
///
/// # async fn run() -> Result<(), slidegate::Error> {
/// let redis = Redis::single("redis://127.0.0.1:6379")?.build()?;
/// let limiter = redis.limiter(Policy::new("api", Quota::per_minute(100))?).build()?;
///
/// let decision = limiter.check("alice").await;
/// assert!(decision.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redis {
    pub(crate) shared: Arc<Shared>,
}

/// The state that all limiters of one [`Redis`] share.
pub(crate) struct Shared {
    pub(crate) servers: Servers,
    pub(crate) names: KeyNames,
    pub(crate) batcher: Batcher,
    /// The last report of the servers.
    pub(crate) usage: Mutex<Option<StoreUsage>>,
    /// The number of warnings of each kind, in the order of [`Warning::KINDS`].
    pub(crate) warnings: Mutex<[u64; Warning::KINDS.len()]>,
    /// Clock steps that a warning was about.
    pub(crate) warned_steps: AtomicU64,
    /// What random keys showed about policies.
    pub(crate) sample: Mutex<KeySample>,
    pub(crate) outage: Arc<Outage>,
    #[cfg(feature = "test-clock")]
    pub(crate) clock: Option<slidegate::ManualClock>,
}

/// Builds a [`Redis`].
pub struct RedisBuilder {
    topology: Topology,
    /// One for a single server, otherwise one or more.
    addresses: Vec<ConnectionInfo>,
    username: Option<String>,
    password: Option<String>,
    database: Option<i64>,
    tls: Tls,
    prefix: String,
    secret: Option<Vec<u8>>,
    timing: Timing,
    in_flight_max: usize,
    checks_per_call_max: usize,
    pub(crate) on_state_change: Option<OnStateChange>,
    #[cfg(feature = "test-clock")]
    clock: Option<slidegate::ManualClock>,
}

enum Topology {
    Single,
    /// Sentinels, with the name of the service.
    Sentinel(String),
    Cluster,
    /// A connection of the user, and whether it is one to a cluster.
    Given(Arc<dyn UserConnection>, bool),
}

impl Redis {
    /// Uses one server with this address: `redis://`, `rediss://` (TLS) or `unix://`, with user,
    /// password and database as usual. Connections use RESP3 if the server supports it.
    /// `?protocol=resp2` disables that, and then only the next call detects a connection that the
    /// server closed.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid.
    pub fn single(address: &str) -> Result<RedisBuilder, Error> {
        Ok(RedisBuilder::new(Topology::Single, vec![read(address)?]))
    }

    /// Uses the primary of `service`, as reported by the Sentinels with these addresses. Their user
    /// and password are for the Sentinels. Those of the primary are set on the builder.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address, or one is invalid.
    pub fn sentinel<A: AsRef<str>>(addresses: &[A], service: &str) -> Result<RedisBuilder, Error> {
        Ok(RedisBuilder::new(Topology::Sentinel(service.to_owned()), read_all(addresses)?))
    }

    /// Uses a cluster, discovered from the nodes with these addresses. The user and password of the
    /// first are used for all nodes.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address, or one is invalid.
    pub fn cluster<A: AsRef<str>>(addresses: &[A]) -> Result<RedisBuilder, Error> {
        Ok(RedisBuilder::new(Topology::Cluster, read_all(addresses)?))
    }

    /// Uses an existing connection: a `MultiplexedConnection`, a `ConnectionManager`, or any other
    /// connection that several callers can use at the same time.
    ///
    /// Deadlines, the breaker and batching work as usual. Reconnecting and retrying are up to the
    /// connection. If it sends a command again after it lost the reply, a check is counted twice,
    /// which a connection of [`Redis::single`] never does. A malformed reply does not replace the
    /// connection. Addresses, credentials and TLS settings of the builder are not used.
    pub fn from_connection<C>(connection: C) -> RedisBuilder
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let connection = Arc::new(SharedConnection(connection));
        RedisBuilder::new(Topology::Given(connection, false), Vec::new())
    }

    /// Uses a connection pool. `get` returns a connection of it, which is used for one call.
    ///
    /// See [`from_connection`](Redis::from_connection). The time that `get` takes is a part of the
    /// deadline of a call. If it fails, nothing was sent.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use redis::aio::MultiplexedConnection;
    /// # use slidegate_redis::Redis;
    /// # struct Pool(MultiplexedConnection);
    /// # impl Pool {
    /// #     async fn get(&self) -> Result<MultiplexedConnection, String> { Ok(self.0.clone()) }
    /// # }
    /// # fn build(pool: Arc<Pool>) -> Result<Redis, slidegate::Error> {
    /// let redis = Redis::from_pool(move || {
    ///     let pool = Arc::clone(&pool);
    ///     async move { pool.get().await }
    /// })
    /// .build()?;
    /// # Ok(redis)
    /// # }
    /// ```
    pub fn from_pool<F, G, C, E>(get: F) -> RedisBuilder
    where
        F: Fn() -> G + Send + Sync + 'static,
        G: Future<Output = Result<C, E>> + Send + 'static,
        C: ConnectionLike + Send + 'static,
        E: fmt::Display + 'static,
    {
        RedisBuilder::new(Topology::Given(Arc::new(ConnectionPool(get)), false), Vec::new())
    }

    /// Uses an existing cluster connection, such as `redis::cluster_async::ClusterConnection`.
    ///
    /// See [`from_connection`](Redis::from_connection). The connection routes calls by their keys,
    /// so one breaker guards all nodes, and [`usage`](Redis::usage), [`warnings`](Redis::warnings)
    /// and [`sweep`](Redis::sweep) return errors. It does not show which node replied, so steps of
    /// the nodes' clocks are not detected.
    pub fn from_cluster_connection<C>(connection: C) -> RedisBuilder
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let connection = Arc::new(SharedConnection(connection));
        RedisBuilder::new(Topology::Given(connection, true), Vec::new())
    }

    /// Returns a builder for a limiter with its state on these servers.
    pub fn limiter(&self, policy: Policy) -> RedisLimiterBuilder {
        RedisLimiterBuilder::new(self.clone(), policy)
    }
}

impl RedisBuilder {
    fn new(topology: Topology, addresses: Vec<ConnectionInfo>) -> Self {
        let breaker = BreakerSettings {
            failures: 5,
            open_min: Duration::from_millis(100),
            open_max: Duration::from_secs(1),
        };
        let timing = Timing {
            call: Duration::from_millis(20),
            connect: Duration::from_millis(500),
            breaker,
            step: Duration::from_millis(500),
        };
        Self {
            topology,
            addresses,
            username: None,
            password: None,
            database: None,
            tls: Tls::default(),
            prefix: "sg".to_owned(),
            secret: None,
            timing,
            in_flight_max: 1024,
            checks_per_call_max: 32,
            on_state_change: None,
            #[cfg(feature = "test-clock")]
            clock: None,
        }
    }

    /// Sets the user, instead of the one in the address.
    #[must_use]
    pub fn username(mut self, username: &str) -> Self {
        self.username = Some(username.to_owned());
        self
    }

    /// Sets the password, instead of the one in the address. Never shown.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Sets the number of the database, instead of the one in the address. A cluster has only 0.
    #[must_use]
    pub fn database(mut self, database: i64) -> Self {
        self.database = Some(database);
        self
    }

    /// Trusts the certificate authorities in this PEM text instead of the system's.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_authority(mut self, pem: &[u8]) -> Self {
        self.tls.authority = Some(pem.to_vec());
        self
    }

    /// Presents this certificate, with its key, to the server. Both are PEM text.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_certificate(mut self, certificate: &[u8], key: &[u8]) -> Self {
        self.tls.certificate = Some((certificate.to_vec(), key.to_vec()));
        self
    }

    /// Sets the prefix of all keys, by default `sg`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Sets the secret with which secret keys are hashed before they leave the process. It has at
    /// least 16 bytes and must be the same in all processes. Never shown.
    #[must_use]
    pub fn key_secret(mut self, secret: &[u8]) -> Self {
        self.secret = Some(secret.to_vec());
        self
    }

    /// Sets the maximum time of a decision, by default 20 ms. After that, the policy's failure mode
    /// decides.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.timing.call = deadline;
        self
    }

    /// Sets the maximum time of one connection attempt, by default 500 ms. It continues in the
    /// background: no decision waits for it longer than its own deadline. Failed attempts are
    /// repeated after a pause of up to one second.
    #[must_use]
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.timing.connect = deadline;
        self
    }

    /// Sets the maximum number of checks in flight, by default 1024. Others wait for their turn, which
    /// does not count against their deadline. After a second or two deadlines, whichever is longer, or
    /// behind 65,536 others, a check is denied in every failure mode: Redis decides for others, so
    /// nothing may be admitted in addition.
    #[must_use]
    pub fn in_flight_max(mut self, checks: usize) -> Self {
        self.in_flight_max = checks;
        self
    }

    /// Sets the maximum number of concurrent checks that share one call to the server: 32 by
    /// default, at most 256. 1 disables batching. A call occupies the server for all of its checks,
    /// some microseconds each. Checks of a cluster are always sent alone.
    #[must_use]
    pub fn checks_per_call_max(mut self, checks: usize) -> Self {
        self.checks_per_call_max = checks;
        self
    }

    /// Sets when a server is no longer called: after `failures` checks in a row without a decision,
    /// for `open`. That doubles while the server stays unavailable, up to eight times `open`, but
    /// at most ten seconds. By default 5 checks, and from 100 ms up to one second. `open` is from 1
    /// ms to 60 s.
    #[must_use]
    pub fn breaker(mut self, failures: u32, open: Duration) -> Self {
        let open_max = open.saturating_mul(8).min(Duration::from_secs(10)).max(open);
        self.timing.breaker = BreakerSettings { failures, open_min: open, open_max };
        self
    }

    /// Sets the step of a server's clock from which the breaker opens: 500 ms by default, at most
    /// 24 hours. Smaller steps are only counted.
    #[must_use]
    pub fn clock_step(mut self, step: Duration) -> Self {
        self.timing.step = step;
        self
    }

    /// Uses this clock instead of the server's. For tests only.
    #[cfg(feature = "test-clock")]
    #[must_use]
    pub fn test_clock(mut self, clock: slidegate::ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Checks the settings and builds the connection.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range.
    pub fn build(self) -> Result<Redis, Error> {
        self.check()?;
        let shared = Shared {
            servers: self.servers()?,
            names: KeyNames::new(&self.prefix, self.secret.as_deref())?,
            batcher: Batcher::new(self.checks_per_call_max),
            usage: Mutex::default(),
            warnings: Mutex::default(),
            warned_steps: AtomicU64::new(0),
            sample: Mutex::default(),
            outage: Outage::new(self.on_state_change),
            #[cfg(feature = "test-clock")]
            clock: self.clock,
        };
        Ok(Redis { shared: Arc::new(shared) })
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Setting, message));
        let durations = [
            ("deadline", self.timing.call, 60, "60 s"),
            ("connect deadline", self.timing.connect, 60, "60 s"),
            ("breaker's open time", self.timing.breaker.open_min, 60, "60 s"),
            ("clock step", self.timing.step, 24 * 3600, "24 h"),
        ];
        for (what, value, seconds, most) in durations {
            if !(Duration::from_millis(1)..=Duration::from_secs(seconds)).contains(&value) {
                return refuse(format!("{what} {value:?} is out of range: use 1 ms to {most}"));
            }
        }
        if self.timing.breaker.failures == 0 {
            return refuse("breaker failures 0 is out of range: use 1 or more".to_owned());
        }
        if !(1..=1 << 20).contains(&self.in_flight_max) {
            let calls = self.in_flight_max;
            return refuse(format!("in_flight_max {calls} is out of range: use 1 to 1048576"));
        }
        if !(1..=256).contains(&self.checks_per_call_max) {
            let checks = self.checks_per_call_max;
            return refuse(format!("checks_per_call_max {checks} is out of range: use 1 to 256"));
        }
        let of_address = match self.topology {
            // The database in a Sentinel's address is not the primary's.
            Topology::Sentinel(_) | Topology::Given(..) => 0,
            Topology::Single | Topology::Cluster => self.addresses[0].redis_settings().db(),
        };
        let number = self.database.unwrap_or(of_address);
        if number < 0 {
            return refuse(format!("database {number} is out of range: use 0 or more"));
        }
        if number > 0 && matches!(self.topology, Topology::Cluster) {
            return refuse(format!("a cluster has no database {number}: use 0"));
        }
        self.tls.check(&self.addresses)
    }

    fn servers(&self) -> Result<Servers, Error> {
        let (addresses, timing) = (&self.addresses, self.timing);
        let counts = Arc::new(ServerCounts::default());
        let layout = match &self.topology {
            Topology::Given(connection, is_cluster) => {
                let node = Node::given(Arc::clone(connection), timing, Arc::clone(&counts));
                Layout::Given { node: Arc::new(node), is_cluster: *is_cluster }
            }
            Topology::Single => {
                let info = self.with_credentials(&addresses[0]);
                let node = make_node(&self.tls, info, Greeting::Nothing, timing, &counts)?;
                Layout::Single(Arc::new(node))
            }
            Topology::Sentinel(service) => {
                let nodes = addresses
                    .iter()
                    .map(|info| {
                        let greeting = Greeting::FailoverEvents;
                        make_node(&self.tls, bare(info), greeting, timing, &counts)
                    })
                    .collect::<Result<_, _>>()?;
                let make = |greeting| self.make_node(&plain(&addresses[0]), greeting, &counts);
                let (primary, candidate) = (make(Greeting::Role), make(Greeting::Nothing));
                Layout::Sentinel(Sentinel::new(nodes, service, primary, candidate, timing))
            }
            Topology::Cluster => {
                let seeds = addresses.iter().map(|info| name(info.addr())).collect();
                let make = self.make_node(&addresses[0], Greeting::Nothing, &counts);
                Layout::Cluster(Cluster::new(seeds, make, timing, Arc::clone(&counts)))
            }
        };
        Ok(Servers::new(layout, timing, self.in_flight_max, counts))
    }

    /// Creates nodes whose addresses are learned later, with the settings of `like`.
    fn make_node(
        &self,
        like: &ConnectionInfo,
        greeting: Greeting,
        counts: &Arc<ServerCounts>,
    ) -> MakeNode {
        let template = self.with_credentials(like);
        let (tls, timing, counts) = (self.tls.clone(), self.timing, Arc::clone(counts));
        Box::new(move |address| {
            let unusable = || Failure::unreachable(format!("{address:?} is not HOST:PORT"));
            let (host, port) = address.rsplit_once(':').ok_or_else(unusable)?;
            let port = port.parse().map_err(|_| unusable())?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let addr = match template.addr() {
                ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                    host,
                    port,
                    insecure: *insecure,
                    tls_params: tls_params.clone(),
                },
                _ => ConnectionAddr::Tcp(host, port),
            };
            let info = template.clone().set_addr(addr);
            make_node(&tls, info, greeting, timing, &counts)
                .map_err(|error| Failure::unreachable(error.to_string()))
        })
    }

    /// Returns an address with the credentials of the builder.
    fn with_credentials(&self, info: &ConnectionInfo) -> ConnectionInfo {
        let mut settings = info.redis_settings().clone();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database);
        }
        bare(&info.clone().set_redis_settings(settings))
    }
}

fn make_node(
    tls: &Tls,
    info: ConnectionInfo,
    greeting: Greeting,
    timing: Timing,
    counts: &Arc<ServerCounts>,
) -> Result<Node, Error> {
    let address = name(info.addr());
    let made = open(tls, info)
        .and_then(|client| Node::new(&address, client, greeting, timing, Arc::clone(counts)));
    made.map_err(|error| {
        let message = format!("invalid address {address}: {error}");
        Error::new(ErrorKind::Setting, message)
    })
}

fn open(tls: &Tls, info: ConnectionInfo) -> redis::RedisResult<Client> {
    match info.addr() {
        ConnectionAddr::TcpTls { .. } => tls.open(info),
        _ => Client::open(info),
    }
}

/// Returns a Sentinel's address as a template for the primary's: same TLS, without its credentials.
fn plain(info: &ConnectionInfo) -> ConnectionInfo {
    let protocol = info.redis_settings().protocol();
    info.clone().set_redis_settings(RedisConnectionInfo::default().set_protocol(protocol))
}

/// Removes the commands that name the client library, which a user with few permissions may not
/// send.
fn bare(info: &ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    info.clone().set_redis_settings(settings)
}

/// Returns an address without credentials, to show and to identify nodes.
fn name(addr: &ConnectionAddr) -> Box<str> {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}").into()
        }
        other => other.to_string().into(),
    }
}

/// Parses an address. The error does not contain it, because it may include a password.
fn read(address: &str) -> Result<ConnectionInfo, Error> {
    let read = address.into_connection_info().map(|info| {
        if address.contains("protocol=") {
            return info;
        }
        // RESP3 reports the end of a connection, and push events.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        info.set_redis_settings(settings)
    });
    read.map_err(|error| {
        let what = error.detail().unwrap_or("it cannot be read");
        let what =
            if address.is_empty() { "it is empty".into() } else { what.replace(address, "it") };
        let message = format!(
            "invalid Redis address ({what}): use redis://user:password@host:port/database, \
             rediss://... for TLS, or unix:///path"
        );
        Error::new(ErrorKind::Setting, message)
    })
}

fn read_all<A: AsRef<str>>(addresses: &[A]) -> Result<Vec<ConnectionInfo>, Error> {
    if addresses.is_empty() {
        return Err(Error::new(ErrorKind::Setting, "no Redis address: use one or more"));
    }
    addresses.iter().map(|address| with_port(read(address.as_ref())?)).collect()
}

/// Requires host and port, because Sentinels and cluster nodes report each other by them.
fn with_port(info: ConnectionInfo) -> Result<ConnectionInfo, Error> {
    match info.addr() {
        ConnectionAddr::Tcp(..) | ConnectionAddr::TcpTls { .. } => Ok(info),
        other => {
            let message = format!(
                "{} cannot be a Sentinel or a node of a cluster: use redis:// or rediss://",
                name(other)
            );
            Err(Error::new(ErrorKind::Setting, message))
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("servers", &self.shared.servers)
            .field("names", &self.shared.names)
            .finish_non_exhaustive()
    }
}

/// Shows neither addresses nor credentials.
impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder")
            .field("prefix", &self.prefix)
            .field("timing", &self.timing)
            .field("in_flight_max", &self.in_flight_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
