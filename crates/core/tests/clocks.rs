//! Clocks that jump, lag and go back: no panic, no endless denial, never over the limit in real
//! time.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slidegate::{Algorithm, Clock, Cost, Limiter, ManualClock, Policy, Quota, RetryAfter};
use slidegate_testkit::definition::{Counting, KeyState, Moment, TickQuota};
use slidegate_testkit::{Random, never_over};

const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 1 },
    Algorithm::Segments { count: 7 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const TEN_YEARS: u64 = 10 * 366 * 24 * 3600 * SECOND;
const SECOND: u64 = 1_000_000_000;
/// The latest time of a limiter, in the year 2116. Later readings are clamped to it.
const LATEST: u64 = (1 << 62) - (1 << 50) - SECOND;
const SEEDS: u64 = 1500;

// Sums of a time and a window and differences of times may leave their range.
#[test]
fn no_walk_of_the_clock_panics() {
    for algorithm in ALGORITHMS {
        for seed in 0..SEEDS {
            let mut walk = Walk::new(seed, algorithm);
            for _ in 0..60 {
                walk.jump(u64::MAX);
                walk.ask();
            }
        }
    }
}

// Units recorded in the far future would deny forever. After the latest time that the limiter has
// seen, every request must be allowed within two windows.
#[test]
fn no_denial_lasts_longer_than_two_windows() {
    let mut locked = Vec::new();
    for algorithm in ALGORITHMS {
        for seed in 0..SEEDS {
            let mut walk = Walk::new(seed, algorithm);
            for _ in 0..40 {
                walk.jump(LATEST / 2);
                walk.latest = walk.latest.max(walk.clock.now());
                let cost = walk.cost();
                let _ = walk.limiter.check_cost("key", cost);
            }
            let longest = walk.quotas.iter().map(|quota| quota.1).max().unwrap();
            // A window is rounded up to whole ticks, and so is the time of a unit.
            let end = walk.latest + (2 * longest.div_ceil(walk.tick) + 1) * walk.tick;
            walk.clock.set(Duration::from_nanos(end));
            if !walk.limiter.check("key").is_allowed() {
                locked.push(format!("{algorithm:?}, seed {seed}"));
            }
        }
    }
    assert_eq!(locked, [""; 0]);
}

// A tick more would deny too long, and a tick less would make the retry fail.
#[test]
fn retry_after_is_exact() {
    let mut wrong = Vec::new();
    for algorithm in ALGORITHMS {
        let mut denials = 0;
        for seed in 0..SEEDS {
            let mut walk = Walk::new(seed, algorithm);
            for step in 0..40 {
                walk.step_forwards();
                if walk.clock.now() > LATEST / 2 {
                    break;
                }
                let cost = walk.cost();
                let decision = walk.limiter.check_cost("key", cost);
                let RetryAfter::After(wait) = decision.retry_after() else {
                    continue;
                };
                denials += 1;
                let then = Duration::from_nanos(walk.clock.now()) + wait;
                walk.clock.set(then.checked_sub(Duration::from_nanos(walk.tick)).unwrap());
                let early = walk.limiter.peek_cost("key", cost).is_allowed();
                walk.clock.set(then);
                let late = !walk.limiter.peek_cost("key", cost).is_allowed();
                if early || late {
                    let how = if early { "too late" } else { "too early" };
                    wrong.push(format!("{algorithm:?}, seed {seed}, step {step}: {how}"));
                }
            }
        }
        assert!(denials > 3000, "{algorithm:?} denied only {denials} times");
    }
    assert_eq!(wrong, [""; 0]);
}

// Ticks of the latest times need nearly all of their bits.
#[test]
fn the_limit_holds_at_any_time() {
    let mut wrong = Vec::new();
    for algorithm in ALGORITHMS {
        for tick in [SECOND / 10_000, SECOND / 1000, SECOND] {
            for now in [0, 1, 1_700_000_000 * SECOND, 1 << 63, 3 << 62, u64::MAX - 1, u64::MAX] {
                for window in [1, tick, 60 * SECOND, TEN_YEARS] {
                    let clock = ManualClock::new(Duration::from_nanos(now));
                    let limiter = limiter(&[(3, window)], algorithm, tick, clock.clone());
                    let passed = (0..5).filter(|_| limiter.check("key").is_allowed()).count();
                    if passed != 3 {
                        let state = format!("{algorithm:?}, tick {tick}, window {window}");
                        wrong.push(format!("{state}, at {now}: {passed} passed"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "of a limit of 3:\n{}", wrong.join("\n"));
}

// A suspended machine or a clock step must not expire units early. A clock that goes back stops for
// the limiter.
#[test]
fn a_clock_that_goes_back_is_clamped() {
    for algorithm in ALGORITHMS {
        let start = Duration::from_secs(1_700_000_000);
        let clock = ManualClock::new(start);
        let limiter = limiter(&[(2, 60 * SECOND)], algorithm, SECOND / 1000, clock.clone());
        assert!(limiter.check("key").is_allowed());
        clock.set(Duration::ZERO);
        assert_eq!(limiter.check("key").remaining(), 0, "{algorithm:?}");
        let wait = limiter.check("key").retry_after().duration().unwrap();
        clock.set(Duration::from_secs(1));
        assert_eq!(limiter.check("key").retry_after(), RetryAfter::After(wait), "{algorithm:?}");
        clock.set(start + wait);
        assert!(limiter.check("key").is_allowed(), "{algorithm:?}");
    }
}

// A lagging clock returns a time before the units were taken, with which they would expire too
// early. Every reading lags by another amount, so the clock also goes back.
#[test]
fn a_clock_with_a_lag_is_never_over_in_real_time() {
    let (mut over, mut too_strict, mut misdated) = (Vec::new(), Vec::new(), Vec::new());
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }, SEGMENTS] {
        for seed in 0..SEEDS {
            let mut random = Random::new(seed);
            let tick = random.pick(&[SECOND / 10_000, SECOND / 1000, SECOND / 100]);
            let window = tick * random.between(2, 60) + random.pick(&[0, 1, tick / 2]);
            let limit = random.between(1, 10);
            let clock = Lagging::new(&mut random, tick);
            let limiter = limiter(&[(limit, window)], algorithm, tick, clock.clone());
            let mut admitted = Vec::new();
            // Two ticks of rounding, and the lag once in the recorded time and once in the reading.
            let slack = 2 * tick + 2 * clock.lag;
            let lenient_quota = TickQuota { limit, window: window.div_ceil(tick) * tick + slack };
            let mut lenient = KeyState::new(Counting::Log, lenient_quota.window);
            for _ in 0..200 {
                let real = clock.advance(random.between(0, 3 * window / limit));
                if limiter.check("key").is_allowed() {
                    admitted.push((real, 1));
                    lenient.take(&[lenient_quota], Moment::at(real), 1);
                    let dated = limiter.history("key").ok().and_then(|mut log| log.pop());
                    let dated = dated.map(|event| u64::try_from(event.at.as_nanos()).unwrap());
                    if dated.is_some_and(|at| at < real || at > real + clock.lag + 2 * tick) {
                        misdated.push(format!("{algorithm:?}, seed {seed}"));
                    }
                } else if algorithm == Algorithm::Log && lenient.fits(&[lenient_quota], real, 1) {
                    too_strict.push(format!("seed {seed}"));
                }
            }
            let violation = never_over(&admitted, limit, window);
            over.extend(violation.map(|violation| format!("{algorithm:?}, {seed}: {violation}")));
        }
    }
    assert_eq!(over, [""; 0]);
    assert_eq!(too_strict, [""; 0]);
    assert_eq!(misdated, [""; 0]);
}

const SEGMENTS: Algorithm = Algorithm::Segments { count: 7 };

/// A coarse clock: each reading is behind real time by up to its lag.
#[derive(Debug, Clone)]
struct Lagging {
    real: Arc<AtomicU64>,
    noise: Arc<AtomicU64>,
    lag: u64,
}

impl Lagging {
    fn new(random: &mut Random, tick: u64) -> Self {
        let real = random.between(1 << 58, 1 << 60);
        let lag = random.pick(&[1, tick / 3, tick, 5 * tick + 1]);
        Self { real: Arc::new(real.into()), noise: Arc::new(random.bits().into()), lag }
    }

    fn advance(&self, nanos: u64) -> u64 {
        self.real.fetch_add(nanos, Ordering::Relaxed) + nanos
    }
}

impl Clock for Lagging {
    fn now(&self) -> u64 {
        let noise = self.noise.fetch_add(1, Ordering::Relaxed);
        self.real.load(Ordering::Relaxed) - Random::new(noise).between(0, self.lag)
    }

    fn lag(&self) -> u64 {
        self.lag
    }
}

/// A limiter with a clock that jumps at random.
struct Walk {
    random: Random,
    limiter: Limiter,
    clock: ManualClock,
    tick: u64,
    /// Limits, and windows in nanoseconds.
    quotas: Vec<(u64, u64)>,
    latest: u64,
}

impl Walk {
    fn new(seed: u64, algorithm: Algorithm) -> Self {
        let mut random = Random::new(seed);
        let tick = random.pick(&[SECOND / 10_000, SECOND / 1000, 7 * SECOND / 1000, SECOND]);
        let count = if random.chance(70) { 1 } else { random.between(2, 3) };
        let quota = |random: &mut Random| {
            let limit = if random.chance(80) { random.between(1, 9) } else { 1 << 40 };
            let window = match random.between(0, 5) {
                0 => 1,
                1 => TEN_YEARS,
                2 => random.between(1, TEN_YEARS),
                _ => tick * random.between(1, 100) + random.between(0, tick),
            };
            (limit, window.min(TEN_YEARS))
        };
        let quotas: Vec<_> = (0..count).map(|_| quota(&mut random)).collect();
        let clock = ManualClock::new(Duration::from_nanos(random.between(0, 1 << 60)));
        let limiter = limiter(&quotas, algorithm, tick, clock.clone());
        Self { random, limiter, clock, tick, quotas, latest: 0 }
    }

    fn cost(&mut self) -> Cost {
        let least = self.quotas.iter().map(|quota| quota.0).min().unwrap();
        let units = if self.random.chance(60) { 1 } else { self.random.between(1, least) };
        Cost::new(units).unwrap()
    }

    /// Jumps to a random time, also back, but no later than `latest`.
    fn jump(&mut self, latest: u64) {
        let Self { random, clock, .. } = self;
        let window = random.pick(&self.quotas).1;
        let now = clock.now();
        let to = match random.between(0, 19) {
            0 => 0,
            1 => random.pick(&[u64::MAX, u64::MAX - 1, LATEST, LATEST - 1]),
            2 => random.bits(),
            3 => now.saturating_sub(random.between(0, 3 * window)),
            4 => now.saturating_add(window),
            5..=8 => now.saturating_add(random.between(0, 2 * window)),
            9..=12 => now.saturating_add(random.between(0, self.tick)),
            _ => now,
        };
        clock.set(Duration::from_nanos(to.min(latest)));
    }

    fn step_forwards(&mut self) {
        let window = self.random.pick(&self.quotas).1;
        let by = match self.random.between(0, 9) {
            0..=4 => 0,
            5 => self.random.between(0, self.tick),
            6..=8 => self.random.between(0, window / 4),
            _ => self.random.between(0, 2 * window),
        };
        self.clock.advance(Duration::from_nanos(by));
    }

    /// Calls every operation of a key.
    fn ask(&mut self) {
        let cost = self.cost();
        let Self { random, limiter, .. } = self;
        let key = random.between(0, 3);
        match random.between(0, 7) {
            0 => drop(limiter.peek_cost(&key, cost)),
            1 => drop((limiter.usage(&key), limiter.history(&key))),
            2 => {
                let receipt = limiter.check_cost(&key, cost).into_receipt();
                let _ = receipt.map(|receipt| limiter.refund(receipt));
            }
            3 => {
                let actual = random.pick(&[0, 1, 7, 1 << 40, u64::MAX]);
                let receipt = limiter.reserve(&key, cost.get()).into_receipt();
                let _ = receipt.map(|receipt| limiter.settle(receipt, actual));
            }
            4 => {
                limiter.sweep(usize::MAX);
            }
            5 => drop(limiter.save(&mut std::io::sink())),
            _ => drop(limiter.check_cost(&key, cost)),
        }
    }
}

fn limiter(
    quotas: &[(u64, u64)],
    algorithm: Algorithm,
    tick: u64,
    clock: impl Clock + 'static,
) -> Limiter {
    let quotas = quotas
        .iter()
        .map(|(limit, window)| Quota::new(*limit, Duration::from_nanos(*window)).unwrap());
    let policy = Policy::builder("clocks").quotas(quotas).algorithm(algorithm).build().unwrap();
    let builder = Limiter::builder(policy).clock(clock).tick(Duration::from_nanos(tick));
    builder.memory_limit(1 << 20).shards(1).build().unwrap()
}
