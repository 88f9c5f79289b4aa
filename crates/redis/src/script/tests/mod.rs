//! The scripts in a real server.

mod server;
mod subject;

mod clocks;
mod conformance;
mod damage;
mod edges;
mod golden;
mod lint;
mod many;
mod random;
mod together;
mod writes;

use core::time::Duration;

use slidegate::{Algorithm, Quota};

use super::{Answer, ScriptLimits};
use server::Server;
use subject::{Caller, RedisSubject};

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// The usual start of a test's clock.
const START: Duration = Duration::from_secs(1_700_000_000);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Quotas as limit and milliseconds, in ticks of a millisecond.
fn limits(algorithm: Algorithm, quotas: &[(u64, u64)]) -> ScriptLimits {
    let quota = |&(limit, millis): &(u64, u64)| Quota::new(limit, ms(millis)).unwrap();
    let quotas: Vec<Quota> = quotas.iter().map(quota).collect();
    ScriptLimits::new(&quotas, algorithm, ms(1), ms(1)).unwrap()
}

/// Whether it was allowed, the units taken, and those that count against the first quota.
fn decided(answer: &Answer) -> (bool, u64, u64) {
    match answer {
        Answer::Decided { allowed, units, used, .. } => (*allowed, *units, used[0]),
        other => panic!("{other:?} is no decision"),
    }
}

/// How long until the cost passes the first quota.
fn retry_after(answer: &Answer) -> Option<Duration> {
    match answer {
        Answer::Decided { quotas, .. } => quotas[0].retry_after(),
        other => panic!("{other:?} is no decision"),
    }
}
