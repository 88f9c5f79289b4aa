//! Reports of degraded operation: one at its start with the cause, one at its end with the count.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use slidegate::{DegradedReason, FailureMode, Policy, Quota};
use slidegate_redis::{Redis, RedisBuilder, RedisLimiter, StateChange};
use slidegate_testkit::server::RedisServer;

use crate::common::{crew, eventually};

type Changes = Arc<Mutex<Vec<StateChange>>>;

fn limiter(builder: RedisBuilder) -> (RedisLimiter, Changes) {
    let changes = Changes::default();
    let seen = Arc::clone(&changes);
    let builder = builder.on_state_change(move |it| seen.lock().unwrap().push(it.clone()));
    let policy = Policy::builder("api")
        .quota(Quota::per_hour(1_000_000))
        .failure_mode(FailureMode::Allow)
        .build()
        .unwrap();
    (builder.build().unwrap().limiter(policy).build().unwrap(), changes)
}

/// Checks until there is a report, then ten times more. Returns the only report.
async fn only_report(limiter: &RedisLimiter, changes: &Changes) -> (DegradedReason, String) {
    eventually("a report", async || {
        assert!(limiter.check("k").await.is_degraded());
        !changes.lock().unwrap().is_empty()
    })
    .await;
    for _ in 0..10 {
        assert!(limiter.check("k").await.is_degraded());
    }
    let changes = changes.lock().unwrap();
    let only = match changes.as_slice() {
        [StateChange::Degraded { reason, cause, .. }] => Some((*reason, cause.clone())),
        _ => None,
    };
    only.unwrap_or_else(|| unreachable!("{changes:?}"))
}

#[test]
fn a_wrong_password_is_reported_once_with_its_cause() {
    let server = RedisServer::builder().password("right").start().unwrap();
    let address = format!("redis://:wrong-secret@127.0.0.1:{}", server.port());
    crew().block_on(async {
        let (limiter, changes) = limiter(Redis::single(&address).unwrap());
        let (reason, cause) = only_report(&limiter, &changes).await;
        assert_eq!(reason, DegradedReason::Unauthorized);
        assert!(cause.contains("WRONGPASS") && cause.contains("127.0.0.1"), "{cause}");
        assert!(!cause.contains("wrong-secret"), "{cause}");
    });
}

#[test]
fn a_wrong_address_is_reported_once_with_its_cause() {
    let mut server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let cases =
        [(server.url(), "refused"), ("redis://no-such-host.invalid".into(), "no-such-host")];
    for (address, words) in cases {
        crew().block_on(async {
            let (limiter, changes) = limiter(Redis::single(&address).unwrap());
            let (reason, cause) = only_report(&limiter, &changes).await;
            assert_eq!(reason, DegradedReason::Unreachable);
            assert!(cause.contains(words), "{cause}");
        });
    }
}

#[test]
fn the_end_of_an_outage_is_reported_with_its_count() {
    let mut server = RedisServer::start().unwrap();
    crew().block_on(async {
        let redis = Redis::single(&server.url()).unwrap().deadline(Duration::from_secs(1));
        let (limiter, changes) = limiter(redis);
        eventually("a decision of Redis", async || !limiter.check("k").await.is_degraded()).await;
        let before = limiter.stats().degraded;
        server.kill().unwrap();
        let (_, cause) = only_report(&limiter, &changes).await;
        assert!(cause.starts_with("Redis: "), "{cause}");
        server.restart().unwrap();
        eventually("a decision of Redis", async || !limiter.check("k").await.is_degraded()).await;
        let counted = limiter.stats().degraded - before;
        // No further check is needed.
        eventually("the end", async || changes.lock().unwrap().len() > 1).await;
        let changes = changes.lock().unwrap();
        let [_, StateChange::Recovered { degraded, duration, .. }] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        assert_eq!(*degraded, counted);
        assert!(!duration.is_zero());
    });
}
