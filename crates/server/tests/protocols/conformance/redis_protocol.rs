//! The traces over the Redis protocol. It reports only the tightest quota, so traces with one quota
//! are played.

use std::sync::Arc;
use std::time::Duration;

use redis::{Connection, RedisResult, Value};
use slidegate::ManualClock;
use slidegate_server::access::Access;
use slidegate_server::resp::{self, RespLimits};
use slidegate_testkit::{Answer, Capability, QuotaStatus, Subject, SubjectError};
use tokio::net::TcpListener;

use super::{engine, play, traces};

struct RespSubject<'a> {
    connection: Connection,
    policy: &'a str,
    clock: &'a ManualClock,
}

type KeyAndReceipt = (String, String);

/// The five numbers, and perhaps a receipt.
type Reply = (bool, u64, u64, i64, u64, Option<String>);

impl RespSubject<'_> {
    fn ask(&mut self, command: &str, key: &str, cost: u64) -> Result<Vec<Value>, SubjectError> {
        let mut asked = redis::cmd(command);
        asked.arg(self.policy).arg(named(key)).arg("COST").arg(cost);
        done(asked.query(&mut self.connection))
    }
}

/// The daemon takes no empty keys, and a trace has one.
fn named(key: impl AsRef<str>) -> String {
    format!("key {}", key.as_ref())
}

fn done<T>(result: RedisResult<T>) -> Result<T, SubjectError> {
    result.map_err(|error| SubjectError::Failed(error.to_string()))
}

fn answer(values: &[Value]) -> (Answer, Option<String>) {
    let reply: Reply = match values {
        [_, _, _, _, _] => {
            let (allowed, limit, remaining, retry, reset) =
                redis::from_redis_value(Value::Array(values.to_vec())).unwrap();
            (allowed, limit, remaining, retry, reset, None)
        }
        _ => redis::from_redis_value(Value::Array(values.to_vec())).unwrap(),
    };
    let (allowed, limit, remaining, retry, reset, receipt) = reply;
    let standing = QuotaStatus {
        limit,
        remaining,
        retry_after: u64::try_from(retry).ok().map(Duration::from_millis),
        reset_after: Duration::from_millis(reset),
    };
    (Answer { allowed, shadow_denied: false, quotas: vec![standing] }, receipt)
}

impl Subject for RespSubject<'_> {
    type Receipt = KeyAndReceipt;

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.clock.set(now);
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<KeyAndReceipt>), SubjectError> {
        if tier.is_some() {
            return Err(SubjectError::Unsupported(Capability::Tiers));
        }
        self.reserve(key, cost)
    }

    fn reserve(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<(Answer, Option<KeyAndReceipt>), SubjectError> {
        let (answer, receipt) = answer(&self.ask("SG.RESERVE", key, cost)?);
        Ok((answer, receipt.map(|receipt| (key.to_owned(), receipt))))
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answer, SubjectError> {
        Ok(answer(&self.ask("SG.PEEK", key, cost)?).0)
    }

    fn refund(&mut self, (key, receipt): KeyAndReceipt) -> Result<u64, SubjectError> {
        let mut asked = redis::cmd("SG.REFUND");
        done(asked.arg(self.policy).arg(named(key)).arg(receipt).query(&mut self.connection))
    }

    fn settle(&mut self, (key, receipt): KeyAndReceipt, actual: u64) -> Result<u64, SubjectError> {
        let mut asked = redis::cmd("SG.SETTLE");
        asked.arg(self.policy).arg(named(key)).arg(receipt).arg(actual);
        done(asked.query(&mut self.connection))
    }

    fn reset(&mut self, key: &str) -> Result<bool, SubjectError> {
        done(redis::cmd("SG.RESET").arg(self.policy).arg(named(key)).query(&mut self.connection))
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, SubjectError> {
        done(redis::cmd("SG.USAGE").arg(self.policy).arg(named(key)).query(&mut self.connection))
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        let asked: Result<Vec<(u64, u64)>, _> = done(
            redis::cmd("SG.HISTORY").arg(self.policy).arg(named(key)).query(&mut self.connection),
        );
        Ok(asked?.into_iter().map(|(at, units)| (Duration::from_millis(at), units)).collect())
    }
}

#[test]
fn traces_through_the_redis_protocol() {
    let mut traces = traces();
    traces.retain(|trace| trace.policy.quotas.len() == 1);
    assert!(traces.len() >= 60, "{}", traces.len());
    let (engine, clock) = engine(&traces);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let port = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (engine, limits) = (Arc::clone(&engine), RespLimits::default());
                tokio::spawn(resp::serve(
                    stream,
                    engine,
                    Access::open(),
                    limits,
                    Arc::default(),
                    std::future::pending(),
                ));
            }
        });
        port
    });
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    for trace in &traces {
        let connection = client.get_connection().unwrap();
        play(trace, &mut RespSubject { connection, policy: &trace.name, clock: &clock });
    }
}
