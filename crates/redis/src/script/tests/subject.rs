//! The scripts as a subject of traces.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use redis::{Connection, Script, Value};
use slidegate::{Error, ErrorKind};
use slidegate_testkit::{
    Answer as Answered, Mode, PolicySpec, QuotaSpec, Refusal, Standing, Subject, Trace,
};

use super::super::reply::Reply;
use super::super::{Answer, Ask, Clock, Kind, Op, ScriptLimits, arguments, compose, parse};

/// A connection and the scripts that believe the time they are given.
pub(super) struct Caller {
    connection: Connection,
    scripts: Vec<(Kind, Script)>,
}

impl Caller {
    pub(super) fn new(connection: Connection) -> Self {
        let kinds =
            [Kind::Log, Kind::Counter, Kind::Segments, Kind::Gcra, Kind::Fixed, Kind::Mixed];
        let scripts = kinds.map(|kind| (kind, Script::new(compose(kind, Clock::Given).text())));
        Self { connection, scripts: scripts.into() }
    }

    /// Runs the script that fits, at `now`.
    pub(super) fn call(
        &mut self,
        now: Duration,
        keys: &[&str],
        asks: &[Ask<'_>],
    ) -> Result<Reply, Error> {
        let kind = Kind::of(asks);
        let (_, script) = self.scripts.iter().find(|(known, _)| *known == kind).unwrap();
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        for argument in arguments(asks, Some(now)) {
            call.arg(argument);
        }
        let value: Value = call
            .invoke(&mut self.connection)
            .map_err(|error| Error::new(ErrorKind::Store, error.to_string()))?;
        parse(value, asks)
    }

    /// The answer for one key.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        key: &str,
        limits: &ScriptLimits,
        op: Op,
    ) -> Result<Answer, Error> {
        let mut reply = self.call(now, &[key], &[Ask::new(limits, op)?])?;
        assert_eq!(reply.server_time, now, "the script believed another clock");
        Ok(reply.answers.remove(0))
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// What an allowed check took.
#[derive(Debug)]
pub(super) struct Taken {
    key: String,
    tick: u64,
    units: u64,
    epoch: u16,
}

/// A policy in a server, whose clock is set by hand and never goes back: in memory it is clamped
/// too, before a window sees it.
pub(super) struct RedisSubject {
    caller: Rc<RefCell<Caller>>,
    now: Duration,
    shadow: bool,
    own: ScriptLimits,
    tiers: BTreeMap<String, ScriptLimits>,
}

impl RedisSubject {
    /// A limiter for the policy of a trace, on a server that is emptied first.
    pub(super) fn new(caller: &Rc<RefCell<Caller>>, trace: &Trace) -> Result<Self, Refusal> {
        let mut borrowed = caller.borrow_mut();
        redis::cmd("FLUSHALL").exec(borrowed.connection()).map_err(failed)?;
        let policy = &trace.policy;
        let all = policy.tiers.values().chain([&policy.quotas]);
        let longest = all.flatten().map(|quota| quota.window_ms).max().unwrap_or(1);
        let limits = |quotas: &[QuotaSpec]| limits(policy, quotas, longest).map_err(failed);
        let tiers = policy.tiers.iter();
        Ok(Self {
            caller: Rc::clone(caller),
            now: Duration::from_millis(trace.start_ms),
            shadow: policy.mode == Mode::Shadow,
            own: limits(&policy.quotas)?,
            tiers: tiers
                .map(|(name, quotas)| Ok((name.clone(), limits(quotas)?)))
                .collect::<Result<_, Refusal>>()?,
        })
    }

    fn ask(&self, key: &str, limits: &ScriptLimits, op: Op) -> Result<Answer, Refusal> {
        self.caller.borrow_mut().ask(self.now, key, limits, op).map_err(failed)
    }

    fn answered(&self, allowed: bool, quotas: &[slidegate::QuotaDecision]) -> Answered {
        let standing = |quota: &slidegate::QuotaDecision| Standing {
            limit: quota.limit(),
            remaining: quota.remaining(),
            retry_after: quota.retry_after(),
            reset_after: quota.reset_after(),
        };
        Answered {
            allowed: allowed || self.shadow,
            shadow_denied: !allowed && self.shadow,
            quotas: quotas.iter().map(standing).collect(),
        }
    }
}

impl Subject for RedisSubject {
    type Receipt = Taken;

    fn set_time(&mut self, now: Duration) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answered, Option<Taken>), Refusal> {
        let limits = tier.map_or(Some(&self.own), |tier| self.tiers.get(tier));
        let limits = limits.ok_or_else(|| Refusal::Failed("no such tier".into()))?;
        let op = if self.shadow { Op::Shadow { cost } } else { Op::Check { cost } };
        match self.ask(key, limits, op)? {
            Answer::Decided { allowed, tick, epoch, units, quotas, .. } => {
                let taken = allowed.then(|| Taken { key: key.into(), tick, units, epoch });
                Ok((self.answered(allowed, &quotas), taken))
            }
            other => Err(Refusal::Failed(format!("{other:?}"))),
        }
    }

    fn reserve(&mut self, key: &str, cost: u64) -> Result<(Answered, Option<Taken>), Refusal> {
        self.check(key, None, cost)
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answered, Refusal> {
        match self.ask(key, &self.own, Op::Peek { cost })? {
            Answer::Decided { allowed, units: 0, quotas, .. } => {
                Ok(self.answered(allowed, &quotas))
            }
            other => Err(Refusal::Failed(format!("{other:?}"))),
        }
    }

    fn refund(&mut self, receipt: Taken) -> Result<u64, Refusal> {
        let Taken { key, tick, units, epoch } = receipt;
        match self.ask(&key, &self.own, Op::Refund { tick, units, epoch })? {
            Answer::Units(units) => Ok(units),
            other => Err(Refusal::Failed(format!("{other:?}"))),
        }
    }

    fn settle(&mut self, receipt: Taken, actual: u64) -> Result<u64, Refusal> {
        let units = receipt.units;
        if actual < units {
            return Ok(units - self.refund(Taken { units: units - actual, ..receipt })?);
        }
        if actual > units {
            self.ask(&receipt.key, &self.own, Op::Charge { cost: actual - units })?;
        }
        Ok(actual)
    }

    fn reset(&mut self, key: &str) -> Result<bool, Refusal> {
        Ok(self.ask(key, &self.own, Op::Reset)? == Answer::Found(true))
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, Refusal> {
        match self.ask(key, &self.own, Op::Peek { cost: 1 })? {
            Answer::Decided { used, .. } => Ok(used),
            other => Err(Refusal::Failed(format!("{other:?}"))),
        }
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, Refusal> {
        match self.ask(key, &self.own, Op::History)? {
            Answer::History(entries) => {
                let dated = |(tick, units)| (self.own.duration(tick), units);
                Ok(entries.into_iter().map(dated).collect())
            }
            other => Err(Refusal::Failed(format!("{other:?}"))),
        }
    }
}

pub(super) fn limits(
    policy: &PolicySpec,
    quotas: &[QuotaSpec],
    longest_ms: u64,
) -> Result<ScriptLimits, Error> {
    let tick = Duration::from_millis(policy.tick_ms);
    let quotas = slidegate_testkit::quotas(quotas)?;
    ScriptLimits::new(&quotas, policy.limiter_algorithm()?, tick, Duration::from_millis(longest_ms))
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn failed(error: impl ToString) -> Refusal {
    Refusal::Failed(error.to_string())
}
