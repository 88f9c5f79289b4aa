//! No allocation per check in steady state, measured with a counting allocator.
//!
//! What could go wrong: a vector built for a decision, a block that is released and allocated again
//! in every window, a key that is formatted before it is hashed.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, Policy, Quota};
use slidegate_testkit::Random;

const CHECKS: u64 = 100_000;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

// If the counter did not count, all tests below would pass.
#[test]
fn the_allocator_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    assert_eq!(allocations(|| std::hint::black_box(vec![0_u8; 10]).resize(1000, 0)), 2);
}

#[test]
fn checks_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in ALGORITHMS {
        let traffic = Traffic::new(&[(100, 60)], algorithm);
        seen.extend(traffic.allocations(|limiter, key| {
            let _ = limiter.check(key);
        }));
    }
    assert_eq!(seen, NONE);
}

// Two quotas share one log in chunks, which are created and removed.
#[test]
fn checks_under_two_quotas_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in ALGORITHMS {
        let traffic = Traffic::new(&[(10, 1), (300, 60)], algorithm);
        seen.extend(traffic.allocations(|limiter, key| {
            let _ = limiter.check(key);
        }));
    }
    assert_eq!(seen, NONE);
}

// A log of many thousand entries has chunks too.
#[test]
fn checks_of_a_long_log_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 4096 }] {
        let traffic = Traffic { keys: 1, ..Traffic::new(&[(100_000, 60)], algorithm) };
        seen.extend(traffic.allocations(|limiter, key| {
            let _ = limiter.check(key);
        }));
    }
    // The list of chunks may grow once more, by doubling.
    seen.retain(|(_, count)| *count > 1);
    assert_eq!(seen, NONE);
}

#[test]
fn denied_checks_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in ALGORITHMS {
        let traffic = Traffic::new(&[(5, 60)], algorithm);
        // These keys are nearly always over their limit.
        let traffic = Traffic { gap: traffic.gap / 10, ..traffic };
        let mut denied = 0_u64;
        seen.extend(traffic.allocations(|limiter, key| {
            denied += u64::from(!limiter.check(key).is_allowed());
            let _ = limiter.check_cost(key, Cost::new(6).unwrap());
        }));
        assert!(denied > CHECKS / 2, "{algorithm:?} denied only {denied}");
    }
    assert_eq!(seen, NONE);
}

#[test]
fn peeks_and_refunds_of_the_last_units_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in ALGORITHMS {
        let traffic = Traffic::new(&[(100, 60)], algorithm);
        let mut refunded = 0;
        seen.extend(traffic.allocations(|limiter, key| {
            let _ = limiter.peek(key);
            let _ = limiter.usage(key);
            if let Some(receipt) = limiter.check(key).into_receipt() {
                refunded += limiter.refund(receipt);
            }
            if let Some(receipt) = limiter.reserve(key, 2).into_receipt() {
                let _ = limiter.settle(receipt, 1);
            }
        }));
        assert!(refunded > CHECKS / 2, "{algorithm:?} refunded only {refunded}");
    }
    assert_eq!(seen, NONE);
}

#[test]
fn batches_into_a_used_vector_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in ALGORITHMS {
        let traffic = Traffic::new(&[(100, 60)], algorithm);
        let mut decisions = Vec::with_capacity(64);
        seen.extend(traffic.allocations(|limiter, key| {
            limiter.check_many(&[*key, *key], Cost::ONE, &mut decisions);
        }));
    }
    assert_eq!(seen, NONE);
}

// Text, addresses and tuples are hashed in place.
#[test]
fn keys_of_every_kind_allocate_nothing() {
    let traffic = Traffic::new(&[(100, 60)], Algorithm::Log);
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    let text = String::from("alice");
    let seen = traffic.allocations(|limiter, _| {
        let _ = limiter.check("alice");
        let _ = limiter.check(&text);
        let _ = limiter.check(&address);
        let _ = limiter.check(&("alice", 7_u64, address));
    });
    assert_eq!(seen, None);
}

// Shadow mode and tiers use another code path.
#[test]
fn tiers_and_shadows_allocate_nothing() {
    let mut seen = Vec::new();
    for algorithm in ALGORITHMS {
        let quota = Quota::per_minute(100);
        let shadow = Policy::builder("shadow").mode(slidegate::Mode::Shadow);
        let traffic = Traffic::of(shadow.quota(quota).algorithm(algorithm).build().unwrap());
        let tier = traffic.limiter.tier(&[Quota::per_minute(50)]).unwrap();
        seen.extend(traffic.allocations(|limiter, key| {
            let _ = limiter.check(key);
            let _ = limiter.with(&tier).unwrap().check(&(key + 1000));
        }));
    }
    assert_eq!(seen, NONE);
}

/// The expected result: no algorithm with allocations.
const NONE: [(Algorithm, u64); 0] = [];

/// Keys that are checked at irregular times, slightly more often than their limit allows.
struct Traffic {
    limiter: Limiter,
    clock: ManualClock,
    keys: u64,
    /// The average time between two requests in nanoseconds.
    gap: u64,
    window: u64,
}

impl Traffic {
    fn new(quotas: &[(u64, u64)], algorithm: Algorithm) -> Self {
        let quotas = quotas
            .iter()
            .map(|(limit, seconds)| Quota::new(*limit, Duration::from_secs(*seconds)).unwrap());
        Self::of(Policy::builder("calm").quotas(quotas).algorithm(algorithm).build().unwrap())
    }

    fn of(policy: Policy) -> Self {
        let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
        let quota = *policy.quotas().last().unwrap();
        let window = u64::try_from(quota.window().as_nanos()).unwrap();
        let gap = window / quota.limit();
        // With one secret, the same keys share the same shards in every run.
        let builder = Limiter::builder(policy).clock(clock.clone()).secret([7; 16]);
        let limiter = builder.build().unwrap();
        Self { limiter, clock, keys: 16, gap, window }
    }

    /// Warms up for five windows, then counts over 100,000 calls. Returns `None` if nothing was
    /// allocated.
    fn allocations(&self, mut ask: impl FnMut(&Limiter, &u64)) -> Option<(Algorithm, u64)> {
        let mut random = Random::new(7);
        let gap = self.gap / self.keys;
        let mut run = |calls: u64| {
            for _ in 0..calls {
                // A third faster than the limit, so that some requests are denied.
                self.clock.advance(Duration::from_nanos(random.between(0, gap * 3 / 2)));
                let key = random.between(1, self.keys);
                ask(&self.limiter, &key);
            }
        };
        run((5 * self.window / gap.max(1)).max(CHECKS));
        let count = allocations(|| run(CHECKS));
        (count > 0).then(|| (self.limiter.policy().algorithm(), count))
    }
}

/// Returns the number of allocations of this thread while `run` ran.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    run();
    COUNT.get() - before
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter per thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call is passed on unchanged; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count() {
    // A thread that ends has no counter any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}
