//! Settings at and beyond their ranges: a typed error or a documented result, never a panic.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::cell::RefCell;
use std::time::Duration;

use slidegate::{
    Algorithm, Cost, Error, ErrorKind, Key, KeyHasher, Limiter, LimiterBuilder, ManualClock,
    Policy, Quota, RetryAfter,
};

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const UNITS_MAX: u64 = Quota::LIMIT_MAX;
const TEN_YEARS: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

// 2^53 could not be counted in Redis.
#[test]
fn limits_have_a_range() {
    let minute = Duration::from_secs(60);
    for limit in [UNITS_MAX + 1, u64::MAX] {
        let error = Quota::new(limit, minute).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        let expected = format!("limit {limit} is out of range: use 0 to 9007199254740991");
        assert_eq!(error.to_string(), expected);
    }
    for limit in [0, 1, UNITS_MAX] {
        assert_eq!(Quota::new(limit, minute).unwrap().limit(), limit);
    }
}

#[test]
fn quotas_of_a_named_window_are_constants_for_every_limit() {
    const QUOTAS: [(Quota, u64); 4] = [
        (Quota::per_second(u32::MAX), 1),
        (Quota::per_minute(u32::MAX), 60),
        (Quota::per_hour(u32::MAX), 3600),
        (Quota::per_day(u32::MAX), 86_400),
    ];
    for (quota, seconds) in QUOTAS {
        assert_eq!(Quota::new(u32::MAX.into(), Duration::from_secs(seconds)), Ok(quota));
    }
}

#[test]
fn windows_have_a_range() {
    for window in [Duration::ZERO, TEN_YEARS + Duration::from_nanos(1), Duration::MAX] {
        let error = Quota::new(1, window).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Window);
        assert!(error.to_string().contains(&format!("{window:?}")), "{error}");
        assert!(error.to_string().contains("ten years"), "{error}");
    }
    for window in [Duration::from_nanos(1), TEN_YEARS] {
        assert_eq!(Quota::new(1, window).unwrap().window(), window);
    }
}

#[test]
fn costs_have_a_range() {
    for units in [0, UNITS_MAX + 1, u64::MAX] {
        let error = Cost::new(units).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cost);
        assert!(error.to_string().contains(&units.to_string()), "{error}");
        assert_eq!(Cost::try_from(units), Err(error));
    }
    assert_eq!(Cost::new(UNITS_MAX).unwrap().get(), UNITS_MAX);
}

#[test]
fn saturating_costs_take_at_least_one_unit_and_never_fit_if_too_large() {
    for units in [1, 2, UNITS_MAX] {
        assert_eq!(Cost::saturating(units), cost(units));
    }
    assert_eq!(Cost::saturating(0), Cost::ONE);
    for units in [UNITS_MAX + 1, u64::MAX] {
        assert!(Cost::saturating(units).get() > Quota::LIMIT_MAX);
    }
}

// `reserve` and `settle` take the same type, so a measured cost needs no conversion.
#[test]
fn estimates_of_any_size_are_decided() {
    for algorithm in ALGORITHMS {
        for limit in [5, UNITS_MAX] {
            let (limiter, _) = limiter(&[(limit, 60)], algorithm);
            for estimate in [UNITS_MAX + 1, u64::MAX] {
                let decision = limiter.reserve("alice", estimate);
                assert!(!decision.is_allowed(), "{algorithm:?}, {limit}");
                assert_eq!(decision.retry_after(), RetryAfter::Never, "{algorithm:?}, {limit}");
                assert_eq!(limiter.stats().keys, 0, "{algorithm:?}, {limit}");
            }
            let receipt = limiter.reserve("alice", 0).into_receipt().unwrap();
            assert_eq!((receipt.units(), limiter.settle(receipt, 0)), (1, 0), "{algorithm:?}");
        }
    }
}

#[test]
fn a_cloned_decision_has_no_receipt() {
    let (limiter, _) = limiter(&[(5, 60), (9, 3600)], Algorithm::Log);
    let mut decision = limiter.check("alice");
    let clone = decision.clone();
    assert_eq!(clone.receipt(), None);
    assert!(decision.take_receipt().is_some());
    assert_eq!(clone, decision);
}

// No wait would help, so `retry_after` must not be a time.
#[test]
fn a_cost_above_the_limit_is_never_allowed_nor_recorded() {
    for algorithm in ALGORITHMS {
        for quotas in [&[(5, 60)][..], &[(5, 60), (100, 3600)], &[(100, 3600), (5, 60)]] {
            let (limiter, _) = limiter(quotas, algorithm);
            // For a new key, and for an existing one.
            for used in [0, 1] {
                for decision in [
                    limiter.check_cost("alice", cost(6)),
                    limiter.peek_cost("alice", cost(6)),
                    limiter.check_cost("alice", cost(UNITS_MAX)),
                ] {
                    assert!(!decision.is_allowed(), "{algorithm:?}");
                    assert_eq!(decision.retry_after(), RetryAfter::Never, "{algorithm:?}");
                    assert_eq!(decision.remaining(), 5 - used, "{algorithm:?}");
                }
                assert_eq!(limiter.stats().keys, used, "{algorithm:?}");
                assert_eq!(limiter.usage("alice").units(0), used, "{algorithm:?}");
                let _ = limiter.check("alice");
            }
        }
    }
}

// Sums, products and times of the largest numbers must neither wrap nor panic.
#[test]
fn the_largest_numbers_are_counted() {
    for algorithm in ALGORITHMS {
        for tick in [Duration::from_micros(100), Duration::from_secs(1)] {
            let quota = Quota::new(UNITS_MAX, TEN_YEARS).unwrap();
            let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
            let builder = builder(&[quota], algorithm).unwrap().clock(clock.clone()).tick(tick);
            let limiter = builder.build().unwrap();
            assert_eq!(limiter.check_cost("alice", cost(UNITS_MAX - 1)).remaining(), 1);
            assert_eq!(limiter.check("alice").remaining(), 0, "{algorithm:?}");
            for units in [1, UNITS_MAX] {
                let decision = limiter.check_cost("alice", cost(units));
                assert!(!decision.is_allowed(), "{algorithm:?}");
                let wait = decision.retry_after().duration().unwrap();
                assert!(wait > Duration::ZERO && wait <= 2 * TEN_YEARS, "{algorithm:?}: {wait:?}");
                assert!(decision.reset_after() <= 2 * TEN_YEARS, "{algorithm:?}");
            }
            let wait =
                limiter.check_cost("alice", cost(UNITS_MAX)).retry_after().duration().unwrap();
            clock.advance(wait);
            assert!(limiter.check_cost("alice", cost(UNITS_MAX)).is_allowed(), "{algorithm:?}");
        }
    }
}

// Debt has no limit: the largest must deny, and the result is the recorded number.
#[test]
fn settling_with_the_largest_number_denies() {
    for algorithm in ALGORITHMS {
        for quotas in [&[(UNITS_MAX, 3600)][..], &[(5, 60), (UNITS_MAX, 3600)]] {
            let (limiter, clock) = limiter(quotas, algorithm);
            let receipt = limiter.reserve("alice", 5).into_receipt().unwrap();
            assert_eq!(limiter.settle(receipt, u64::MAX), 5 + UNITS_MAX, "{algorithm:?}");
            for seconds in [0, 0, 1] {
                clock.advance(Duration::from_secs(seconds));
                let denied = limiter.check_cost("alice", cost(UNITS_MAX));
                assert!(!denied.is_allowed(), "{algorithm:?}");
            }
            let used = limiter.usage("alice");
            assert!(used.units(quotas.len() - 1) >= UNITS_MAX / 10 * 9, "{algorithm:?}");
        }
    }
}

// Many reservations may be open, and all of their debts add up.
#[test]
fn thousands_of_debts_add_up_without_wrapping() {
    for algorithm in ALGORITHMS {
        let (limiter, clock) = limiter(&[(5000, 3600)], algorithm);
        let open: Vec<_> =
            (0..5000).map(|_| limiter.reserve("alice", 1).into_receipt().unwrap()).collect();
        for (round, receipt) in open.into_iter().enumerate() {
            limiter.settle(receipt, u64::MAX);
            if round % 100 == 0 {
                clock.advance(Duration::from_millis(3));
                assert!(!limiter.check("alice").is_allowed(), "{algorithm:?}, round {round}");
                // GCRA stores when the debt is refilled, at most some thousand years from now.
                let enough = limiter.usage("alice").units(0) >= UNITS_MAX;
                assert!(enough || algorithm == Algorithm::Gcra, "{algorithm:?}");
            }
        }
        assert!(!limiter.peek("alice").is_allowed(), "{algorithm:?}");
    }
}

#[test]
fn the_settings_of_a_limiter_have_ranges() {
    let build = |set: &dyn Fn(LimiterBuilder) -> LimiterBuilder| {
        let quota = Quota::per_minute(1);
        set(builder(&[quota], Algorithm::Log).unwrap()).build().map(|_| ())
    };
    let refused = |set: &dyn Fn(LimiterBuilder) -> LimiterBuilder, value: &str| {
        let error = build(set).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(value), "{error}");
    };
    for tick in [0, 99_999, 1_000_000_001, u64::MAX] {
        let tick = Duration::from_nanos(tick);
        refused(&|builder| builder.tick(tick), &format!("tick {tick:?}"));
    }
    refused(&|builder| builder.tick(Duration::MAX), "tick");
    for tick in [100_000, 1_000_000_000] {
        build(&|builder| builder.tick(Duration::from_nanos(tick))).unwrap();
    }
    for shards in [0, 3, 1023, 131_072, usize::MAX] {
        refused(&|builder| builder.shards(shards), &format!("shards {shards}"));
    }
    // This number of shards does not fit into so little memory.
    refused(&|builder| builder.memory_limit(65_536).shards(1024), "at most 8");
    for shards in [1, 2, 4096] {
        build(&|builder| builder.shards(shards)).unwrap();
    }
    for bytes in [0, 16_383] {
        refused(&|builder| builder.memory_limit(bytes), &format!("memory_limit {bytes}"));
    }
    build(&|builder| builder.memory_limit(16_384)).unwrap();
}

#[test]
fn a_policy_has_one_to_eight_quotas_and_a_plain_name() {
    let quotas = |count| vec![Quota::per_minute(1); count];
    let policy = |name: &str, count| Policy::builder(name).quotas(quotas(count)).build();
    for count in [0, Policy::QUOTAS_MAX + 1, 1000] {
        let error = policy("api", count).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Policy);
        assert!(error.to_string().contains(&format!("quotas {count} ")), "{error}");
    }
    assert_eq!(policy("api", Policy::QUOTAS_MAX).unwrap().quotas().len(), 8);

    let long = "a".repeat(64);
    for name in ["a", "Z", "api-v1_x.y:z/w*9", &long] {
        assert_eq!(policy(name, 1).unwrap().name(), name);
    }
    let too_long = "a".repeat(65);
    for name in ["", "1a", "-a", " a", "a b", "a\n", "a\"b", "é", "a\u{e9}", "a\0", &too_long] {
        let error = policy(name, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Policy, "{name:?}");
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}

#[test]
fn the_parameters_of_an_algorithm_have_ranges() {
    let built = |algorithm| builder(&[Quota::per_minute(1)], algorithm);
    for bytes_max in [0, 63, 65_537, u32::MAX] {
        let error = built(Algorithm::LogCapped { bytes_max }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Policy);
        assert!(error.to_string().contains(&bytes_max.to_string()), "{error}");
    }
    for count in [0, 1025, u16::MAX] {
        let error = built(Algorithm::Segments { count }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Policy);
        assert!(error.to_string().contains(&count.to_string()), "{error}");
    }
    for algorithm in [64, 65_536].map(|bytes_max| Algorithm::LogCapped { bytes_max }) {
        assert!(built(algorithm).unwrap().build().unwrap().check("alice").is_allowed());
    }
    for algorithm in [1, 1024].map(|count| Algorithm::Segments { count }) {
        assert!(built(algorithm).unwrap().build().unwrap().check("alice").is_allowed());
    }
}

// A log accepts a tier with fewer quotas. Other algorithms have one state per quota and need the
// same number.
#[test]
fn a_tier_must_fit_the_policy() {
    let quotas = vec![Quota::per_minute(9); 9];
    for algorithm in ALGORITHMS {
        let (limiter, _) = limiter(&[(5, 60), (50, 3600)], algorithm);
        let log = matches!(algorithm, Algorithm::Log | Algorithm::LogCapped { .. });
        for count in 0..=9 {
            let fits = if log { (1..=2).contains(&count) } else { count == 2 };
            match limiter.tier(&quotas[..count]) {
                Ok(tier) => {
                    assert!(fits, "{algorithm:?}, {count} quotas");
                    assert_eq!(tier.quotas(), &quotas[..count]);
                    let decision = limiter.with(&tier).unwrap().check(&(count as u64));
                    assert_eq!(decision.quotas().len(), count);
                }
                Err(error) => {
                    assert!(!fits, "{algorithm:?}, {count} quotas");
                    assert_eq!(error.kind(), ErrorKind::Policy);
                    assert!(error.to_string().contains(&count.to_string()), "{error}");
                }
            }
        }
    }
}

// A reader of a program's logs must not be able to make keys collide.
#[test]
fn debug_shows_no_secret() {
    const SECRET: [u8; 16] = *b"\xA1\xB2\xC3\xD4\xE5\xF6\x17\x28\x39\x4A\x5B\x6C\x7D\x8E\x9F\xAB";
    let halves = [0, 8].map(|at| u64::from_le_bytes(SECRET[at..at + 8].try_into().unwrap()));
    let shown = |text: &str| {
        let text = text.to_lowercase();
        let forms = halves.iter().flat_map(|half| [*half, !*half, half.swap_bytes()]);
        forms.clone().any(|form| text.contains(&form.to_string()))
            || forms.clone().any(|form| text.contains(&format!("{form:x}")))
            || text.contains("161, 178, 195")
    };
    assert!(shown(&format!("{SECRET:?}")) && shown(&format!("{halves:?}")), "it would be noticed");

    let quota = Quota::per_minute(1);
    let builder = builder(&[quota], Algorithm::Log).unwrap().secret(SECRET);
    assert!(!shown(&format!("{builder:?}")));
    let limiter = builder.build().unwrap();
    let _ = limiter.check("alice");
    assert!(!shown(&format!("{limiter:?}")));
    assert!(!shown(&format!("{limiter:#?}")));
    assert!(!shown(&format!("{:?}", slidegate::Ask::new(&limiter, "alice", Cost::ONE))));
    // A custom key has access to the hasher.
    let curious = Curious(RefCell::default());
    let _ = limiter.check(&curious);
    assert!(!shown(&curious.0.into_inner()), "the hasher shows it");
}

/// A key that stores the `Debug` output of the hasher.
struct Curious(RefCell<String>);

impl Key for Curious {
    fn feed(&self, hasher: &mut KeyHasher) {
        *self.0.borrow_mut() = format!("{hasher:?}");
        hasher.number(1);
    }
}

fn builder(quotas: &[Quota], algorithm: Algorithm) -> Result<LimiterBuilder, Error> {
    let policy = Policy::builder("settings").quotas(quotas.to_vec()).algorithm(algorithm);
    Ok(Limiter::builder(policy.build()?))
}

/// Returns a limiter with quotas in units and seconds.
fn limiter(quotas: &[(u64, u64)], algorithm: Algorithm) -> (Limiter, ManualClock) {
    let quotas: Vec<_> = quotas
        .iter()
        .map(|(limit, seconds)| Quota::new(*limit, Duration::from_secs(*seconds)).unwrap())
        .collect();
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let limiter = builder(&quotas, algorithm).unwrap().clock(clock.clone()).build().unwrap();
    (limiter, clock)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}
