//! The counter against its formula.

use proptest::prelude::*;

use super::*;
use crate::policy::Algorithm;
use crate::quota::Quota;
use crate::time::TickScale;

/// The counts of aligned windows by their number, and the formula of the module in 128 bits.
#[derive(Debug, Default)]
struct Model(std::collections::BTreeMap<u64, u64>);

impl Model {
    fn count(&self, number: u64) -> u128 {
        self.0.get(&number).copied().unwrap_or(0).into()
    }

    /// What counts at `now`, times the length of the window: no rounding.
    fn weight(&self, now: u64, window: u64) -> u128 {
        let (number, left) = (now / window, window - now % window);
        let previous = number.checked_sub(1).map_or(0, |number| self.count(number));
        self.count(number) * u128::from(window) + previous * u128::from(left)
    }

    fn used(&self, now: u64, window: u64) -> u128 {
        self.weight(now, window).div_ceil(u128::from(window))
    }

    /// The first tick from `now` on at which at most `room` units count.
    fn fits_at(&self, now: u64, window: u64, room: u128) -> u64 {
        (now..=now + 2 * window).find(|tick| self.used(*tick, window) <= room).unwrap_or(u64::MAX)
    }
}

fn limits(limit: u64, window: u64) -> Limits {
    let scale = TickScale::new(core::time::Duration::from_millis(1)).unwrap();
    let quota = Quota::new(limit, core::time::Duration::from_millis(window)).unwrap();
    Limits::new(&[quota], Algorithm::Counter, &scale)
}

proptest! {
    // Every step at a tick of its own, dated at once, so that the model needs no dates ahead.
    #[test]
    fn a_check_decides_as_the_formula_does(
        limit in 1u64..40,
        window in 1u64..60,
        steps in prop::collection::vec((0u64..50, 1u64..8, any::<bool>()), 1..80),
    ) {
        let (limits, account) = (limits(limit, window), Account::new(1 << 20));
        let (mut counter, mut model) = (Counter::new(&limits, 7), Model::default());
        let mut now = 100 * window;
        for (pause, cost, is_fast) in steps {
            now += pause;
            let moment = Moment { now, date: now };
            let fast = is_fast.then(|| counter.check_fast(&limits, moment, cost, &account)).flatten();
            let standing = fast.unwrap_or_else(|| counter.check(&limits, moment, cost, &account));
            let passes = model.used(now, window) + u128::from(cost) <= u128::from(limit);
            prop_assert_eq!(standing.retry == 0, passes);
            if passes {
                *model.0.entry(now / window).or_default() += cost;
                prop_assert_eq!(standing.tick, now);
            } else if cost > limit {
                prop_assert_eq!(standing.retry, NEVER);
            } else {
                let room = u128::from(limit - cost);
                prop_assert_eq!(now + standing.retry, model.fits_at(now, window, room));
            }
            let used = model.used(now, window);
            prop_assert_eq!(u128::from(standing.used), used);
            let less_at = used.checked_sub(1).map_or(now, |room| model.fits_at(now, window, room));
            prop_assert_eq!(now + standing.reset, less_at);
        }
    }

    // Large counts, long windows and dates ahead: the usual case must agree with the single steps.
    #[test]
    fn the_usual_case_agrees_with_the_steps(
        limit in 1u64..1 << 53,
        window in 1u64..1 << 38,
        steps in prop::collection::vec((0u64..1 << 39, 0u64..3, 1u64..1 << 53), 1..40),
    ) {
        let (limits, account) = (limits(limit, window), Account::new(1 << 20));
        let mut counter = Counter::new(&limits, 7);
        let mut now = window;
        for (pause, ahead, cost) in steps {
            now += pause % (2 * window);
            let moment = Moment { now, date: now + ahead };
            let cost = 1 + cost % limit;
            let mut other = counter;
            let expected = other.check(&limits, moment, cost, &account);
            if let Some(standing) = counter.check_fast(&limits, moment, cost, &account) {
                prop_assert_eq!(standing, expected);
                prop_assert_eq!(counter, other);
            }
            counter = other;
        }
    }
}

// A limit of zero has nothing to wait for.
#[test]
fn the_usual_case_leaves_a_limit_of_zero_to_the_steps() {
    let account = Account::new(1 << 20);
    // The quota that a policy does not have.
    let banned = limits(1, 1).only(1);
    assert_eq!(banned.quota(0), TickQuota { limit: 0, window: 1 });
    let mut counter = Counter::new(&banned, 7);
    let moment = Moment { now: 5, date: 5 };
    assert_eq!(counter.check_fast(&banned, moment, 1, &account), None);
    assert_eq!(counter.check(&banned, moment, 1, &account).retry, NEVER);
}
