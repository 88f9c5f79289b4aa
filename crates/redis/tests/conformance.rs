//! The conformance traces, and random ones compared with the model, on real servers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::subject::RedisSubject;
use common::{patient, runtime};
use slidegate_redis::{Redis, RedisBuilder};
use slidegate_testkit::server::{Cluster, RedisServer, ServerBuilder};
use slidegate_testkit::{Algorithm, Op, Trace, compare_with, load_all, random_trace, run};

/// Runs all traces, and `seeds` random ones of every algorithm.
fn all_traces(connect: &dyn Fn() -> RedisBuilder, seeds: u64) {
    let runtime = Arc::new(runtime());
    let traces = load_all().unwrap();
    assert!(traces.len() >= 60);
    let mut skipped = 0;
    for trace in &traces {
        let mut subject = RedisSubject::new(&runtime, connect, trace).unwrap();
        let report = run(trace, &mut subject).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        skipped += report.skipped;
    }
    assert_eq!(skipped, 0, "Redis can do all that memory can");
    for algorithm in Algorithm::ALL {
        random_traces(connect, algorithm, seeds, |_| {});
    }
}

/// Runs random traces, compared with the model. A failure prints the shortest trace that shows it.
fn random_traces(
    connect: &dyn Fn() -> RedisBuilder,
    algorithm: Algorithm,
    seeds: u64,
    change: impl Fn(&mut Trace),
) {
    let runtime = Arc::new(runtime());
    for seed in 0..seeds {
        let mut trace = random_trace(seed, algorithm);
        change(&mut trace);
        if algorithm != Algorithm::Log {
            without_huge_debt(&mut trace);
        }
        let compared = compare_with(&trace, |trace| RedisSubject::new(&runtime, connect, trace));
        compared.unwrap_or_else(|difference| panic!("{difference}"));
    }
}

/// Only the log counts debt beyond 2^53. The others saturate, which the models do not.
fn without_huge_debt(trace: &mut Trace) {
    if trace.policy.quotas.iter().any(|quota| quota.limit > 1 << 52) {
        trace.steps.retain(|step| !matches!(step.op, Op::Settle | Op::Charge));
    }
}

fn on_one(server: &ServerBuilder, test: impl Fn(&dyn Fn() -> RedisBuilder)) {
    let server = server.start().unwrap();
    test(&|| patient(&server.url()));
    for (key, ttl) in common::keys(&server) {
        assert!(ttl > 0, "{key} has no TTL");
    }
}

fn on_cluster(node: &ServerBuilder, seeds: u64) {
    let cluster = Cluster::start(node).unwrap();
    let connect = || {
        let long = Duration::from_secs(10);
        Redis::cluster(&cluster.urls()).unwrap().deadline(long).connect_deadline(long)
    };
    all_traces(&connect, seeds);
}

#[test]
fn redis() {
    on_one(&RedisServer::builder(), |connect| all_traces(connect, 0));
}

/// Runs a thousand random traces, compared with the model.
fn redis_matches_the_model(algorithm: Algorithm, change: impl Fn(&mut Trace)) {
    on_one(&RedisServer::builder(), |connect| random_traces(connect, algorithm, 1000, &change));
}

#[test]
fn redis_log_matches_the_model() {
    redis_matches_the_model(Algorithm::Log, |_| {});
}

// A byte cap that is never reached must change nothing.
#[test]
fn redis_log_below_its_cap_matches_the_model() {
    redis_matches_the_model(Algorithm::Log, |trace| trace.policy.bytes_max = Some(65_536));
}

#[test]
fn redis_counter_matches_the_model() {
    redis_matches_the_model(Algorithm::Counter, |_| {});
}

#[test]
fn redis_segments_match_the_model() {
    redis_matches_the_model(Algorithm::Segments, |_| {});
}

#[test]
fn redis_gcra_matches_the_model() {
    redis_matches_the_model(Algorithm::Gcra, |_| {});
}

#[test]
fn redis_fixed_matches_the_model() {
    redis_matches_the_model(Algorithm::Fixed, |_| {});
}

#[test]
fn redis_cluster() {
    on_cluster(&RedisServer::builder(), 20);
}

#[test]
fn valkey() {
    on_one(&RedisServer::valkey(), |connect| all_traces(connect, 40));
}

#[test]
fn valkey_cluster() {
    on_cluster(&RedisServer::valkey(), 10);
}
