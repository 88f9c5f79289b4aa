//! The bound: at most twice the limit in any interval of one window, and no less can be promised.

use core::time::Duration;
use std::sync::Arc;

use proptest::prelude::*;

use crate::{Algorithm, Clock, Cost, Limiter, ManualClock, Policy, Quota};

const MS: u64 = 1_000_000;
const START: Duration = Duration::from_secs(1_700_000_000);

/// A clock that lags behind the time that is set, by up to a tenth of a tick.
#[derive(Debug, Clone)]
struct Lagging {
    real: ManualClock,
    lag: Arc<core::sync::atomic::AtomicU64>,
}

const LAG: u64 = MS / 10;

impl Clock for Lagging {
    fn now(&self) -> u64 {
        self.real.now() - self.lag.load(core::sync::atomic::Ordering::Relaxed)
    }

    fn lag(&self) -> u64 {
        LAG
    }
}

fn limiter(limit: u64, window_ms: u64, clock: impl Clock + 'static) -> Limiter {
    let quota = Quota::new(limit, Duration::from_millis(window_ms)).unwrap();
    let policy = Policy::builder("p").quota(quota).algorithm(Algorithm::Gcra).build().unwrap();
    Limiter::builder(policy).clock(clock).build().unwrap()
}

/// The exact bucket in whole ticks: it holds parts, of which a unit has `window` and `limit` leak per
/// tick.
#[derive(Default)]
struct Model {
    parts: u64,
    at: u64,
}

impl Model {
    fn take(&mut self, limit: u64, window: u64, tick: u64, cost: u64) -> bool {
        self.parts = self.parts.saturating_sub((tick - self.at) * limit);
        self.at = tick;
        let is_allowed = self.parts + cost * window <= limit * window;
        self.parts += if is_allowed { cost * window } else { 0 };
        is_allowed
    }
}

/// The most units in an interval of `window`, whose two ends belong to it if it is `closed`.
fn most(admitted: &[(u64, u64)], window: u64, closed: bool) -> u64 {
    let inside = |from: u64| {
        let until = from + window;
        let units = admitted
            .iter()
            .filter(|(at, _)| *at >= from && (*at < until || (closed && *at == until)));
        units.map(|(_, units)| units).sum()
    };
    admitted.iter().map(|(at, _)| inside(*at)).max().unwrap_or(0)
}

// A burst at the end of a tick, then one request per unit that is refilled: the last of them comes
// before the window has passed, because the burst counts from the start of its tick.
#[test]
fn exactly_twice_the_limit_fits_into_less_than_a_window() {
    let clock = ManualClock::new(START + Duration::from_micros(900));
    let limiter = limiter(10, 1000, clock.clone());
    let mut admitted = Vec::new();
    for _ in 0..10 {
        assert!(limiter.check("k").is_allowed(), "the burst is whole");
        admitted.push((clock.now(), 1));
    }
    for refilled in 1..=10 {
        clock.set(START + Duration::from_millis(100 * refilled));
        assert!(limiter.check("k").is_allowed());
        assert!(!limiter.check("k").is_allowed());
        admitted.push((clock.now(), 1));
    }
    assert_eq!(most(&admitted, 1000 * MS, false), 20);
}

proptest! {
    // Decides as the exact bucket in whole ticks, which bounds any interval of one window, with both of
    // its ends, by twice the limit.
    #[test]
    fn never_more_than_twice_the_limit(
        limit in 1u64..60,
        window in 1u64..50,
        steps in prop::collection::vec((0u64..3 * MS, 1u64..4), 1..300),
    ) {
        let clock = ManualClock::new(START);
        let limiter = limiter(limit, window, clock.clone());
        let mut model = Model::default();
        let mut admitted = Vec::new();
        for (gap, cost) in steps {
            clock.advance(Duration::from_nanos(gap));
            let allowed = limiter.check_cost("k", Cost::new(cost).unwrap()).is_allowed();
            prop_assert_eq!(allowed, model.take(limit, window, clock.now() / MS, cost));
            if allowed {
                admitted.push((clock.now(), cost));
            }
        }
        prop_assert!(most(&admitted, window * MS, true) <= 2 * limit);
    }

    #[test]
    fn a_clock_that_lags_adds_the_refill_of_a_tick(
        limit in 1u64..200,
        window in 1u64..50,
        steps in prop::collection::vec((0u64..3 * MS, 0..=LAG), 1..300),
    ) {
        let clock = Lagging { real: ManualClock::new(START), lag: Arc::default() };
        let limiter = limiter(limit, window, clock.clone());
        let mut admitted = Vec::new();
        for (gap, lag) in steps {
            clock.real.advance(Duration::from_nanos(gap));
            clock.lag.store(lag, core::sync::atomic::Ordering::Relaxed);
            for _ in 0..5 {
                if limiter.check("k").is_allowed() {
                    admitted.push((clock.real.now(), 1));
                }
            }
        }
        prop_assert!(most(&admitted, window * MS, true) <= 2 * limit + limit / window);
    }
}
