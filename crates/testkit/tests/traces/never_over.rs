//! The in-memory limiter with real times in nanoseconds, and ticks far coarser than the clock.
//!
//! What could go wrong: a recorded time rounded down or a current time rounded up would admit a
//! fraction of a tick too early, which no test on whole ticks can detect.

use std::time::Duration;

use slidegate::{Algorithm, Cost, Error, Limiter, ManualClock, Policy, Quota, Receipt};
use slidegate_testkit::definition::{Counting, KeyState, Moment, TickQuota, TickReceipt};
use slidegate_testkit::{Random, never_over};

const SEEDS: u64 = 1500;

/// One key of a limiter, and everything that really happened to it.
struct Walk {
    random: Random,
    limiter: Limiter,
    clock: ManualClock,
    limit: u64,
    window_ns: u64,
    tick_ns: u64,
    /// Real time, which never goes back.
    real_ns: u64,
    /// How far the limiter's clock is behind real time.
    behind_ns: u64,
    /// Real times and units, without refunded ones.
    admitted: Vec<(u64, u64)>,
    receipts: Vec<(Receipt, u64)>,
    /// The exact log with a window that is two ticks longer. What it allows must not be denied.
    lenient: KeyState,
    lenient_quota: TickQuota,
    /// Denials that even the lenient log would not have made.
    unjustified: Vec<u64>,
}

impl Walk {
    fn new(seed: u64, algorithm: Algorithm) -> Result<Self, Error> {
        let mut random = Random::new(seed);
        let tick_ns = random.pick(&[100_000, 1_000_000, 10_000_000, 1_000_000_000]);
        let window_ns = random.between(1, 60) * tick_ns + random.pick(&[0, 1, tick_ns / 2]);
        let limit = random.between(1, 20);
        let real_ns = random.between(1 << 58, 1 << 60);
        let clock = ManualClock::new(Duration::from_nanos(real_ns));
        let quota = Quota::new(limit, Duration::from_nanos(window_ns))?;
        let policy = Policy::builder("real").quota(quota).algorithm(algorithm).build()?;
        let limiter = Limiter::builder(policy)
            .clock(clock.clone())
            .tick(Duration::from_nanos(tick_ns))
            .build()?;
        let lenient_quota =
            TickQuota { limit, window: (window_ns.div_ceil(tick_ns) + 2) * tick_ns };
        Ok(Self {
            random,
            limiter,
            clock,
            limit,
            window_ns,
            tick_ns,
            real_ns,
            behind_ns: 0,
            admitted: Vec::new(),
            receipts: Vec::new(),
            lenient: KeyState::new(Counting::Log, lenient_quota.window),
            lenient_quota,
            unjustified: Vec::new(),
        })
    }

    fn advance(&mut self, falls_behind: bool) {
        let Self { random, window_ns, tick_ns, .. } = self;
        self.real_ns += match random.between(0, 9) {
            0..=3 => 0,
            4 => 1,
            5..=6 => random.between(0, *tick_ns),
            7..=8 => random.between(0, *window_ns / self.limit),
            _ => random.between(window_ns.saturating_sub(*tick_ns), *window_ns + *tick_ns),
        };
        if falls_behind && random.chance(3) {
            self.behind_ns += random.between(1, 2 * *window_ns);
        }
        self.clock.set(Duration::from_nanos(self.real_ns - self.behind_ns));
    }

    fn check(&mut self) -> Result<(), Error> {
        let cost = if self.random.chance(70) { 1 } else { self.random.between(1, self.limit) };
        let decision = self.limiter.check_cost("key", Cost::new(cost)?);
        if decision.is_allowed() {
            self.admitted.push((self.real_ns, cost));
            self.lenient.take(&[self.lenient_quota], Moment::at(self.real_ns), cost);
            let receipt = decision.into_receipt();
            self.receipts.extend(receipt.map(|receipt| (receipt, self.real_ns)));
        } else if self.lenient.fits(&[self.lenient_quota], self.real_ns, cost) {
            self.unjustified.push(self.real_ns);
        }
        Ok(())
    }

    fn refund(&mut self) {
        let index = self.random.index(self.receipts.len());
        let (receipt, at_ns) = self.receipts.swap_remove(index);
        let back = self.limiter.refund(receipt);
        let lent = TickReceipt { units: back, at: at_ns, life: 0 };
        self.lenient.refund(&[self.lenient_quota], Moment::at(self.real_ns), lent);
        let mut left = back;
        for (_, units) in self.admitted.iter_mut().filter(|(at, _)| *at == at_ns) {
            let less = left.min(*units);
            *units -= less;
            left -= less;
        }
    }
}

/// Real time never goes back; the limiter's clock may fall behind it.
fn walk(seed: u64, algorithm: Algorithm, falls_behind: bool) -> Result<Walk, Error> {
    let mut walk = Walk::new(seed, algorithm)?;
    for _ in 0..300 {
        walk.advance(falls_behind);
        if walk.random.chance(10) && !walk.receipts.is_empty() {
            walk.refund();
        } else {
            walk.check()?;
        }
    }
    Ok(walk)
}

/// Returns the seeds that exceeded the limit, with the details.
fn broken(algorithm: Algorithm) -> Vec<String> {
    let mut broken = Vec::new();
    for seed in 0..SEEDS {
        match walk(seed, algorithm, seed.is_multiple_of(2)) {
            Err(error) => broken.push(format!("seed {seed}: {error}")),
            Ok(walk) => {
                let violation = never_over(&walk.admitted, walk.limit, walk.window_ns);
                broken.extend(violation.map(|violation| format!("seed {seed}: {violation}")));
            }
        }
    }
    broken
}

#[test]
fn the_log_is_never_over() {
    assert_eq!(broken(Algorithm::Log), [""; 0]);
}

#[test]
fn the_capped_log_is_never_over() {
    assert_eq!(broken(Algorithm::LogCapped { bytes_max: 64 }), [""; 0]);
}

#[test]
fn segments_are_never_over() {
    for count in [1, 2, 7, 60] {
        assert_eq!(broken(Algorithm::Segments { count }), [""; 0], "{count} segments");
    }
}

#[test]
fn the_log_denies_only_what_two_ticks_of_rounding_explain() {
    for seed in 0..SEEDS {
        let walk = walk(seed, Algorithm::Log, false).unwrap();
        assert_eq!(walk.unjustified, [0; 0], "seed {seed}");
    }
}

/// The fixed window is known to exceed the limit: otherwise the check above would prove nothing.
#[test]
fn the_fixed_window_is_over() {
    assert!(!broken(Algorithm::Fixed).is_empty());
}
