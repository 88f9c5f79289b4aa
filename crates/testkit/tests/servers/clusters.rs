//! Clusters and sentinels that start, lose a primary, and continue with its data.

use std::sync::{Mutex, PoisonError};

use redis::cluster::ClusterClient;
use slidegate_testkit::server::{Certificates, Cluster, RedisServer, Sentinel, ServerBuilder};

/// One test at a time, because six servers are enough for one machine. `nextest` has a group for
/// it.
static ALONE: Mutex<()> = Mutex::new(());

const KEY: &str = "{user}:alice";

fn count_up(server: &RedisServer) -> u64 {
    redis::cmd("INCR").arg(KEY).query(&mut server.connection().unwrap()).unwrap()
}

fn count(server: &RedisServer) -> u64 {
    redis::cmd("GET").arg(KEY).query(&mut server.connection().unwrap()).unwrap()
}

/// Waits until the replicas have it: data that a primary did not replicate is lost with it.
fn wait_for_copy(server: &RedisServer, expected: u64) {
    let mut connection = server.connection().unwrap();
    let copied: u64 = {
        redis::cmd("INCR").arg(KEY).exec(&mut connection).unwrap();
        redis::cmd("WAIT").arg(1).arg(10_000).query(&mut connection).unwrap()
    };
    assert_eq!((copied, count(server)), (1, expected));
}

fn fail_over(node: &ServerBuilder) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cluster = Cluster::start(node).unwrap();
    assert_eq!((cluster.nodes().len(), cluster.urls().len()), (6, 6));
    let primary = cluster.primary_of(KEY).unwrap();
    assert_eq!(count_up(&cluster.nodes()[primary]), 1);
    wait_for_copy(&cluster.nodes()[primary], 2);

    let killed = cluster.kill_primary_of(KEY).unwrap();
    assert_eq!(killed, primary);
    let new = cluster.wait_for_failover(KEY, killed).unwrap();
    assert_ne!(new, killed);
    assert_eq!(count_up(&cluster.nodes()[new]), 3);

    cluster.restart(killed).unwrap();
    assert_eq!(cluster.primary_of(KEY).unwrap(), new);
    assert_eq!(cluster.nodes()[killed].info("replication", "role").unwrap(), "slave");
}

#[test]
fn a_redis_cluster_fails_over_and_takes_the_killed_node_back() {
    fail_over(&RedisServer::builder());
}

#[test]
fn a_valkey_cluster_fails_over_and_takes_the_killed_node_back() {
    fail_over(&RedisServer::valkey().password("secret"));
}

// A suspended primary is not dead: it returns with its old role.
#[test]
fn a_suspended_primary_is_replaced_and_comes_back_as_a_replica() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cluster = Cluster::start(&RedisServer::builder()).unwrap();
    let old = cluster.primary_of(KEY).unwrap();
    cluster.nodes_mut()[old].suspend().unwrap();
    let new = cluster.wait_for_failover(KEY, old).unwrap();
    assert_eq!(count_up(&cluster.nodes()[new]), 1);
    cluster.nodes_mut()[old].resume().unwrap();
    cluster.wait_until_whole().unwrap();
    assert_eq!(cluster.nodes()[old].info("replication", "role").unwrap(), "slave");
}

#[test]
fn a_client_of_a_cluster_with_tls_finds_every_key() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let certificates = Certificates::new().unwrap();
    let cluster = Cluster::start(&RedisServer::builder().tls(&certificates)).unwrap();
    let client = ClusterClient::builder(cluster.urls()).certs(certificates.trust());
    let client = client.build().unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut used = [false; 6];
    for number in 0..50 {
        let key = format!("key:{number}");
        redis::cmd("SET").arg(&key).arg(number).exec(&mut connection).unwrap();
        let value: u32 = redis::cmd("GET").arg(&key).query(&mut connection).unwrap();
        assert_eq!(value, number);
        used[cluster.primary_of(&key).unwrap()] = true;
    }
    assert_eq!(used.iter().filter(|used| **used).count(), 3);
}

#[test]
fn sentinels_choose_the_replica_when_the_primary_is_killed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().password("secret").tls(&certificates);
    let mut sentinel = Sentinel::start(&server).unwrap();
    assert_eq!(sentinel.sentinel_urls().len(), 3);
    assert_eq!(sentinel.primary().unwrap(), 0);
    assert_eq!(count_up(&sentinel.servers()[0]), 1);
    wait_for_copy(&sentinel.servers()[0], 2);

    // Two of three are enough.
    sentinel.sentinels_mut()[0].kill().unwrap();
    let killed = sentinel.kill_primary().unwrap();
    let new = sentinel.wait_for_failover(killed).unwrap();
    assert_eq!((killed, new), (0, 1));
    assert_eq!(count_up(&sentinel.servers()[new]), 3);
}
