//! Keys that do not fit into the table, and are counted by the sketches alone.
//!
//! What could go wrong: a retry time that is too early, a peek that knows only the table.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::HashMap;
use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, OnFull, Policy, Quota, RetryAfter, Tier};

/// A limiter whose table is full of keys that are in use.
struct Full {
    limiter: Limiter,
    clock: ManualClock,
    start: Duration,
    known: u64,
}

impl Full {
    fn new(algorithm: Algorithm) -> Self {
        let start = Duration::from_secs(60 * 28_333_333);
        let clock = ManualClock::new(start);
        let policy = Policy::builder("full").quota(Quota::per_minute(10)).algorithm(algorithm);
        let builder = Limiter::builder(policy.build().unwrap()).clock(clock.clone());
        let builder = builder.memory_limit(1 << 16).on_full(OnFull::Overflow).shards(1);
        let limiter = builder.build().unwrap();
        let known = (0..100_000).find(|key: &u64| limiter.check(key).is_estimated()).unwrap();
        Self { limiter, clock, start, known }
    }

    /// Advances to a number of seconds after the start, and uses all keys of the table.
    fn advance_to(&self, seconds: u64) {
        self.clock.set(self.start + Duration::from_secs(seconds));
        (0..self.known).for_each(|key| drop(self.limiter.check(&key)));
    }
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra];

#[test]
fn an_overflow_key_is_allowed_when_its_retry_after_has_passed() {
    for algorithm in ALGORITHMS {
        let full = Full::new(algorithm);
        full.advance_to(1);
        (0..10).for_each(|_| assert!(full.limiter.check("alice").is_allowed()));
        full.advance_to(30);
        let denial = full.limiter.check("alice");
        assert!(!denial.is_allowed() && denial.is_estimated());
        let RetryAfter::After(wait) = denial.retry_after() else { panic!("{denial:?}") };
        // The next request of any overflow key comes late in the second window.
        full.advance_to(55);
        full.advance_to(100);
        assert!(full.limiter.check("bob").is_estimated());
        full.advance_to(30 + wait.as_secs());
        let decision = full.limiter.check("alice");
        assert!(decision.is_allowed() && decision.is_estimated(), "{algorithm:?} {decision:?}");
    }
}

#[test]
fn peek_decides_an_overflow_key_as_check_does() {
    for algorithm in ALGORITHMS {
        let full = Full::new(algorithm);
        full.advance_to(1);
        for _ in 0..12 {
            let peek = full.limiter.peek("alice");
            let check = full.limiter.check("alice");
            assert!(peek.is_estimated() && check.is_estimated());
            assert_eq!(peek.is_allowed(), check.is_allowed(), "{algorithm:?}");
            assert_eq!(peek.retry_after(), check.retry_after(), "{algorithm:?}");
        }
    }
}

/// Creates a limiter with a tiny table and 10 units per minute.
fn tiny(algorithm: Algorithm, on_full: OnFull) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let policy = Policy::builder("tiny").quota(Quota::per_minute(10)).algorithm(algorithm);
    let builder = Limiter::builder(policy.build().unwrap()).clock(clock.clone());
    let builder = builder.memory_limit(1 << 16).on_full(on_full).shards(1).secret([7; 16]);
    (builder.build().unwrap(), clock)
}

// One sketch counted over the longest window that any tier ever had: a retry of 60 s became one of
// 7200 s, and other keys were denied for hours.
#[test]
fn a_tier_with_a_longer_window_lengthens_no_other_denial() {
    let hours = [Quota::new(10, Duration::from_secs(7200)).unwrap()];
    for algorithm in ALGORITHMS {
        let full = Full::new(algorithm);
        full.advance_to(1);
        let tier = full.limiter.tier(&hours).unwrap();
        assert!(full.limiter.with(&tier).unwrap().check("long").is_estimated());
        (0..10).for_each(|_| assert!(full.limiter.check("alice").is_allowed()));
        let denial = full.limiter.check("alice");
        let RetryAfter::After(wait) = denial.retry_after() else { panic!("{denial:?}") };
        assert!(wait <= Duration::from_secs(120), "{algorithm:?}: {wait:?}");
        full.advance_to(60);
        full.advance_to(1 + wait.as_secs());
        assert!(full.limiter.check("alice").is_allowed());
        // The units of the longer window still count for it.
        let tier = full.limiter.with(&tier).unwrap();
        assert!(!tier.check_cost("long", Cost::new(10).unwrap()).is_allowed());
    }
}

// Creating a tier was enough to count evicted units for its window.
#[test]
fn a_tier_that_is_never_used_lengthens_no_denial_of_evicted_keys() {
    for algorithm in ALGORITHMS {
        let (limiter, clock) = tiny(algorithm, OnFull::Lru);
        let _tier = limiter.tier(&[Quota::new(10, Duration::from_secs(7200)).unwrap()]).unwrap();
        (0..20_u64).for_each(|key| drop(limiter.check_cost(&key, Cost::new(10).unwrap())));
        (1000..4000_u64).for_each(|key| drop(limiter.check(&key)));
        clock.advance(Duration::from_secs(240));
        let allowed = (0..20_u64).filter(|key| limiter.check(key).is_allowed()).count();
        assert_eq!(allowed, 20, "{algorithm:?}");
    }
}

// Each denied request used to date the units of the key at now.
#[test]
fn a_denied_key_that_returns_again_and_again_is_allowed_after_three_windows() {
    for algorithm in ALGORITHMS {
        let (limiter, clock) = tiny(algorithm, OnFull::Lru);
        (0..10).for_each(|_| assert!(limiter.check("alice").is_allowed()));
        let mut next = 0_u64;
        let mut waited = Duration::ZERO;
        loop {
            // The flood is as fast as the table needs to evict the key.
            next += 800;
            (next - 800..next).for_each(|key| drop(limiter.check(&key)));
            clock.advance(Duration::from_secs(20));
            waited += Duration::from_secs(20);
            if limiter.check("alice").is_allowed() {
                break;
            }
            assert!(waited <= Duration::from_secs(180), "{algorithm:?}");
        }
    }
}

// A key that returned under a lower limit lost what it had taken above that limit.
#[test]
fn a_lower_limit_forgets_no_units_of_an_evicted_key() {
    for algorithm in [Algorithm::Log, Algorithm::Segments { count: 10 }] {
        let (limiter, _) = tiny(algorithm, OnFull::Lru);
        let many = [Quota::per_minute(1000)];
        let take = |units| {
            let many = limiter.with_quotas(&many).unwrap();
            many.check_cost("alice", Cost::new(units).unwrap()).is_allowed()
        };
        assert!(take(900));
        (0..2000_u64).for_each(|key| drop(limiter.check(&key)));
        assert_eq!(limiter.usage("alice").units(0), 0, "{algorithm:?}: it was not evicted");
        assert!(!limiter.check("alice").is_allowed());
        assert!(!take(101), "{algorithm:?}: 1001 units under a limit of 1000");
    }
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

// Every key has one of several tiers. The model counts the units of real intervals.
#[test]
fn random_traffic_over_a_tiny_table_is_within_limits_and_denied_for_few_windows() {
    const TIERS: [(u64, u64); 5] = [(2, 3), (10, 60), (40, 90), (20, 900), (30, 7200)];
    let promised =
        [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }, Algorithm::Segments { count: 10 }];
    for (seed, (algorithm, on_full)) in promised
        .into_iter()
        .flat_map(|one| [OnFull::Overflow, OnFull::Lru].map(|on_full| (one, on_full)))
        .enumerate()
    {
        let (limiter, clock) = tiny(algorithm, on_full);
        let quota = |(limit, seconds)| Quota::new(limit, Duration::from_secs(seconds)).unwrap();
        let tiers: Vec<Tier> = TIERS.map(|tier| limiter.tier(&[quota(tier)]).unwrap()).into();
        let mut random = Random(0x9E37_79B9_7F4A_7C15 + seed as u64);
        let mut admitted: HashMap<u64, Vec<(Duration, u64)>> = HashMap::new();
        let (mut now, mut checks, mut early) = (Duration::ZERO, [0_u32; 5], [0_u32; 5]);
        for _ in 0..40_000 {
            let pass = match random.below(6) {
                0..=2 => 0,
                3 => 50,
                4 => 300,
                _ => 2000,
            };
            let pass = if random.below(500) == 0 { 1_000_000 } else { pass };
            let pass = Duration::from_millis(random.below(pass + 1));
            clock.advance(pass);
            now += pass;
            // A few keys are busy, and many others fill the table.
            let key = if random.below(2) == 0 { random.below(40) } else { random.below(1500) };
            let (limit, seconds) = TIERS[(key % 5) as usize];
            let (window, cost) = (Duration::from_secs(seconds), 1 + random.below(2));
            let tier = limiter.with(&tiers[(key % 5) as usize]).unwrap();
            let decision = tier.check_cost(&key, Cost::new(cost).unwrap());
            let units = admitted.entry(key).or_default();
            units.retain(|(at, _)| *at + 6 * window > now);
            if decision.is_allowed() {
                units.push((now, cost));
                let used: u64 =
                    units.iter().filter(|(at, _)| *at + window > now).map(|(_, units)| units).sum();
                assert!(used <= limit, "{algorithm:?} {on_full:?}: {used} of {limit} at {now:?}");
            } else {
                // Nothing that the key took in six windows explains it, only other keys with the same counts.
                early[(key % 5) as usize] +=
                    u32::from(units.iter().map(|(_, units)| units).sum::<u64>() + cost <= limit);
            }
            checks[(key % 5) as usize] += 1;
        }
        // No collisions in the sketches of the short windows. Those of the longest are nearly full.
        assert_eq!(early[..3], [0; 3], "{algorithm:?} {on_full:?}: {early:?} of {checks:?}");
        let few = early.iter().zip(checks).all(|(early, checks)| early * 5 <= checks);
        assert!(few, "{algorithm:?} {on_full:?}: {early:?} of {checks:?}");
    }
}
