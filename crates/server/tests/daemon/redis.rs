//! Redis behind the daemon: sweeps as in `docs/redis.md`, warnings and metrics.

use serde_json::{Value, json};
use slidegate_testkit::server::{RedisServer, poll};

use crate::process::{Daemon, Folder, output, output_without_reader};

/// A configuration with these policies in Redis, all of an hour.
fn config(folder: &Folder, redis: &RedisServer, policies: &[&str], more: &str) -> String {
    let policies: Vec<String> = policies
        .iter()
        .map(|name| format!("{{name: {name}, quotas: [100/h], store: shared}}"))
        .collect();
    let text = format!(
        "stores: {{shared: {{redis: \"{}\", deadline: 10s{more}}}}}\npolicies: [{}]\n",
        redis.url(),
        policies.join(", ")
    );
    let path = folder.write(&format!("{}.yaml", policies.len()), &text);
    path.to_str().unwrap().to_owned()
}

fn keys(redis: &RedisServer) -> usize {
    ::redis::cmd("DBSIZE").query(&mut redis.connection().unwrap()).unwrap()
}

fn swept(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(&[&["redis", "sweep"], arguments].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn persist(redis: &RedisServer, keys: &str) {
    let script = format!("redis.call('PERSIST', {keys})");
    let mut connection = redis.connection().unwrap();
    ::redis::cmd("EVAL").arg(script).arg(0).exec(&mut connection).unwrap();
}

#[test]
fn a_sweep_counts_keys_of_unknown_policies_and_keeps_them() {
    let (folder, redis) = (Folder::new("redis_sweep"), RedisServer::start().unwrap());
    let before = config(&folder, &redis, &["api", "old", "older"], "");
    let after = config(&folder, &redis, &["api"], "");
    let daemon = Daemon::start(&["--config", &before]);
    for key in 0..30 {
        for (policy, share) in [("api", 1), ("old", 2), ("older", 3)] {
            if key % share == 0 {
                assert!(daemon.check(policy, &key.to_string()));
            }
        }
    }
    daemon.kill();
    let mut set = ::redis::cmd("SET");
    set.arg("sg:{012345}:api;tx").arg("x").exec(&mut redis.connection().unwrap()).unwrap();
    persist(&redis, "redis.call('KEYS', 'sg:*:api;t7')[1]");

    let (code, out, errors) = swept(&["--config", &after, "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let report = json!({
        "store": "shared", "keys": 56, "unknown": 25, "repaired": 1, "removed": 0, "foreign": 1,
        "unknown_by_policy": {"old": 15, "older": 10},
    });
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), report);
    assert_eq!(keys(&redis), 56);

    let unread = output_without_reader(&["redis", "sweep", "--config", &after]);
    assert!(unread.status.success() && unread.stderr.is_empty(), "{unread:?}");

    let (code, out, errors) = swept(&["--config", &after, "--store", "shared"]);
    let text = "shared: 56 keys, 25 of policies that are not configured\n  old: 15\n  older: 10\n  1 \
                keys without a TTL hold data of another program and were kept\n";
    assert_eq!((code, out.as_str(), errors.as_str()), (Some(0), text, ""));
    assert_eq!(keys(&redis), 56);

    let (code, _, errors) = swept(&["--config", &after, "--store", "other"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("use one of shared"), "{errors}");
    let (code, _, errors) = swept(&["--set", "memory.limit_mb=1"]);
    assert_eq!(code, Some(78));
    assert!(errors.contains("is in Redis"), "{errors}");
    drop(redis);
    assert_eq!(swept(&["--config", &after]).0, Some(69));
}

// The daemon would also go on to log that it cannot reach a server that was switched off.
#[test]
fn a_store_that_is_no_longer_configured_has_no_connections() {
    let (folder, redis) = (Folder::new("redis_removed"), RedisServer::start().unwrap());
    let path = config(&folder, &redis, &["api"], "");
    let daemon = Daemon::start(&["--config", &path]);
    assert!(daemon.check("api", "k"));
    let mut connection = redis.connection().unwrap();
    let mut clients = || {
        let list: String = ::redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        list.lines().count()
    };
    assert!(clients() > 1);
    folder.write("1.yaml", "policies: [{name: api, quotas: [100/h]}]\n");
    assert_eq!(daemon.admin("POST", "/-/reload").0, 200);
    poll("the end of the connections", || Ok((clients() == 1).then_some(()))).unwrap();
}

// During a rolling upgrade, a new daemon sweeps while the old one decides by a policy that the new one
// does not have.
#[test]
fn a_scheduled_sweep_grants_no_fresh_budget_and_metrics_name_problems() {
    let folder = Folder::new("redis_schedule");
    let redis = RedisServer::builder().max_memory(64 << 20, "allkeys-lru").start().unwrap();
    let before = config(&folder, &redis, &["api", "old"], "");
    let after = config(&folder, &redis, &["api"], ", sweep_interval: 1s");
    let old = Daemon::start(&["--config", &before]);
    for key in 0..20 {
        assert!(old.check("api", &key.to_string()) && old.check("old", &key.to_string()));
    }
    let daemon = Daemon::start(&["--config", &after]);
    let metric = |name: &str| daemon.metric(name);
    let mut allowed = 0;
    for result in ["unknown", "repaired", "unknown"] {
        let name = format!("slidegate_redis_swept_keys_total{{result=\"{result}\"}}");
        let before = metric(&name).unwrap_or(0.0);
        persist(&redis, "redis.call('KEYS', 'sg:*:old;t7')[1]");
        poll(&name, || Ok(metric(&name).filter(|count| *count > before))).unwrap();
        allowed += (0..100).filter(|_| old.check("old", "0")).count();
    }
    assert_eq!(allowed, 99, "one of a hundred was taken before");
    assert_eq!(keys(&redis), 40);
    assert_eq!(metric("slidegate_redis_swept_keys_total{result=\"removed\"}"), Some(0.0));

    daemon.hears("has maxmemory-policy allkeys-lru");
    let warnings = "rate_limit_store_warnings{store=\"shared\",kind=\"evicts\"}";
    poll(warnings, || Ok((metric(warnings) == Some(1.0)).then_some(()))).unwrap();
    assert_eq!(
        metric("rate_limit_store_warnings{store=\"shared\",kind=\"clock_stepped\"}"),
        Some(0.0)
    );
    let policy = "{store=\"shared\",policy=\"api\",algorithm=\"log\"}";
    let bytes = format!("rate_limit_redis_sampled_bytes{policy}");
    let bytes = poll("the sample", || Ok(metric(&bytes).filter(|bytes| *bytes > 0.0))).unwrap();
    assert!((1000.0..20_000.0).contains(&bytes), "{bytes}");
    // All that is there now; keys of the other policy may be in the first sample.
    let keys = metric(&format!("rate_limit_redis_sampled_keys{policy}")).unwrap();
    assert!((5.0..=40.0).contains(&keys), "{keys}");
    let dataset = metric("rate_limit_store_dataset_bytes{store=\"shared\"}").unwrap();
    let all = metric("rate_limit_store_memory_bytes{store=\"shared\"}").unwrap();
    assert!(dataset > 0.0 && dataset < all, "{dataset} of {all}");
}
