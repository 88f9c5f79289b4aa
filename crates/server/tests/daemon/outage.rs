//! Health while Redis is gone, by the switches of envoyproxy/ratelimit and by the failure mode.

use std::fs;
use std::net::TcpStream;

use slidegate_testkit::server::{RedisServer, poll};

use crate::process::{Daemon, Folder, command, exchange, free_ports, post};

const REDIS_ERRORS: &str = "ratelimit_service_should_rate_limit_error{err_type=\"redis_error\"}";

/// A daemon in the environment of envoyproxy/ratelimit with these variables too.
fn daemon(folder: &Folder, redis: &RedisServer, variables: &[(&str, &str)]) -> Daemon {
    let root = folder.path("config");
    fs::create_dir_all(&root).unwrap();
    let limit = "{unit: hour, requests_per_unit: 2}";
    let domain = format!("domain: shop\ndescriptors: [{{key: user, rate_limit: {limit}}}]\n");
    fs::write(root.join("shop.yaml"), domain).unwrap();
    let mut command = command(&["serve"]);
    command.args(free_ports()).env("RUNTIME_ROOT", folder.path("")).env("USE_STATSD", "false");
    command.env("REDIS_URL", format!("127.0.0.1:{}", redis.port())).env("REDIS_TIMEOUT", "5s");
    command.envs(variables.iter().copied());
    Daemon::with(command)
}

fn ask(daemon: &Daemon) -> u16 {
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}"#;
    post(TcpStream::connect(daemon.http).unwrap(), "/json", body).0
}

fn health(daemon: &Daemon) -> (u16, u16) {
    let check = exchange(TcpStream::connect(daemon.http).unwrap(), "GET", "/healthcheck").0;
    (check, daemon.admin("GET", "/readyz").0)
}

/// Kills Redis and waits until the daemon knows.
fn lose(redis: &mut RedisServer, daemon: &Daemon, status: u16) {
    assert_eq!((ask(daemon), health(daemon)), (200, (200, 200)));
    redis.kill().unwrap();
    let breaker = "rate_limit_redis_breaker_state";
    poll("an open breaker", || {
        assert_eq!(ask(daemon), status);
        Ok(daemon.metric(breaker).filter(|state| *state > 0.0))
    })
    .unwrap();
    assert!(daemon.metric(REDIS_ERRORS).is_some_and(|count| count >= 1.0));
}

#[test]
fn healthcheck_ignores_redis_unless_it_is_switched_on() {
    let mut redis = RedisServer::start().unwrap();
    let folder = Folder::new("outage_default");
    let daemon = daemon(&folder, &redis, &[]);
    lose(&mut redis, &daemon, 503);
    assert_eq!(health(&daemon), (200, 503), "requests get errors, so it is not ready");
}

#[test]
fn healthcheck_follows_redis_if_it_is_switched_on() {
    let mut redis = RedisServer::start().unwrap();
    let folder = Folder::new("outage_checked");
    let daemon = daemon(&folder, &redis, &[("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "true")]);
    lose(&mut redis, &daemon, 503);
    assert_eq!(health(&daemon), (500, 503));
}

// A process that cannot reach Redis from the start must not receive requests, although no request has
// failed yet. It becomes ready without one, too.
#[test]
fn daemon_that_starts_without_redis_is_ready_when_redis_is_back() {
    let mut redis = RedisServer::start().unwrap();
    redis.kill().unwrap();
    let folder = Folder::new("outage_start");
    let daemon = daemon(&folder, &redis, &[]);
    let said = |words: &str| {
        poll(words, || Ok(daemon.said().contains(words).then_some(())))
            .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    };
    poll("503", || Ok((health(&daemon).1 == 503).then_some(()))).unwrap();
    said("store ");
    said(&format!("Redis: cannot connect to 127.0.0.1:{}", redis.port()));
    redis.restart().unwrap();
    poll("200", || Ok((health(&daemon).1 == 200).then_some(()))).unwrap();
    assert_eq!(ask(&daemon), 200);
}

#[test]
fn a_daemon_that_allows_without_redis_is_ready() {
    let mut redis = RedisServer::start().unwrap();
    let folder = Folder::new("outage_allowed");
    let daemon = daemon(&folder, &redis, &[("SLIDEGATE_ENVOY_FAILURE_MODE", "allow")]);
    lose(&mut redis, &daemon, 200);
    assert_eq!(health(&daemon), (200, 200));
}

#[test]
fn a_daemon_without_limits_is_unhealthy_if_that_is_switched_on() {
    let folder = Folder::new("outage_no_limits");
    fs::create_dir_all(folder.path("config")).unwrap();
    for (value, status) in [("true", 500), ("false", 200)] {
        let mut command = command(&["serve"]);
        command.args(free_ports()).env("RUNTIME_ROOT", folder.path("")).env("USE_STATSD", "false");
        command.env("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", value);
        let daemon = Daemon::with(command);
        assert_eq!(health(&daemon).0, status);
    }
}
