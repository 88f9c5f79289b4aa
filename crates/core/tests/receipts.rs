//! Receipts across restarts and resets: each refunds exactly its own units, or none.
//!
//! What could go wrong: a receipt that does not find its units after a restore, or one that refunds
//! the units of another request.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, LimiterBuilder, ManualClock, Policy, Quota};
use slidegate_testkit::Random;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const START_MS: u64 = 1_700_000_012_345;
const START: Duration = Duration::from_millis(START_MS);
const DAY: Duration = Duration::from_secs(86_400);

/// A receipt as it is sent to a client and back.
#[derive(Debug, Clone, Copy)]
struct Parts {
    key: u64,
    units: u64,
    tick: u64,
    epoch: u16,
}

fn check(limiter: &Limiter, key: u64, units: u64) -> Parts {
    let receipt = limiter.check_cost(&key, Cost::new(units).unwrap()).into_receipt().unwrap();
    Parts { key, units, tick: receipt.tick(), epoch: receipt.epoch() }
}

fn refund(limiter: &Limiter, parts: Parts) -> u64 {
    let Parts { key, units, tick, epoch } = parts;
    limiter.refund(limiter.receipt(&key, units, tick, epoch))
}

/// Quotas over days, so that nothing expires within seconds, and less than a unit is refilled.
fn builder(algorithm: Algorithm, quotas: usize, clock: &ManualClock) -> LimiterBuilder {
    let all = [Quota::new(1000, DAY).unwrap(), Quota::new(5000, 7 * DAY).unwrap()];
    let policy = Policy::builder("receipts").quotas(all.into_iter().take(quotas));
    Limiter::builder(policy.algorithm(algorithm).build().unwrap()).clock(clock.clone())
}

fn variants() -> impl Iterator<Item = (Algorithm, usize)> {
    ALGORITHMS.into_iter().flat_map(|algorithm| [(algorithm, 1), (algorithm, 2)])
}

fn save(limiter: &Limiter) -> Vec<u8> {
    let mut snapshot = Vec::new();
    limiter.save(&mut snapshot).unwrap();
    snapshot
}

fn restore(snapshot: &[u8], builder: LimiterBuilder) -> Limiter {
    builder.restore(&mut &*snapshot).unwrap().0
}

// The pauses: none, some seconds, and a wall clock that was set back by an hour.
#[test]
fn every_receipt_survives_restores() {
    for (algorithm, quotas) in variants() {
        for resumed_ms in [START_MS, START_MS + 7000, START_MS - 3_600_000] {
            let resumed = Duration::from_millis(resumed_ms);
            let is_usual = (algorithm, quotas) == (Algorithm::Log, 1) && resumed > START;
            let keys = if is_usual { 100_000 } else { 1000 };
            let clock = ManualClock::new(START);
            let mut limiter = builder(algorithm, quotas, &clock).build().unwrap();
            let receipts: Vec<Parts> =
                (0..keys).map(|key| check(&limiter, key, 1 + key % 3)).collect();
            for part in receipts.chunks(receipts.len().div_ceil(2)) {
                let clock = ManualClock::new(resumed);
                limiter = restore(&save(&limiter), builder(algorithm, quotas, &clock));
                let returned = |receipt: &&Parts| refund(&limiter, **receipt) == receipt.units;
                let refunded = part.iter().filter(returned).count();
                assert_eq!(refunded, part.len(), "{algorithm:?}, {quotas} quotas, {resumed:?}");
            }
            let left = (0..keys).filter(|key| limiter.usage(key).units(0) > 0).count();
            assert_eq!(left, 0, "{algorithm:?}, {quotas} quotas, {resumed:?}");
        }
    }
}

// After a crash, units that were taken after the snapshot are not recorded. Their receipts must not
// refund units that the key took later.
#[test]
fn receipts_issued_after_the_snapshot_are_void() {
    for (algorithm, quotas) in variants() {
        let clock = ManualClock::new(START);
        let mut limiter = builder(algorithm, quotas, &clock).build().unwrap();
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            kept.push(check(&limiter, 1, 1));
            let snapshot = save(&limiter);
            clock.advance(Duration::from_millis(300));
            lost.push(check(&limiter, 1, 1));
            clock.advance(Duration::from_millis(2));
            limiter = restore(&snapshot, builder(algorithm, quotas, &clock));
        }
        let _ = check(&limiter, 1, 1);
        for receipt in lost {
            assert_eq!(refund(&limiter, receipt), 0, "{algorithm:?}, {quotas} quotas");
        }
        assert_eq!(limiter.usage(&1_u64).units(0), 21, "{algorithm:?}, {quotas} quotas");
        // The sixteen latest restarts are distinguished.
        for receipt in &kept[5..] {
            assert_eq!(refund(&limiter, *receipt), 1, "{algorithm:?}, {quotas} quotas");
        }
    }
}

#[test]
fn no_receipt_outlives_70_000_resets_in_one_tick() {
    for (algorithm, quotas) in variants() {
        let clock = ManualClock::new(START);
        let limiter = builder(algorithm, quotas, &clock).build().unwrap();
        let void: Vec<Parts> = (0..70_000)
            .map(|_| {
                let receipt = check(&limiter, 1, 1);
                assert!(limiter.reset(&1_u64));
                receipt
            })
            .collect();
        let _ = check(&limiter, 1, 1);
        for limiter in [&limiter, &restore(&save(&limiter), builder(algorithm, quotas, &clock))] {
            let returned: u64 = void.iter().map(|receipt| refund(limiter, *receipt)).sum();
            assert_eq!(returned, 0, "{algorithm:?}, {quotas} quotas");
        }
        clock.advance(Duration::from_millis(1));
        let receipt = check(&limiter, 1, 1);
        assert_eq!(refund(&limiter, receipt), 1, "{algorithm:?}: a tick later all is as usual");
    }
}

// A shard counts epochs with sixteen bits: the counter wraps around while the key is gone.
#[test]
fn no_receipt_outlives_a_reset_and_65_535_other_keys() {
    let clock = ManualClock::new(START);
    let builder = || builder(Algorithm::Log, 1, &clock).shards(1);
    for restarts in [false, true] {
        let mut limiter = builder().build().unwrap();
        let void = check(&limiter, 0, 1);
        assert!(limiter.reset(&0_u64));
        if restarts {
            limiter = restore(&save(&limiter), builder());
        }
        for key in 1..=65_535 {
            let _ = check(&limiter, key, 1);
        }
        clock.advance(Duration::from_secs(1));
        let good = check(&limiter, 0, 1);
        assert_eq!((refund(&limiter, void), refund(&limiter, good)), (0, 1));
    }
}

// The record of a reset is not kept for longer than receipts could be used.
#[test]
fn resets_release_their_memory() {
    let clock = ManualClock::new(START);
    let limiter = builder(Algorithm::Log, 1, &clock).build().unwrap();
    let empty = limiter.stats().bytes;
    for key in 0..10_000 {
        let _ = check(&limiter, key, 1);
        assert!(limiter.reset(&key));
    }
    clock.advance(2 * DAY);
    for _ in 0..100 {
        limiter.sweep(usize::MAX);
    }
    assert_eq!(limiter.stats().bytes, empty);
}

/// The recorded units by the number of the receipt.
type Record = BTreeMap<usize, Parts>;

// Checks, refunds, resets, restarts and crashes in any order, compared with a plain list of
// receipts. Every unused receipt is used at some time.
#[test]
fn receipts_refund_exactly_their_recorded_units() {
    // GCRA refills, so the refund of a valid receipt depends on the time.
    let variants = variants().filter(|(algorithm, _)| *algorithm != Algorithm::Gcra);
    for (algorithm, quotas) in variants {
        for seed in 0..60 {
            let context = format!("{algorithm:?}, {quotas} quotas, seed {seed}");
            // If a wall clock went back and there was a crash, the lost ticks are unknown.
            walk(algorithm, quotas, seed % 2 == 0, &mut Random::new(seed), &context);
        }
    }
}

fn walk(algorithm: Algorithm, quotas: usize, crashes: bool, random: &mut Random, context: &str) {
    let mut clock = ManualClock::new(START);
    let mut limiter = builder(algorithm, quotas, &clock).build().unwrap();
    let mut record = Record::new();
    let mut unused = Vec::new();
    let mut saved = (save(&limiter), record.clone());
    clock.advance(Duration::from_millis(1));
    for step in 0..150 {
        match random.between(0, 100) {
            0..50 => {
                clock.advance(Duration::from_millis(random.between(0, 2)));
                let receipt = check(&limiter, random.between(0, 4), random.between(1, 5));
                record.insert(step, receipt);
                unused.push((step, receipt));
            }
            50..75 if !unused.is_empty() => {
                let at = usize::try_from(random.between(0, unused.len() as u64 - 1)).unwrap();
                let (number, receipt) = unused.swap_remove(at);
                let expected = record.remove(&number).map_or(0, |receipt| receipt.units);
                assert_eq!(refund(&limiter, receipt), expected, "{context}, step {step}");
            }
            75..85 => {
                let key = random.between(0, 4);
                record.retain(|_, receipt| receipt.key != key);
                limiter.reset(&key);
            }
            85..92 => {
                saved = (save(&limiter), record.clone());
                clock.advance(Duration::from_millis(random.between(1, 50)));
            }
            92..94 if crashes => {
                clock.advance(Duration::from_millis(random.between(1, 50)));
                limiter = restore(&saved.0, builder(algorithm, quotas, &clock));
                record = saved.1.clone();
            }
            _ => {
                let snapshot = save(&limiter);
                if !crashes {
                    clock = ManualClock::new(START + Duration::from_secs(random.between(0, 9)));
                }
                limiter = restore(&snapshot, builder(algorithm, quotas, &clock));
            }
        }
    }
    for key in 0..=4_u64 {
        let recorded = record.values().filter(|receipt| receipt.key == key);
        let units: u64 = recorded.map(|receipt| receipt.units).sum();
        assert_eq!(limiter.usage(&key).units(0), units, "{context}, key {key}");
    }
}
