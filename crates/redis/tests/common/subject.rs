//! A limiter on Redis as a subject of the conformance traces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slidegate::{Cost, Decision, ManualClock, Receipt, Tier};
use slidegate_redis::{Redis, RedisBuilder, RedisLimiter};
use slidegate_testkit::{
    Answer, AnswerAndTaken, PolicySpec, QuotaStatus, Subject, SubjectError, Taken, Trace, quotas,
};
use tokio::runtime::Runtime;

/// A limiter with a manual clock and unique keys.
pub(crate) struct RedisSubject {
    runtime: Arc<Runtime>,
    limiter: RedisLimiter,
    tiers: BTreeMap<String, Tier>,
    clock: ManualClock,
    now: Duration,
    run: u64,
}

impl RedisSubject {
    /// Creates a limiter for the policy of a trace. `connect` returns the builder of the servers.
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        connect: &dyn Fn() -> RedisBuilder,
        trace: &Trace,
    ) -> Result<Self, SubjectError> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let clock = ManualClock::new(Duration::from_millis(trace.start_ms));
        let redis = connect().test_clock(clock.clone()).build().map_err(failed)?;
        let limiter = limiter(&redis, &trace.policy).map_err(failed)?;
        let tiers = trace
            .policy
            .tiers
            .iter()
            .map(|(name, specs)| Ok((name.clone(), limiter.tier(&quotas(specs)?)?)));
        let tiers = tiers.collect::<Result<_, slidegate::Error>>().map_err(failed)?;
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let runtime = Arc::clone(runtime);
        Ok(Self { runtime, limiter, tiers, clock, now: Duration::ZERO, run })
    }

    fn key(&self, key: &str) -> String {
        format!("{}-{}-{key}", std::process::id(), self.run)
    }
}

impl Subject for RedisSubject {
    type Receipt = (String, Receipt);

    /// Like memory, does not let the clock go back. Clock steps of a server have separate tests.
    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.now = self.now.max(now);
        self.clock.set(self.now);
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<Self::Receipt>), SubjectError> {
        let key = self.key(key);
        let cost = Cost::new(cost).map_err(failed)?;
        let decision = match tier {
            None => self.runtime.block_on(self.limiter.check_cost(&key, cost)),
            Some(name) => {
                let unknown = || SubjectError::Failed(format!("unknown tier {name}"));
                let tier = self.tiers.get(name).ok_or_else(unknown)?;
                self.runtime.block_on(self.limiter.with(tier).unwrap().check_cost(&key, cost))
            }
        };
        answered(&decision).map(|answer| (answer, decision.into_receipt().map(|of| (key, of))))
    }

    fn reserve(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<(Answer, Option<Self::Receipt>), SubjectError> {
        self.check(key, None, cost)
    }

    fn check_at_most(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<AnswerAndTaken<Self::Receipt>, SubjectError> {
        let key = self.key(key);
        let cost = Cost::new(cost).map_err(failed)?;
        let decision = self.runtime.block_on(self.limiter.check_at_most(&key, cost));
        let answer = answered(&decision)?;
        let taken = |of: Receipt| Taken { units: of.units(), receipt: (key, of) };
        Ok((answer, decision.into_receipt().map(taken)))
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answer, SubjectError> {
        let cost = Cost::new(cost).map_err(failed)?;
        let decision = self.runtime.block_on(self.limiter.peek_cost(self.key(key), cost));
        answered(&decision.map_err(failed)?)
    }

    fn refund(&mut self, (key, receipt): Self::Receipt) -> Result<u64, SubjectError> {
        self.runtime.block_on(self.limiter.refund(key, receipt)).map_err(failed)
    }

    fn forgive(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        self.runtime.block_on(self.limiter.forgive(self.key(key), units)).map_err(failed)
    }

    fn settle(&mut self, (key, receipt): Self::Receipt, actual: u64) -> Result<u64, SubjectError> {
        self.runtime.block_on(self.limiter.settle(key, receipt, actual)).map_err(failed)
    }

    fn charge(&mut self, key: &str, units: u64) -> Result<u64, SubjectError> {
        self.runtime.block_on(self.limiter.charge(self.key(key), units)).map_err(failed)
    }

    fn block(&mut self, key: &str, time: Duration) -> Result<(), SubjectError> {
        self.runtime.block_on(self.limiter.block(self.key(key), time)).map_err(failed)
    }

    fn unblock(&mut self, key: &str) -> Result<bool, SubjectError> {
        self.runtime.block_on(self.limiter.unblock(self.key(key))).map_err(failed)
    }

    fn reset(&mut self, key: &str) -> Result<bool, SubjectError> {
        self.runtime.block_on(self.limiter.reset(self.key(key))).map_err(failed)
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, SubjectError> {
        let usage = self.runtime.block_on(self.limiter.usage(self.key(key))).map_err(failed)?;
        Ok(usage.as_slice().to_vec())
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        let events = self.runtime.block_on(self.limiter.history(self.key(key))).map_err(failed)?;
        Ok(events.into_iter().map(|event| (event.at, event.units)).collect())
    }
}

fn limiter(redis: &Redis, spec: &PolicySpec) -> Result<RedisLimiter, slidegate::Error> {
    // The deny cache does not use the manual clock.
    let builder = redis.limiter(spec.policy("trace")?).deny_cache(0);
    builder.tick(Duration::from_millis(spec.tick_ms)).build()
}

fn answered(decision: &Decision) -> Result<Answer, SubjectError> {
    if decision.is_degraded() {
        return Err(SubjectError::Failed("the store did not answer".to_owned()));
    }
    let standing = |quota: &slidegate::QuotaDecision| QuotaStatus {
        limit: quota.limit(),
        remaining: quota.remaining(),
        retry_after: quota.retry_after().duration(),
        reset_after: quota.reset_after(),
    };
    Ok(Answer {
        allowed: decision.is_allowed(),
        shadow_denied: decision.is_shadow_denied(),
        quotas: decision.quotas().iter().map(standing).collect(),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn failed(error: slidegate::Error) -> SubjectError {
    SubjectError::Failed(error.to_string())
}
