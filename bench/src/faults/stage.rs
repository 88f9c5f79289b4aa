//! The faults, each staged on servers of its own.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use slidegate_redis::{Redis, RedisBuilder};
use slidegate_testkit::server::{
    AcceptMode, Cluster, Proxy, RedisServer, ReplyFault, Sentinel, ServerBuilder,
};
use tokio::time::{Instant, sleep};

use super::load::Load;
use super::record::{Outcome, Span};
use crate::Failure;

/// A fault and how it is staged.
pub(super) struct Fault {
    /// For the command line and JSON.
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) stage: fn() -> Staged,
}

type Staged = Pin<Box<dyn Future<Output = Result<Outcome, Failure>>>>;

macro_rules! fault {
    ($name:literal, $what:literal, $stage:expr) => {
        Fault { name: $name, what: $what, stage: || Box::pin($stage) }
    };
}

/// How long a fault lasts that does not end by itself.
const OUTAGE: Duration = Duration::from_secs(2);

pub(super) const FAULTS: &[Fault] = &[
    fault!("none", "no fault", nothing()),
    fault!("pause-60ms", "server paused for 60 ms", pause(Duration::from_millis(60))),
    fault!("pause-2s", "server paused for 2 s", pause(OUTAGE)),
    fault!("restart", "server killed, restarted empty after 2 s", restart()),
    fault!("black-hole", "network drops all packets for 2 s", black_hole()),
    fault!("lost-replies", "20 replies lost, connections closed", lost_replies()),
    fault!("closed", "server closes all connections", closed()),
    fault!("script-flush", "SCRIPT FLUSH", script_flush()),
    fault!("maxclients", "maxclients reached for 2 s", maxclients()),
    fault!("password", "password changed for 2 s", password()),
    fault!("no-eval", "user may not EVAL for 2 s", no_eval()),
    fault!("oom", "out of memory (noeviction) for 2 s", oom()),
    fault!("read-only", "server is a replica for 2 s", read_only()),
    fault!("cold-start", "cold start, replies take 12 ms of a 20 ms deadline", cold_start()),
    fault!("cold-sentinel", "cold start, Sentinels reply after 40 ms", cold_sentinel()),
    fault!("cold-cluster", "cold start, cluster seeds reply after 40 ms", cold_cluster()),
    fault!("uneven", "server paused for 2 s, one node had all the load", uneven()),
    fault!("clock-400ms", "clock steps forward by 400 ms", clock(400)),
    fault!("clock-2h", "clock steps forward by 2 h", clock(7_200_000)),
    fault!("clock-back-400ms", "clock steps back by 400 ms", clock(-400)),
    fault!("clock-back-2h", "clock steps back by 2 h", clock(-7_200_000)),
    fault!("sentinel-planned", "planned Sentinel failover", sentinel_planned()),
    fault!("sentinel-crash", "primary killed, Sentinel failover", sentinel_crash()),
    fault!("cluster-planned", "planned cluster failover", cluster_planned()),
    fault!("cluster-crash", "cluster primary killed", cluster_crash()),
    fault!("cluster-other", "cluster primary of other keys killed", cluster_other()),
    fault!("evicted", "allkeys-random evicts the key again and again", evicted()),
];

/// Runs the load, then the fault, which returns when it is healed.
async fn staged(
    connect: impl Fn() -> Result<RedisBuilder, Failure>,
    fault: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let load = Load::start(connect)?;
    load.begin_all();
    load.warm_up().await;
    run_fault(load, async |_: &Load| fault().await).await
}

async fn run_fault(
    load: Load,
    fault: impl AsyncFnOnce(&Load) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let began = now();
    fault(&load).await?;
    load.finish(Span { began, healed: now() }).await
}

fn single(server: &RedisServer) -> impl Fn() -> Result<RedisBuilder, Failure> + use<> {
    at(server.url())
}

fn at(url: String) -> impl Fn() -> Result<RedisBuilder, Failure> {
    move || Ok(Redis::single(&url)?)
}

/// Sends an administrative command over its own connection.
fn command(server: &RedisServer, words: &[&str]) -> Result<(), Failure> {
    let (name, arguments) = words.split_first().ok_or("a command has a name")?;
    Ok(redis::cmd(name).arg(arguments).query(&mut server.connection()?)?)
}

fn close_connections(server: &RedisServer) -> Result<(), Failure> {
    command(server, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
}

async fn nothing() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    staged(single(&server), async || Ok(())).await
}

async fn pause(time: Duration) -> Result<Outcome, Failure> {
    let mut server = RedisServer::start()?;
    staged(single(&server), async || {
        server.suspend()?;
        sleep(time).await;
        Ok(server.resume()?)
    })
    .await
}

async fn restart() -> Result<Outcome, Failure> {
    let mut server = RedisServer::start()?;
    staged(single(&server), async || {
        server.kill()?;
        sleep(OUTAGE).await;
        Ok(server.restart()?)
    })
    .await
}

async fn black_hole() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    let proxy = Proxy::in_front_of(&server)?;
    staged(at(proxy.url().to_owned()), async || {
        proxy.set_accept_mode(AcceptMode::BlackHole)?;
        sleep(OUTAGE).await;
        Ok(proxy.heal()?)
    })
    .await
}

async fn lost_replies() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    let proxy = Proxy::in_front_of(&server)?;
    staged(at(proxy.url().to_owned()), async || {
        proxy.fail_next(20, ReplyFault::Cut { after: 0 });
        Ok(())
    })
    .await
}

async fn closed() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    staged(single(&server), async || close_connections(&server)).await
}

async fn script_flush() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    staged(single(&server), async || command(&server, &["SCRIPT", "FLUSH"])).await
}

async fn maxclients() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    let mut admin = server.connection()?;
    staged(single(&server), async || {
        let mut set = |count: &str| -> Result<(), Failure> {
            Ok(redis::cmd("CONFIG").arg(&["SET", "maxclients", count]).query(&mut admin)?)
        };
        set("1")?;
        let mut kill = redis::cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let _: u64 = kill.query(&mut admin)?;
        sleep(OUTAGE).await;
        let _: () = redis::cmd("CONFIG").arg(&["SET", "maxclients", "1000"]).query(&mut admin)?;
        Ok(())
    })
    .await
}

async fn password() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    let mut admin = server.connection()?;
    staged(single(&server), async || {
        let mut set = redis::cmd("CONFIG");
        let _: () = set.arg(&["SET", "requirepass", "changed"]).query(&mut admin)?;
        let mut kill = redis::cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let _: u64 = kill.query(&mut admin)?;
        sleep(OUTAGE).await;
        let _: () = redis::cmd("CONFIG").arg(&["SET", "requirepass", ""]).query(&mut admin)?;
        Ok(())
    })
    .await
}

async fn no_eval() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    staged(single(&server), async || {
        command(&server, &["ACL", "SETUSER", "default", "-eval", "-evalsha"])?;
        sleep(OUTAGE).await;
        command(&server, &["ACL", "SETUSER", "default", "+@all"])
    })
    .await
}

async fn oom() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    staged(single(&server), async || {
        command(&server, &["CONFIG", "SET", "maxmemory", "1"])?;
        sleep(OUTAGE).await;
        command(&server, &["CONFIG", "SET", "maxmemory", "0"])
    })
    .await
}

async fn read_only() -> Result<Outcome, Failure> {
    let primary = RedisServer::start()?;
    let server = RedisServer::start()?;
    let port = primary.port().to_string();
    staged(single(&server), async || {
        command(&server, &["REPLICAOF", "127.0.0.1", &port])?;
        sleep(OUTAGE).await;
        command(&server, &["REPLICAOF", "NO", "ONE"])
    })
    .await
}

async fn cold_start() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    let proxy = Proxy::in_front_of(&server)?;
    proxy.delay_replies(Duration::from_millis(12));
    started(at(proxy.url().to_owned())).await
}

/// Starts the load, which is the fault.
async fn started(connect: impl Fn() -> Result<RedisBuilder, Failure>) -> Result<Outcome, Failure> {
    let began = now();
    let load = Load::start(connect)?;
    load.begin_all();
    load.warm_up().await;
    load.finish(Span { began, healed: began }).await
}

/// Proxies that delay the replies of servers by twice the deadline, and their addresses.
fn far_away(servers: &[RedisServer]) -> Result<(Vec<Proxy>, Vec<String>), Failure> {
    let mut proxies = Vec::with_capacity(servers.len());
    for server in servers {
        let proxy = Proxy::in_front_of(server)?;
        proxy.delay_replies(Duration::from_millis(40));
        proxies.push(proxy);
    }
    let urls = proxies.iter().map(|proxy| proxy.url().to_owned()).collect();
    Ok((proxies, urls))
}

async fn cold_sentinel() -> Result<Outcome, Failure> {
    let sentinel = Sentinel::start(&RedisServer::builder())?;
    let (_proxies, urls) = far_away(sentinel.sentinels())?;
    let service = sentinel.service_name();
    started(move || Ok(Redis::sentinel(&urls, service)?)).await
}

async fn cold_cluster() -> Result<Outcome, Failure> {
    let cluster = Cluster::start(&cluster_node())?;
    let (_proxies, urls) = far_away(cluster.nodes())?;
    started(move || Ok(Redis::cluster(&urls)?)).await
}

/// One node has used the limit before the fault, the others have not seen the key.
async fn uneven() -> Result<Outcome, Failure> {
    let mut server = RedisServer::start()?;
    let load = Load::start(single(&server))?;
    load.begin_first();
    load.warm_up().await;
    run_fault(load, async |load: &Load| {
        server.suspend()?;
        load.begin_all();
        sleep(OUTAGE).await;
        Ok(server.resume()?)
    })
    .await
}

async fn clock(millis: i64) -> Result<Outcome, Failure> {
    let server = RedisServer::valkey().fake_clock().start()?;
    staged(single(&server), async || Ok(server.set_clock_millis(millis)?)).await
}

async fn sentinel_planned() -> Result<Outcome, Failure> {
    let sentinel = Sentinel::start(&RedisServer::builder())?;
    staged(sentinel_at(&sentinel), async || {
        let old = sentinel.primary()?;
        let first = sentinel.sentinels().first().ok_or("there are no sentinels")?;
        command(first, &["SENTINEL", "FAILOVER", sentinel.service_name()])?;
        sentinel.wait_for_failover(old)?;
        Ok(())
    })
    .await
}

async fn sentinel_crash() -> Result<Outcome, Failure> {
    let mut sentinel = Sentinel::start(&RedisServer::builder())?;
    let connect = sentinel_at(&sentinel);
    staged(connect, async || {
        let old = sentinel.kill_primary()?;
        sentinel.wait_for_failover(old)?;
        Ok(())
    })
    .await
}

fn sentinel_at(sentinel: &Sentinel) -> impl Fn() -> Result<RedisBuilder, Failure> + use<> {
    let (urls, service) = (sentinel.sentinel_urls(), sentinel.service_name());
    move || Ok(Redis::sentinel(&urls, service)?)
}

fn cluster_node() -> ServerBuilder {
    RedisServer::builder().config("cluster-require-full-coverage no")
}

/// Returns a key of the limited policy as the cluster stores it.
fn stored_key(cluster: &Cluster) -> Result<String, Failure> {
    for node in cluster.nodes() {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut node.connection()?)?;
        if let Some(key) = keys.into_iter().next() {
            return Ok(key);
        }
    }
    Err("no node of the cluster has a key".into())
}

async fn cluster_planned() -> Result<Outcome, Failure> {
    let cluster = Cluster::start(&cluster_node())?;
    let urls = cluster.urls();
    staged(
        move || Ok(Redis::cluster(&urls)?),
        async || {
            let key = stored_key(&cluster)?;
            let old = cluster.primary_of(&key)?;
            let old_id: String =
                redis::cmd("CLUSTER").arg("MYID").query(&mut cluster.nodes()[old].connection()?)?;
            for node in cluster.nodes() {
                let nodes: String =
                    redis::cmd("CLUSTER").arg("NODES").query(&mut node.connection()?)?;
                let own = nodes.lines().find(|line| line.contains("myself"));
                if own.is_some_and(|line| line.contains("slave") && line.contains(&old_id)) {
                    command(node, &["CLUSTER", "FAILOVER"])?;
                }
            }
            cluster.wait_for_failover(&key, old)?;
            Ok(())
        },
    )
    .await
}

async fn cluster_crash() -> Result<Outcome, Failure> {
    let mut cluster = Cluster::start(&cluster_node())?;
    let urls = cluster.urls();
    staged(
        move || Ok(Redis::cluster(&urls)?),
        async || {
            let key = stored_key(&cluster)?;
            let old = cluster.kill_primary_of(&key)?;
            cluster.wait_for_failover(&key, old)?;
            Ok(())
        },
    )
    .await
}

/// Kills a primary that does not have the keys of the load.
async fn cluster_other() -> Result<Outcome, Failure> {
    let mut cluster = Cluster::start(&cluster_node())?;
    let urls = cluster.urls();
    staged(
        move || Ok(Redis::cluster(&urls)?),
        async || {
            let ours = cluster.primary_of(&stored_key(&cluster)?)?;
            for number in 0..100 {
                let other = format!("other:{number}");
                if cluster.primary_of(&other)? != ours {
                    let old = cluster.kill_primary_of(&other)?;
                    cluster.wait_for_failover(&other, old)?;
                    return Ok(());
                }
            }
            Err("the cluster has one primary".into())
        },
    )
    .await
}

/// Writes other keys until the server has evicted the ones of the load.
async fn evicted() -> Result<Outcome, Failure> {
    let server = RedisServer::start()?;
    staged(single(&server), async || {
        let mut admin = server.connection()?;
        let used: u64 = server.info("memory", "used_memory")?.parse()?;
        let mut set = |name: &str, value: &str| -> Result<(), Failure> {
            Ok(redis::cmd("CONFIG").arg(&["SET", name, value]).query(&mut admin)?)
        };
        set("maxmemory-policy", "allkeys-random")?;
        set("maxmemory", &(used + 200_000).to_string())?;
        for number in 0..20_000_u32 {
            let key = format!("other:{number}");
            let _: () = redis::cmd("SET").arg(key).arg("x").query(&mut admin)?;
        }
        Ok(())
    })
    .await
}

fn now() -> Instant {
    Instant::now()
}
