//! Other quotas for a live key: higher and lower limits, shorter and longer windows.
//!
//! What could go wrong: a change that forgets units, a change that makes units count forever, a
//! call that knows only the policy and drops entries that the tier still needs.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use slidegate::{
    Algorithm, Ask, Clock, Cost, Limiter, ManualClock, Policy, Quota, Store, Target, Tier,
    check_all,
};
use slidegate_testkit::Random;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    LOG_CAPPED,
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const LOG_CAPPED: Algorithm = Algorithm::LogCapped { bytes_max: 64 };
const START_MS: u64 = 1_700_000_000_000;
/// In microseconds.
const SECOND: u64 = 1_000_000;

// Two oracles store every entry. The minimal one drops what the shortest window since could not
// keep: what it denies must not be allowed. The full one drops nothing: what it allows, an exact
// log must not deny.
#[test]
fn a_log_under_changing_tiers_counts_neither_too_little_nor_too_much() {
    let mut wrong = Vec::new();
    for seed in 0..2000 {
        let walk = Walk::run(seed, Algorithm::Log, true);
        wrong.extend(walk.over.map(|at| format!("seed {seed}: over in step {at}")));
        wrong.extend(walk.under.map(|at| format!("seed {seed}: denied in step {at}")));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn logs_and_segments_under_changing_tiers_are_never_over() {
    let mut wrong = Vec::new();
    for algorithm in [Algorithm::Log, LOG_CAPPED, Algorithm::Segments { count: 5 }] {
        for seed in 0..1000 {
            let walk = Walk::run(seed, algorithm, seed % 4 == 0);
            wrong.extend(walk.over.map(|at| format!("{algorithm:?}, seed {seed}, step {at}")));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

// Windows of some ticks, and requests within them: a unit that is dated a fraction of a tick too early
// makes room too early.
#[test]
fn segments_of_single_ticks_under_changing_windows_are_never_over() {
    let mut early = 0;
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let (limiter, clock) = limiter(5, Algorithm::Segments { count: 4 });
        let windows = [random.between(8, 40), random.between(2, 8)];
        let tiers = windows.map(|millis| {
            limiter.tier(&[Quota::new(3, Duration::from_millis(millis)).unwrap()]).unwrap()
        });
        let (mut now, mut admitted) = ((START_MS + 7) * 1000, Vec::<u64>::new());
        // First under the longer window, then under the shorter one.
        for step in 0..60 {
            now += random.between(0, 2500);
            clock.set(Duration::from_micros(now));
            let place = usize::from(step >= 20);
            let since = now - windows[place] * 1000;
            if limiter.with(&tiers[place]).unwrap().check("alice").is_allowed() {
                early += u64::from(admitted.iter().filter(|at| **at > since).count() >= 3);
                admitted.push(now);
            }
        }
    }
    assert_eq!(early, 0, "admitted early");
}

// With nine units taken, a limit of five leaves none and one of twenty leaves eleven. Another
// window may count too much, but never less.
#[test]
fn a_change_forgets_no_units() {
    let mut wrong = Vec::new();
    // GCRA stores time and no units: another window reads it as a share of itself.
    for algorithm in ALGORITHMS.into_iter().filter(|one| *one != Algorithm::Gcra) {
        for (limit, seconds) in [(5, 60), (20, 60), (10, 600), (10, 6), (20, 600), (5, 6)] {
            let (limiter, clock) = limiter(10, algorithm);
            let tier = tier(&limiter, &[(limit, seconds)]);
            for _ in 0..9 {
                assert!(limiter.check("alice").is_allowed());
            }
            clock.advance(Duration::from_secs(1));
            let left = limiter.with(&tier).unwrap().peek("alice").remaining();
            if left > limit.saturating_sub(9) {
                wrong.push(format!(
                    "{algorithm:?}: 9 of 10/60 s left {left} of {limit}/{seconds} s"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// Changing to another tier and back must not change a limit.
#[test]
fn another_limit_of_the_same_window_changes_no_count() {
    for algorithm in ALGORITHMS.into_iter().filter(|one| *one != Algorithm::Gcra) {
        let (limiter, _) = limiter(10, algorithm);
        let more = tier(&limiter, &[(1000, 60)]);
        let less = tier(&limiter, &[(3, 60)]);
        assert!(limiter.check_cost("alice", cost(9)).is_allowed());
        assert!(!limiter.with(&less).unwrap().check("alice").is_allowed(), "{algorithm:?}");
        assert_eq!(limiter.with(&more).unwrap().check("alice").remaining(), 990, "{algorithm:?}");
        assert_eq!(limiter.peek("alice").remaining(), 0, "{algorithm:?}");
        assert_eq!(limiter.usage("alice").units(0), 10, "{algorithm:?}");
    }
}

// If every look dated all units at its own time, a key with two alternating tiers would never be free
// again, and denied requests would extend the denial.
#[test]
fn alternating_tiers_do_not_deny_forever() {
    let mut denied = Vec::new();
    for algorithm in ALGORITHMS {
        let (limiter, clock) = limiter(5, algorithm);
        let other = tier(&limiter, &[(5, 90)]);
        assert!(limiter.check_cost("alice", cost(5)).is_allowed());
        let passed = (0..100).any(|_| {
            clock.advance(Duration::from_secs(10));
            limiter.check("alice").is_allowed()
                || limiter.with(&other).unwrap().check("alice").is_allowed()
        });
        denied.extend((!passed).then_some(algorithm));
    }
    assert_eq!(denied, [], "denied for 1000 s after five units in a window of 90 s");
}

// The `retry_after` of a denial must not depend on checks in between, or on their windows.
#[test]
fn retry_after_comes_true_although_other_tiers_look() {
    let mut wrong = Vec::new();
    for algorithm in ALGORITHMS {
        for quotas in [1, 2] {
            for seed in 0..200 {
                let found = looks_between(algorithm, quotas, seed);
                wrong.extend(found.map(|what| format!("{algorithm:?}, seed {seed}: {what}")));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Denied checks of tiers with different windows, each with looks of any tier until it may retry.
fn looks_between(algorithm: Algorithm, count: u64, seed: u64) -> Option<String> {
    let mut random = Random::new(seed);
    let (limiter, clock) = limiter_of(5, count, algorithm);
    let windows = random.pick(&[[60, 61, 59], [60, 5, 7], [60, 3600, 61], [60, 120, 30]]);
    let tiers = windows.map(|seconds| {
        let quotas: Vec<_> = (0..count).map(|index| (5, seconds * (index + 1))).collect();
        tier(&limiter, &quotas)
    });
    let mut now = START_MS + 7;
    let set = |millis: u64| clock.set(Duration::from_millis(millis));
    for step in 0..150 {
        now += random.between(0, 20_000);
        set(now);
        let (tier, units) = (random.pick(&[0, 1, 2]), random.between(1, 3));
        let decide = |tier: usize| limiter.with(&tiers[tier]).unwrap().check_cost("k", cost(units));
        let decision = decide(tier);
        let Some(wait) = decision.retry_after().duration().filter(|_| !decision.is_allowed())
        else {
            continue;
        };
        let due = now + u64::try_from(wait.as_millis()).unwrap();
        let mut is_unchanged = true;
        for _ in 0..random.between(0, 6) {
            now = random.between(now, due - 1);
            set(now);
            let other = random.pick(&[0, 1, 2]);
            if random.chance(30) {
                let _ = limiter.with(&tiers[other]).unwrap().peek("k");
                let _ = limiter.with(&tiers[other]).unwrap().usage("k");
            } else if decide(other).is_allowed() {
                is_unchanged = false;
                break;
            }
        }
        // A log drops what a shorter window does not count, so a longer one may be free earlier.
        if is_unchanged && !algorithm.keeps_entries() {
            set(due - 1);
            if decide(tier).is_allowed() {
                return Some(format!("step {step}: allowed a tick before retry_after"));
            }
        }
        if is_unchanged {
            now = due;
            set(now);
            if !decide(tier).is_allowed() {
                return Some(format!("step {step}: denied at retry_after"));
            }
        }
    }
    None
}

// A policy of a minute must not drop entries that a tier counts for an hour.
#[test]
fn reading_a_key_of_a_longer_tier_forgets_no_units() {
    type Look = fn(&Limiter);
    let looks: [(&str, Look); 5] = [
        ("usage", |limiter| {
            let _ = limiter.usage("alice");
        }),
        ("history", |limiter| drop(limiter.history("alice"))),
        ("peek", |limiter| drop(limiter.peek("alice"))),
        ("sweep", |limiter| {
            limiter.sweep(usize::MAX);
        }),
        ("checks of others", |limiter| {
            (0..100_u64).for_each(|key| drop(limiter.check(&key)));
        }),
    ];
    let mut wrong = Vec::new();
    for algorithm in ALGORITHMS {
        for (name, look) in looks {
            let (limiter, clock) = limiter(10, algorithm);
            let hour = tier(&limiter, &[(5, 3600)]);
            assert!(limiter.with(&hour).unwrap().check_cost("alice", cost(5)).is_allowed());
            clock.advance(Duration::from_secs(121));
            look(&limiter);
            if limiter.with(&hour).unwrap().check_cost("alice", cost(5)).is_allowed() {
                wrong.push(format!("{algorithm:?}: forgotten by {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// A receipt identifies units, not a tier: it must be valid for as long as they count.
#[test]
fn a_receipt_of_a_tier_refunds_exactly_its_units() {
    let mut wrong = Vec::new();
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }] {
        let (limiter, clock) = limiter(10, algorithm);
        let hour = tier(&limiter, &[(5, 3600)]);
        let receipt =
            limiter.with(&hour).unwrap().check_cost("alice", cost(2)).into_receipt().unwrap();
        clock.advance(Duration::from_secs(1));
        let settled =
            limiter.with(&hour).unwrap().check_cost("alice", cost(2)).into_receipt().unwrap();
        assert!(limiter.with(&hour).unwrap().check("alice").is_allowed());
        clock.advance(Duration::from_secs(120));
        let back = limiter.refund(receipt);
        let recorded = limiter.settle(settled, 1);
        let left = limiter.with(&hour).unwrap().peek("alice").remaining();
        if (back, recorded, left) != (2, 1, 3) {
            wrong.push(format!("{algorithm:?}: {back} back, {recorded} recorded, {left} left"));
        }
    }
    assert!(wrong.is_empty(), "expected 2 back, 1 recorded, 3 left\n{}", wrong.join("\n"));
}

// With the policy's minute, a log of several quotas would drop entries that the tier counts for an
// hour, and a bucket that refills twelve times as fast would get twelve units for one.
#[test]
fn refunds_with_a_tier_keep_its_entries() {
    for (algorithm, count, hour) in
        [(Algorithm::Log, 2, 5), (LOG_CAPPED, 2, 5), (Algorithm::Gcra, 1, 7200)]
    {
        let (limiter, clock) = limiter_of(10, count, algorithm);
        let hour = tier(&limiter, &[(hour, 3600)]);
        let take = |units| {
            limiter.with(&hour).unwrap().check_cost("alice", cost(units)).into_receipt().unwrap()
        };
        let (refunded, settled) = (take(1), take(2));
        clock.advance(Duration::from_millis(1));
        let _ = take(2);
        // After the policy's window, unless the bucket is full again by then.
        let passed = if algorithm == Algorithm::Gcra { 1 } else { 120_000 };
        clock.advance(Duration::from_millis(passed));
        assert_eq!(limiter.with(&hour).unwrap().refund(refunded), 1, "{algorithm:?}");
        assert_eq!(limiter.with(&hour).unwrap().usage("alice").units(0), 4, "{algorithm:?}");
        assert_eq!(limiter.with(&hour).unwrap().settle(settled, 3), 3, "{algorithm:?}");
        assert_eq!(limiter.with(&hour).unwrap().usage("alice").units(0), 5, "{algorithm:?}");
        let denied =
            limiter.with(&hour).unwrap().check_cost("alice", cost(hour.quotas()[0].limit() - 4));
        assert!(!denied.is_allowed(), "{algorithm:?}: {denied:?}");
    }
}

#[test]
fn settling_with_a_tier_refunds_its_bucket() {
    let (limiter, _) = limiter(10, Algorithm::Gcra);
    let hour = tier(&limiter, &[(7200, 3600)]);
    let estimate =
        limiter.with(&hour).unwrap().check_cost("alice", cost(100)).into_receipt().unwrap();
    assert_eq!(limiter.with(&hour).unwrap().settle(estimate, 60), 60);
    assert_eq!(limiter.with(&hour).unwrap().usage("alice").units(0), 60);
}

#[test]
fn usage_and_history_cover_the_window_of_the_tier() {
    let (limiter, clock) = limiter(10, Algorithm::Log);
    let hour = tier(&limiter, &[(5, 3600)]);
    let began = clock.now();
    assert!(limiter.with(&hour).unwrap().check_cost("alice", cost(2)).is_allowed());
    clock.advance(Duration::from_secs(120));
    assert!(limiter.with(&hour).unwrap().check("alice").is_allowed());
    assert_eq!(limiter.usage("alice").units(0), 1);
    assert_eq!(limiter.with(&hour).unwrap().usage("alice").units(0), 3);
    assert_eq!(limiter.history("alice").unwrap().len(), 1);
    let events: Vec<_> = limiter.with(&hour).unwrap().history("alice").unwrap();
    let events: Vec<_> = events.iter().map(|event| (event.at, event.units)).collect();
    let began = Duration::from_nanos(began);
    assert_eq!(events, [(began, 2), (began + Duration::from_secs(120), 1)]);
    let (counted, _) = limiter_of(10, 1, Algorithm::Counter);
    let none = tier(&counted, &[(5, 3600)]);
    assert!(counted.with(&none).unwrap().history("alice").is_err(), "it keeps no times");
}

// A program with two stores has to know the store of a receipt.
#[test]
fn recognizes_its_own_receipts() {
    let ((one, _), (two, _)) = (limiter(10, Algorithm::Log), limiter(10, Algorithm::Log));
    let receipt = one.check("alice").into_receipt().unwrap();
    assert!(one.has_issued("alice", &receipt));
    assert!(!two.has_issued("alice", &receipt), "of another limiter");
    assert!(!one.has_issued("bob", &receipt), "of another key");
}

#[test]
fn rejects_the_tier_of_another_limiter() {
    let ((one, _), (two, _)) = (limiter(10, Algorithm::Log), limiter(10, Algorithm::Log));
    let small = tier(&one, &[(2, 60)]);
    assert!(one.with(&small).is_ok());
    let error = two.with(&small).unwrap_err();
    assert!(error.to_string().contains("belongs to another limiter"), "{error}");
    let check = Store::check(&two, Target::new(b"alice", &small), Cost::ONE);
    assert!(check.try_now().is_ok_and(|result| result.is_err()));
    assert_eq!(two.usage("alice").units(0), 0);
}

// Several keys with tiers are decided together like single ones.
#[test]
fn check_all_takes_tiers() {
    for algorithm in ALGORITHMS {
        let (limiter, _) = limiter(10, algorithm);
        let small = tier(&limiter, &[(2, 60)]);
        let asks = [
            Ask::new(limiter.with(&small).unwrap(), "alice", Cost::ONE),
            Ask::new(&limiter, "bob", Cost::ONE),
        ];
        for left in [1, 0] {
            let decisions = check_all(&asks).unwrap();
            assert_eq!(decisions[0].remaining(), left, "{algorithm:?}");
        }
        assert!(check_all(&asks).unwrap().iter().all(|decision| !decision.is_allowed()));
        assert_eq!(limiter.usage("bob").units(0), 2, "{algorithm:?}");
    }
}

/// One key that sometimes changes its tier.
struct Walk {
    limiter: Limiter,
    tiers: Vec<(Vec<(u64, u64)>, Tier)>,
    /// In microseconds: a tick has a thousand.
    now: u64,
    /// All admissions, at their true times.
    full: Vec<(u64, u64)>,
    /// Entries that even the shortest window since had to keep.
    least: Vec<(u64, u64)>,
    /// The first steps at which it admitted too much, or denied without a reason.
    over: Option<usize>,
    under: Option<usize>,
}

impl Walk {
    /// With `whole_ticks`, no time is rounded.
    fn run(seed: u64, algorithm: Algorithm, whole_ticks: bool) -> Self {
        let mut random = Random::new(seed);
        let log = !matches!(algorithm, Algorithm::Segments { .. });
        let most = if log { 1 + seed % 3 } else { 1 };
        let (limiter, clock) = limiter_of(random.between(1, 10), most, algorithm);
        let tiers = (0..4).map(|_| {
            let count = random.between(1, most);
            let quota = |random: &mut Random| (random.between(1, 12), random.between(1, 300));
            let quotas: Vec<_> = (0..count).map(|_| quota(&mut random)).collect();
            (quotas.clone(), tier(&limiter, &quotas))
        });
        let tiers = tiers.collect();
        let now = (START_MS + 7) * 1000;
        let mut walk =
            Self { limiter, tiers, now, full: vec![], least: vec![], over: None, under: None };
        let mut place = 0;
        for step in 0..200 {
            walk.now += match random.between(0, 9) {
                0..=4 => random.between(0, 5_000_000),
                5..=8 => random.between(0, 60_000_000),
                _ => random.between(0, 400_000_000),
            };
            walk.now -= if whole_ticks { walk.now % 1000 } else { 0 };
            clock.set(Duration::from_micros(walk.now));
            if random.chance(20) {
                place = random.index(walk.tiers.len());
            }
            let units = if random.chance(70) { 1 } else { random.between(1, 6) };
            walk.check(step, place, units);
        }
        walk
    }

    fn check(&mut self, step: usize, place: usize, units: u64) {
        let (quotas, tier) = &self.tiers[place];
        let now = self.now;
        let longest = quotas.iter().map(|(_, seconds)| seconds * SECOND).max().unwrap();
        self.least.retain(|(at, _)| at + longest > now);
        let allowed =
            self.limiter.with(tier).unwrap().check_cost("alice", cost(units)).is_allowed();
        let fits = |log: &[(u64, u64)]| {
            quotas.iter().all(|(limit, seconds)| {
                let counted = log.iter().filter(|(at, _)| at + seconds * SECOND > now);
                counted.map(|(_, units)| units).sum::<u64>() + units <= *limit
            })
        };
        if allowed && !fits(&self.least) {
            self.over.get_or_insert(step);
        }
        if !allowed && fits(&self.full) {
            self.under.get_or_insert(step);
        }
        if allowed {
            self.full.push((now, units));
            self.least.push((now, units));
        }
    }
}

fn limiter(limit: u64, algorithm: Algorithm) -> (Limiter, ManualClock) {
    limiter_of(limit, 1, algorithm)
}

fn limiter_of(limit: u64, quotas: u64, algorithm: Algorithm) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Duration::from_millis(START_MS + 7));
    let quotas = (0..quotas).map(|_| Quota::new(limit, Duration::from_secs(60)).unwrap());
    let policy = Policy::builder("tiers").quotas(quotas).algorithm(algorithm).build().unwrap();
    (Limiter::builder(policy).clock(clock.clone()).build().unwrap(), clock)
}

/// Returns a tier with quotas in units and seconds.
fn tier(limiter: &Limiter, quotas: &[(u64, u64)]) -> Tier {
    let quotas = quotas
        .iter()
        .map(|(limit, seconds)| Quota::new(*limit, Duration::from_secs(*seconds)).unwrap());
    limiter.tier(&quotas.collect::<Vec<_>>()).unwrap()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

// A limit of one request must not change other requests, and later operations must respect it.
#[test]
fn quotas_of_a_request_work_like_a_tier() {
    for algorithm in [Algorithm::Log, Algorithm::Counter, Algorithm::Fixed] {
        let policy = Policy::builder("api").quota(Quota::per_hour(2)).algorithm(algorithm);
        let limiter = Limiter::new(policy.build().unwrap()).unwrap();
        let tier = limiter.tier(&[Quota::per_hour(4)]).unwrap();
        for _ in 0..6 {
            let given = limiter.with_quotas(&[Quota::per_hour(4)]).unwrap();
            let by_tier = limiter.with(&tier).unwrap().check("tier").remaining();
            assert_eq!(given.check("given").remaining(), by_tier, "{algorithm:?}");
        }
        let given = limiter.with_quotas(&[Quota::per_hour(5)]).unwrap();
        assert_eq!(given.usage("given").units(0), 4);
        assert!(given.check("given").is_allowed() && !given.check("given").is_allowed());
        assert_eq!(limiter.check("plain").remaining(), 1);
        let mut decisions = Vec::new();
        given.check_many(&["a", "b", "a"], Cost::ONE, &mut decisions);
        let remaining: Vec<_> = decisions.iter().map(slidegate::Decision::remaining).collect();
        assert_eq!(remaining, [4, 4, 3]);
        for quotas in [&[][..], &[Quota::per_hour(1); 2], &[Quota::per_hour(1); 9]] {
            assert!(limiter.with_quotas(quotas).is_err());
        }
    }
}
