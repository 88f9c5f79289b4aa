//! Thousands of made-up traces for every algorithm, over the scripts and the naive models.
//!
//! A failure prints the shortest trace that shows it.

use std::cell::RefCell;
use std::rc::Rc;

use slidegate_testkit::{Algorithm, Op, Refusal, Trace, compare_with, random_trace};

use super::subject::Caller;
use super::{RedisSubject, Server};

const SEEDS: u64 = 1000;

/// Plays made-up traces, and after each looks whether all keys will go by themselves.
fn failures(algorithm: Algorithm, change: impl Fn(&mut Trace)) -> String {
    let server = Server::start();
    let caller = Rc::new(RefCell::new(Caller::new(server.connect())));
    let make = |trace: &Trace| RedisSubject::new(&caller, trace);
    let failures = (0..SEEDS).filter_map(|seed| {
        let mut trace = random_trace(seed, algorithm);
        change(&mut trace);
        let compared = compare_with(&trace, make);
        compared.and_then(|()| immortal(&caller).map_err(|refusal| refusal.to_string())).err()
    });
    failures.take(5).collect::<Vec<_>>().join("\n")
}

/// A key without a TTL would stay for ever.
fn immortal(caller: &Rc<RefCell<Caller>>) -> Result<(), Refusal> {
    let failed = |error: redis::RedisError| Refusal::Failed(error.to_string());
    let mut caller = caller.borrow_mut();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("*").query(caller.connection()).map_err(failed)?;
    for key in keys {
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(caller.connection()).map_err(failed)?;
        if ttl <= 0 {
            return Err(Refusal::Failed(format!("{key} has a TTL of {ttl}")));
        }
    }
    Ok(())
}

/// Only the log sums up debt beyond 2^53; the others stop counting there, which the models do not.
fn without_huge_debt(trace: &mut Trace) {
    if trace.policy.quotas.iter().any(|quota| quota.limit > 1 << 52) {
        trace.steps.retain(|step| step.op != Op::Settle);
    }
}

#[test]
fn redis_is_the_log() {
    assert_eq!(failures(Algorithm::Log, |_| {}), "");
}

#[test]
fn redis_is_the_counter() {
    assert_eq!(failures(Algorithm::Counter, without_huge_debt), "");
}

#[test]
fn redis_is_the_segments() {
    assert_eq!(failures(Algorithm::Segments, without_huge_debt), "");
}

#[test]
fn redis_is_the_gcra() {
    assert_eq!(failures(Algorithm::Gcra, without_huge_debt), "");
}

#[test]
fn redis_is_the_fixed_window() {
    assert_eq!(failures(Algorithm::Fixed, without_huge_debt), "");
}

/// A byte cap that is never reached must change nothing.
#[test]
fn a_log_below_its_cap_is_the_log() {
    let capped = |trace: &mut Trace| trace.policy.bytes_max = Some(65_536);
    assert_eq!(failures(Algorithm::Log, capped), "");
}
