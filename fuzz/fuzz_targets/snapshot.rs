//! Any bytes into `restore`: an error or a restored limiter, never a panic.
//!
//! What could go wrong: a length believed before it is checked, a state that no check could have made
//! and that a later check trips over, more memory than the budget. Bytes from nowhere hardly get past
//! the header, so most inputs are a true snapshot with some bytes changed.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use slidegate::{Algorithm, Cost, Limiter, ManualClock, Policy, Quota};

/// Where the clock starts.
const START: Duration = Duration::from_secs(1_000_000);

#[derive(Debug, Arbitrary)]
struct Input {
    algorithm: Kind,
    /// How long after the snapshot it is restored.
    aged_millis: u32,
    snapshot: Snapshot,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Kind {
    Log,
    LogCapped,
    Counter,
    Segments,
    Gcra,
    Fixed,
}

#[derive(Debug, Arbitrary)]
enum Snapshot {
    Bytes(Vec<u8>),
    Changed { checks: Vec<(u8, u8, u16)>, changes: Vec<(u16, u8)>, cut: Option<u16> },
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let bytes = match &input.snapshot {
        Snapshot::Bytes(bytes) => bytes.clone(),
        Snapshot::Changed { checks, changes, cut } => {
            let mut bytes = taken(input.algorithm, checks);
            change(&mut bytes, changes, *cut);
            bytes
        }
    };
    let clock = ManualClock::new(START + Duration::from_millis(u64::from(input.aged_millis)));
    let limiter = limiter(input.algorithm, &clock);
    let _ = limiter.restore(&mut bytes.as_slice());
    use_it(&limiter, &clock);
}

/// A true snapshot of a limiter that saw some checks.
fn taken(kind: Kind, checks: &[(u8, u8, u16)]) -> Vec<u8> {
    let clock = ManualClock::new(START);
    let limiter = limiter(kind, &clock);
    for (key, cost, millis) in checks.iter().take(CHECKS_MAX) {
        clock.advance(Duration::from_millis(u64::from(*millis)));
        let cost = Cost::new(u64::from(*cost).max(1)).expect("one or more");
        let _ = limiter.check_cost(&u64::from(*key % 8), cost);
    }
    let mut bytes = Vec::new();
    limiter.save(&mut bytes).expect("writing to memory does not fail");
    bytes
}

/// More would only be slow.
const CHECKS_MAX: usize = 200;

fn change(bytes: &mut Vec<u8>, changes: &[(u16, u8)], cut: Option<u16>) {
    for (at, value) in changes {
        let at = usize::from(*at) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = *value;
        }
    }
    if let Some(cut) = cut {
        bytes.truncate(usize::from(cut));
    }
}

/// Whatever was restored, every operation answers and the budget holds.
fn use_it(limiter: &Limiter, clock: &ManualClock) {
    for millis in [0, 1, 59_999, 1, 120_000] {
        clock.advance(Duration::from_millis(millis));
        for key in 0..8_u64 {
            let _ = limiter.peek(&key, Cost::ONE);
            let decision = limiter.check(&key);
            let _ = limiter.usage(&key);
            let _ = limiter.history(&key);
            if let Some(receipt) = decision.into_receipt() {
                assert!(limiter.refund(receipt) <= 1, "one unit was taken");
            }
        }
        let stats = limiter.stats();
        assert!(stats.bytes <= stats.memory_limit, "{stats:?}");
    }
    limiter.sweep(usize::MAX);
}

fn limiter(kind: Kind, clock: &ManualClock) -> Limiter {
    let policy = Policy::builder("fuzz")
        .quota(Quota::per_minute(100).expect("in range"))
        .algorithm(kind.algorithm())
        .build()
        .expect("one quota");
    Limiter::builder(policy)
        .clock(clock.clone())
        .memory_limit(1 << 20)
        .shards(2)
        .secret([7; 16])
        .build()
        .expect("settings in range")
}

impl Kind {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Log => Algorithm::Log,
            Self::LogCapped => Algorithm::LogCapped { bytes_max: 64 },
            Self::Counter => Algorithm::Counter,
            Self::Segments => Algorithm::Segments { count: 6 },
            Self::Gcra => Algorithm::Gcra,
            Self::Fixed => Algorithm::Fixed,
        }
    }
}
