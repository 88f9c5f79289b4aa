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
use slidegate_testkit::Random;
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

/// What a decision says, in milliseconds.
fn said(decision: &Decision) -> (bool, Vec<[Option<u128>; 3]>) {
    let quota = |quota: &slidegate::QuotaDecision| {
        [
            Some(quota.remaining().into()),
            quota.retry_after().duration().map(|wait| wait.as_millis()),
            Some(quota.reset_after().as_millis()),
        ]
    };
    (decision.is_allowed(), decision.quotas().iter().map(quota).collect())
}

// The conversion between windows depends only on what is recorded, so that both stores agree on every
// decision, whatever was denied, looked at, refunded or forgiven in between. Logs are not compared: in
// memory, a check under a shorter window drops entries, and Redis keeps them for the longest one.
#[test]
#[expect(clippy::too_many_lines, reason = "one list of operations for both stores")]
fn changing_windows_decide_as_in_memory() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        for (algorithm, count, seed) in ALGORITHMS
            .into_iter()
            .filter(|algorithm| !algorithm.keeps_entries() && *algorithm != Algorithm::Gcra)
            .flat_map(|algorithm| (0..12).map(move |seed| (algorithm, 1 + seed % 2, seed)))
        {
            let mut random = Random::new(seed);
            let mut now = Duration::from_millis(1_700_000_000_007);
            let clock = ManualClock::new(now);
            let quotas = |limit: u64, seconds: u64| {
                let quota = |by| Quota::new(limit * by, Duration::from_secs(seconds * by)).unwrap();
                (1..=count).map(quota).collect::<Vec<_>>()
            };
            let policy = Policy::builder("p").quotas(quotas(6, 60)).algorithm(algorithm);
            let policy = policy.build().unwrap();
            let redis = patient(&server.url()).test_clock(clock.clone()).build().unwrap();
            let shared = redis.limiter(policy.clone()).deny_cache(0).build().unwrap();
            let memory = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
            let windows = random.pick(&[[60, 61, 59], [60, 5, 7], [60, 600, 61], [60, 120, 30]]);
            let tiers = windows.map(|seconds| {
                let quotas = quotas(random.between(3, 9), seconds);
                (shared.tier(&quotas).unwrap(), memory.tier(&quotas).unwrap())
            });
            let key = format!("{algorithm:?}-{seed}");
            let mut receipts = Vec::new();
            for step in 0..150 {
                let context = format!("{algorithm:?}, {count} quotas, seed {seed}, step {step}");
                now += Duration::from_micros(match random.between(0, 9) {
                    0..=2 => random.between(0, 1000),
                    3..=7 => random.between(0, 6_000_000),
                    _ => random.between(0, 70_000_000),
                });
                clock.set(now);
                let (shared_tier, memory_tier) = random.pick(&[0, 1, 2].map(|at| &tiers[at]));
                let ours = shared.with(shared_tier).unwrap();
                let theirs = memory.with(memory_tier).unwrap();
                let units = random.between(1, 3);
                // With several quotas, a refund that only some of them count is written for all in Redis.
                match random.between(0, if count == 1 { 9 } else { 6 }) {
                    0..=5 => {
                        let first = ours.check_cost(&key, cost(units)).await;
                        let second = theirs.check_cost(&key, cost(units));
                        assert_eq!(said(&first), said(&second), "{context}: check of {units}");
                        if let (Some(first), Some(second)) =
                            (first.into_receipt(), second.into_receipt())
                        {
                            assert_eq!(first.tick(), second.tick(), "{context}");
                            receipts.push((units, first.tick(), first.epoch(), second.epoch()));
                        }
                    }
                    6 => {
                        let first = ours.peek_cost(&key, cost(units)).await.unwrap();
                        let second = theirs.peek_cost(&key, cost(units));
                        assert_eq!(said(&first), said(&second), "{context}: peek for {units}");
                    }
                    7 => {
                        let first = ours.forgive(&key, units).await.unwrap();
                        let second = theirs.forgive(&key, units);
                        assert_eq!(first, second, "{context}: {units} forgiven");
                    }
                    _ if receipts.is_empty() => {}
                    _ => {
                        // Some are used again.
                        let at = random.index(receipts.len());
                        let (units, tick, epoch, memory_epoch) = receipts[at];
                        if random.chance(70) {
                            receipts.swap_remove(at);
                        }
                        let receipt = Receipt::new(0, units, tick, epoch);
                        let first = ours.refund(&key, receipt).await.unwrap();
                        let receipt = memory.receipt(&key, units, tick, memory_epoch);
                        assert_eq!(first, theirs.refund(receipt), "{context}: refund at {tick}");
                    }
                }
            }
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
