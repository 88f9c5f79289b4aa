//! The scripts in a real server: behavior that is not visible through a limiter.
//!
//! `tests/conformance.rs` runs the traces of every algorithm, `tests/given_clock.rs` steps the
//! clock.

mod block;
mod borders;
mod charge;
mod coverage;
mod damage;
mod leases;
mod lint;
mod many;
mod numbers;
mod refund;
mod refused;
mod server_clock;
mod source;
mod together;

use core::time::Duration;

use redis::{Connection, FromRedisValue, ScriptInvocation, Value};
use slidegate::{Algorithm, Error, ErrorKind, Quota};
use slidegate_testkit::server::RedisServer;

use super::reply::ScriptReply;
use super::{
    Charge, Clock, KeyOp, KeyReply, MAIN, Op, ScriptKind, ScriptLimits, arguments, parse, text,
};

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

/// A server, a connection to it, and the scripts with the test clock.
struct Caller {
    connection: Connection,
    scripts: [redis::Script; ScriptKind::ALL.len()],
    _server: RedisServer,
}

impl Caller {
    fn start() -> Self {
        let server = RedisServer::start().unwrap();
        let script = |kind| coverage::prepare(&text(kind, Clock::Given, MAIN));
        let scripts = ScriptKind::ALL.map(script);
        Self { connection: server.connection().unwrap(), scripts, _server: server }
    }

    /// Runs the matching script at `now`.
    fn call(
        &mut self,
        now: Duration,
        keys: &[&str],
        ops: &[KeyOp<'_>],
    ) -> Result<ScriptReply, Error> {
        let script = self.scripts[ScriptKind::of(ops) as usize].clone();
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        for argument in arguments(ops, Some(now)) {
            call.arg(argument);
        }
        parse(self.invoke(&call)?, ops)
    }

    /// Runs a script that [`coverage::prepare`] returned.
    fn invoke(&mut self, call: &ScriptInvocation<'_>) -> Result<Value, Error> {
        let failed = |text: String| Error::new(ErrorKind::Store, text);
        let value = call.invoke(&mut self.connection);
        coverage::record(value.map_err(|error| failed(error.to_string()))?).map_err(failed)
    }

    /// Returns the reply for one key.
    fn run(
        &mut self,
        now: Duration,
        key: &str,
        limits: &ScriptLimits,
        op: Op<'_>,
    ) -> Result<KeyReply, Error> {
        let mut reply = self.call(now, &[key], &[KeyOp { limits, op }])?;
        assert_eq!(reply.server_time, now, "the script read another clock");
        Ok(reply.keys.remove(0))
    }

    /// Runs a command of Redis, its words separated by spaces.
    fn command<T: FromRedisValue>(&mut self, words: &str) -> T {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query(&mut self.connection).unwrap()
    }

    fn flush(&mut self) {
        self.command::<()>("FLUSHALL");
    }

    fn set(&mut self, key: &str, value: &[u8]) {
        redis::cmd("SET").arg(key).arg(value).exec(&mut self.connection).unwrap();
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns units admitted `age_ms` milliseconds ago.
const fn charge(units: u64, age_ms: u64) -> Charge {
    Charge { units, age: Duration::from_millis(age_ms) }
}

/// Creates quotas from limits and milliseconds, in ticks of a millisecond.
fn limits(algorithm: Algorithm, quotas: &[(u64, u64)]) -> ScriptLimits {
    let quota = |&(limit, millis): &(u64, u64)| Quota::new(limit, ms(millis)).unwrap();
    let quotas: Vec<Quota> = quotas.iter().map(quota).collect();
    ScriptLimits::new(&quotas, algorithm, ms(1), ms(1)).unwrap()
}

/// Returns whether it was allowed, the units taken, and those that count against the first quota.
fn decided(reply: &KeyReply) -> (bool, u64, u64) {
    match reply {
        KeyReply::Decision { allowed, units, used, .. } => (*allowed, *units, used[0]),
        other => panic!("{other:?} is not a decision"),
    }
}

/// Returns the time until the first quota allows the cost.
fn retry_after(reply: &KeyReply) -> Option<Duration> {
    match reply {
        KeyReply::Decision { quotas, .. } => quotas[0].retry_after().duration(),
        other => panic!("{other:?} is not a decision"),
    }
}

/// Returns the refund of the units of a check.
fn refund_of(reply: &KeyReply) -> Op<'static> {
    match *reply {
        KeyReply::Decision { tick, epoch, units, .. } => Op::Refund { tick, units, epoch },
        ref other => panic!("{other:?} is not a decision"),
    }
}
