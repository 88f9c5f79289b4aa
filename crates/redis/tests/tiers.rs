//! Tiers with counts in Redis, and while it is unavailable.
//!
//! What could go wrong: units of a tier refunded with the policy's quotas, a paying customer
//! limited by the policy's quotas while Redis is unavailable, a receipt of the local limiter
//! refunded in Redis.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::time::Duration;

use common::{eventually, failing, patient, policy, runtime};
use slidegate::{
    Algorithm, Cost, Decision, FailureMode, Limiter, ManualClock, Policy, Quota, Receipt, Tier,
};
use slidegate_redis::{Redis, RedisAsk, RedisLimiter, check_all};
use slidegate_testkit::server::{AcceptMode, Proxy, RedisServer};

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const HOUR_MS: u64 = 3_600_000;

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn receipt(decision: Decision) -> Receipt {
    decision.into_receipt().unwrap()
}

// A bucket with the policy's rate would get twelve units for one; the windows of the others would
// be rebuilt at every refund, with all units recorded now.
#[test]
fn refunds_use_the_quotas_of_the_tier_as_in_memory() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        for algorithm in ALGORITHMS {
            let clock = ManualClock::new(Duration::from_millis(1_700_000_000_007));
            let per_minute = Quota::per_minute(10);
            let per_hour = [Quota::per_hour(7200)];
            let policy = Policy::builder("minute").quota(per_minute).algorithm(algorithm);
            let policy = policy.build().unwrap();
            let redis = patient(&server.url()).test_clock(clock.clone()).build().unwrap();
            let shared = redis.limiter(policy.clone()).deny_cache(0).build().unwrap();
            let memory = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
            let key = format!("{algorithm:?}");
            // The bucket would be full again by then.
            let passed = if algorithm == Algorithm::Gcra { 0 } else { 120_000 };

            let hour = shared.tier(&per_hour).unwrap();
            let take = async |units| {
                receipt(shared.with(&hour).unwrap().check_cost(&key, cost(units)).await)
            };
            let used = async || shared.with(&hour).unwrap().usage(&key).await.unwrap().units(0);
            let (refunded, more, less) = (take(1).await, take(2).await, take(6).await);
            clock.advance(Duration::from_millis(passed));
            let shared = [
                shared.with(&hour).unwrap().refund(&key, refunded).await.unwrap(),
                used().await,
                shared.with(&hour).unwrap().settle(&key, more, 3).await.unwrap(),
                shared.with(&hour).unwrap().settle(&key, less, 4).await.unwrap(),
                used().await,
            ];

            clock.set(Duration::from_millis(1_700_000_000_007));
            let hour = memory.tier(&per_hour).unwrap();
            let take = |units| receipt(memory.with(&hour).unwrap().check_cost(&key, cost(units)));
            let used = || memory.with(&hour).unwrap().usage(&key).units(0);
            let (refunded, more, less) = (take(1), take(2), take(6));
            clock.advance(Duration::from_millis(passed));
            let memory = [
                memory.with(&hour).unwrap().refund(refunded),
                used(),
                memory.with(&hour).unwrap().settle(more, 3),
                memory.with(&hour).unwrap().settle(less, 4),
                used(),
            ];
            assert_eq!(shared, [1, 8, 3, 4, 7], "{algorithm:?}");
            assert_eq!(shared, memory, "{algorithm:?}");
        }
    });
}

#[test]
fn reads_of_a_tier_cover_its_window() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let start = Duration::from_millis(1_700_000_000_007);
        let clock = ManualClock::new(start);
        let redis = patient(&server.url()).test_clock(clock.clone()).build().unwrap();
        let limiter = redis.limiter(policy("minute", 10, 60_000)).deny_cache(0).build().unwrap();
        let hour = limiter.tier(&[Quota::per_hour(5)]).unwrap();
        assert!(limiter.with(&hour).unwrap().check_cost("k", cost(2)).await.is_allowed());
        clock.advance(Duration::from_secs(120));
        assert!(limiter.with(&hour).unwrap().check("k").await.is_allowed());

        assert_eq!(limiter.usage("k").await.unwrap().as_slice(), [1]);
        assert_eq!(limiter.with(&hour).unwrap().usage("k").await.unwrap().as_slice(), [3]);
        assert_eq!(limiter.history("k").await.unwrap().len(), 1);
        let events = limiter.with(&hour).unwrap().history("k").await.unwrap();
        let events: Vec<_> = events.iter().map(|event| (event.at, event.units)).collect();
        assert_eq!(events, [(start, 2), (start + Duration::from_secs(120), 1)]);
        assert_eq!(limiter.peek("k").await.unwrap().remaining(), 9);
        let look = limiter.with(&hour).unwrap().peek_cost("k", cost(3)).await.unwrap();
        assert!(!look.is_allowed() && look.remaining() == 2, "{look:?}");
    });
}

/// Ten per hour, of which nine are used, and gold customers with a hundred per day, of which ninety
/// are used.
struct Shop {
    _server: RedisServer,
    proxy: Proxy,
    limiter: RedisLimiter,
    gold: Tier,
}

impl Shop {
    async fn open(mode: FailureMode, nodes: u64) -> Self {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let redis = Redis::single(proxy.url()).unwrap().deadline(Duration::from_secs(2));
        let redis = redis.breaker(1, Duration::from_millis(50)).build().unwrap();
        let limiter = redis.limiter(failing(&policy("shop", 10, HOUR_MS), mode)).deny_cache(0);
        let limiter = limiter.nodes(nodes).guard_band(0.9).build().unwrap();
        let gold = limiter.tier(&[Quota::per_day(100)]).unwrap();
        let shop = Self { _server: server, proxy, limiter, gold };
        shop.connect().await;
        shop
    }

    /// From now on nothing reaches Redis, also not later.
    fn cut_off(&self) {
        self.proxy.set_accept_mode(AcceptMode::Shut).unwrap();
        self.proxy.close_all();
    }

    async fn connect(&self) {
        self.proxy.heal().unwrap();
        let answers = async || self.limiter.peek("absent").await.is_ok();
        eventually("an answer", answers).await;
    }

    async fn gold(&self, units: u64) -> Decision {
        self.limiter.with(&self.gold).unwrap().check_cost("k", cost(units)).await
    }

    async fn in_redis(&self) -> u64 {
        self.limiter.with(&self.gold).unwrap().usage("k").await.unwrap().units(0)
    }
}

#[test]
fn tiers_apply_while_redis_is_unavailable() {
    runtime().block_on(async {
        let shop = Shop::open(FailureMode::Local, 2).await;
        let decision = shop.gold(5).await;
        assert!(!decision.is_degraded() && decision.quotas()[0].limit() == 90);
        shop.cut_off();

        let default = shop.limiter.check("other").await;
        assert!(default.is_degraded());
        assert_eq!(default.quotas()[0].limit(), 4, "of nine, one of two processes");
        let decision = shop.gold(41).await;
        assert!(!decision.is_allowed(), "it begins with what Redis allowed: {decision:?}");
        let decision = shop.gold(40).await;
        assert!(decision.is_allowed() && decision.is_degraded());
        assert_eq!(decision.quotas()[0].limit(), 45, "of ninety, one of two processes");

        shop.connect().await;
        eventually("a report", async || shop.in_redis().await == 45).await;
        eventually("Redis decides alone", async || shop.gold(1).await.is_allowed()).await;
        assert_eq!(shop.in_redis().await, 46);
        assert!(shop.limiter.reset("k").await.unwrap());
        let decision = shop.gold(1).await;
        assert!(decision.is_allowed() && !decision.is_degraded(), "after a reset: {decision:?}");
    });
}

#[test]
fn degraded_decisions_show_the_quotas_of_the_tier() {
    runtime().block_on(async {
        for (mode, remaining) in [(FailureMode::Allow, 90), (FailureMode::Deny, 0)] {
            let shop = Shop::open(mode, 1).await;
            shop.cut_off();
            let decision = shop.gold(1).await;
            assert!(decision.is_degraded());
            assert_eq!(decision.is_allowed(), mode == FailureMode::Allow);
            let quota = decision.quotas()[0];
            assert_eq!((quota.limit(), quota.remaining()), (90, remaining), "{mode:?}");
            let asks = [RedisAsk::new(shop.limiter.with(&shop.gold).unwrap(), "k", Cost::ONE)];
            let together = check_all(&asks).await.unwrap();
            assert_eq!(together[0].quotas()[0].limit(), 90, "{mode:?}");
        }
    });
}

// Redis does not have units that this process admitted alone until they are reported. A refund
// there before would free units of another process.
#[test]
fn local_units_are_refunded_locally_and_in_redis_after_the_report() {
    runtime().block_on(async {
        let shop = Shop::open(FailureMode::Local, 1).await;
        let by_redis = receipt(shop.gold(10).await);
        shop.cut_off();
        let alone = receipt(shop.gold(20).await);
        let more = receipt(shop.gold(10).await);
        let less = receipt(shop.gold(10).await);
        // Redis is not needed for it.
        assert_eq!(shop.limiter.with(&shop.gold).unwrap().refund("k", alone).await.unwrap(), 20);
        let decision = shop.gold(60).await;
        assert!(decision.is_allowed() && decision.remaining() == 0, "{decision:?}");
        let rest = receipt(decision);

        shop.connect().await;
        eventually("a report", async || shop.in_redis().await == 90).await;
        let gold = shop.limiter.with(&shop.gold).unwrap();
        assert_eq!(gold.refund("k", by_redis).await.unwrap(), 10);
        assert_eq!(gold.settle("k", less, 4).await.unwrap(), 4);
        assert_eq!(shop.in_redis().await, 74);
        assert_eq!(gold.settle("k", more, 15).await.unwrap(), 15);
        eventually("the debt", async || shop.in_redis().await == 79).await;
        assert!(!shop.gold(12).await.is_allowed());
        assert_eq!(gold.refund("k", rest).await.unwrap(), 60);
        assert_eq!(shop.in_redis().await, 19);
    });
}

// The tier's units that were taken for a request that another key denied are refunded.
#[test]
fn tiers_take_all_or_nothing_while_redis_is_unavailable() {
    runtime().block_on(async {
        let shop = Shop::open(FailureMode::Local, 1).await;
        shop.cut_off();
        let asks = |units| {
            [
                RedisAsk::new(shop.limiter.with(&shop.gold).unwrap(), "k", cost(units)),
                RedisAsk::new(&shop.limiter, "other", cost(9)),
            ]
        };
        assert!(check_all(&asks(50)).await.unwrap().iter().all(Decision::is_allowed));
        let denied = check_all(&asks(40)).await.unwrap();
        assert!(denied.iter().all(|decision| !decision.is_allowed()), "{denied:?}");
        let decision = shop.gold(40).await;
        assert!(decision.is_allowed() && decision.remaining() == 0, "{decision:?}");
    });
}
