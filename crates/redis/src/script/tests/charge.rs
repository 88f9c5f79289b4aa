//! Units that are recorded late: they must count as if they had been recorded in time.

use core::time::Duration;

use slidegate::{Algorithm, Limiter, ManualClock, Policy, Quota};
use slidegate_testkit::Random;

use super::super::{Charge, KeyOp, KeyReply, Op, ScriptLimits};
use super::refund::Model;
use super::{ALGORITHMS, Caller, START, charge, decided, limits, ms};

impl Caller {
    /// The units that count against each quota.
    fn used(&mut self, now: Duration, key: &str, limits: &ScriptLimits) -> Vec<u64> {
        match self.run(now, key, limits, Op::Peek { cost: 1 }).unwrap() {
            KeyReply::Decision { used, .. } => used,
            other => panic!("{other:?} is not a decision"),
        }
    }

    fn charge(
        &mut self,
        now: Duration,
        key: &str,
        limits: &ScriptLimits,
        charges: &[Charge],
    ) -> u64 {
        self.run(now, key, limits, Op::Charge { charges }).unwrap().units().unwrap()
    }
}

/// The limits of a key whose every charge has its own date. A log joins units above the limit.
fn dated(algorithm: Algorithm, quotas: &[(u64, u64)]) -> ScriptLimits {
    let is_log = matches!(algorithm, Algorithm::Log | Algorithm::LogCapped { .. });
    let unused = |(limit, window)| (if is_log { 1 << 40 } else { limit }, window);
    limits(algorithm, &quotas.iter().copied().map(unused).collect::<Vec<_>>())
}

// After an outage the units of a whole window arrive at once. Dated now, they would count for up to
// twice their window; dated too early, they would let others through.
#[test]
pub(super) fn charges_with_an_age_count_as_if_recorded_in_time() {
    let mut caller = Caller::start();
    let mut random = Random::new(3);
    for round in 0..180 {
        let algorithm = ALGORITHMS[round % ALGORITHMS.len()];
        let quotas: &[(u64, u64)] =
            if random.chance(50) { &[(30, 1000)] } else { &[(30, 1000), (60, 2500)] };
        let limits = limits(algorithm, quotas);
        caller.flush();
        let (mut now, mut taken) = (START + ms(random.between(0, 3000)), Vec::new());
        // All within the shortest window: older ones are not recorded late.
        for _ in 0..random.between(1, 12) {
            now += ms(random.pick(&[0, 1, 7, 60, 70]));
            let units = random.pick(&[1, 1, 3, 200]);
            caller.charge(now, "in time", &dated(algorithm, quotas), &[charge(units, 0)]);
            taken.push((now, units));
        }
        now += ms(random.between(0, 150));
        let charges: Vec<Charge> = taken
            .iter()
            .map(|&(at, units)| Charge { units, age: now.saturating_sub(at) })
            .collect();
        caller.charge(now, "late", &limits, &charges);
        for _ in 0..12 {
            let [late, in_time] = ["late", "in time"].map(|key| caller.used(now, key, &limits));
            assert_eq!(late, in_time, "{algorithm:?}, round {round}, {taken:?} at {now:?}");
            now += ms(random.between(1, 400));
        }
    }
}

// Other processes go on while one waits to report: its units are then older than the recorded ones.
#[test]
pub(super) fn charges_behind_later_units_never_over_admit() {
    let mut caller = Caller::start();
    let mut random = Random::new(4);
    for round in 0..120 {
        let algorithm = ALGORITHMS[round % ALGORITHMS.len()];
        let quotas = [(40, 1000), (70, 2500)];
        // What was merged depends on when, so a log with a cap is compared with an exact one.
        let exact = match algorithm {
            Algorithm::LogCapped { .. } => dated(Algorithm::Log, &quotas),
            algorithm => dated(algorithm, &quotas),
        };
        let limits = limits(algorithm, &quotas);
        caller.flush();
        let (mut now, mut waiting) = (START, Vec::new());
        for _ in 0..random.between(5, 40) {
            now += ms(random.pick(&[0, 1, 7, 60, 200]));
            let units = random.pick(&[1, 1, 2, 9]);
            caller.charge(now, "in time", &exact, &[charge(units, 0)]);
            if random.chance(40) {
                waiting.push((now, units));
            } else {
                caller.charge(now, "late", &limits, &[charge(units, 0)]);
            }
        }
        let charges: Vec<Charge> = waiting
            .iter()
            .map(|&(at, units)| Charge { units, age: now.saturating_sub(at) })
            .collect();
        if !charges.is_empty() {
            caller.charge(now, "late", &limits, &charges);
        }
        for _ in 0..12 {
            let late = caller.used(now, "late", &limits);
            let in_time = caller.used(now, "in time", &exact);
            assert!(
                late.iter().zip(&in_time).all(|(late, in_time)| late >= in_time),
                "{algorithm:?}, round {round}: {late:?} for {in_time:?} at {now:?}"
            );
            now += ms(random.between(1, 400));
        }
    }
}

// Of a long log only a part is merged at a time, so that no call takes long.
#[test]
pub(super) fn long_capped_log_is_exact_to_a_quantum() {
    let (mut caller, mut random) = (Caller::start(), Random::new(6));
    // The quantum is the first power of two of at least 12 windows divided by the cap.
    let (window, bytes_max, quantum) = (300_000, 16_384, 256);
    for quotas in [&[(1 << 40, window)][..], &[(1 << 40, 20_000), (1 << 40, window)]] {
        caller.flush();
        let limits = limits(Algorithm::LogCapped { bytes_max }, quotas);
        let (mut model, mut now) = (Model::default(), START);
        for round in 0..240 {
            now += ms(random.pick(&[100, 100, 100, 700, 9000]));
            let charges: Vec<Charge> =
                (0..100).rev().map(|age| charge(random.pick(&[1, 1, 3]), age)).collect();
            caller.charge(now, "k", &limits, &charges);
            let tick = u64::try_from(now.as_millis()).unwrap();
            for (charge, age) in charges.iter().zip((0..100).rev()) {
                model.take(tick - age, charge.units);
            }
            model.entries.retain(|(at, _)| at + window + quantum > tick);
            for (used, (_, window)) in caller.used(now, "k", &limits).iter().zip(quotas) {
                let [least, most] =
                    [*window, window + quantum].map(|window| model.used(tick, window));
                assert!((least..=most).contains(used), "round {round}: {least} {used} {most}");
            }
        }
        let value: Vec<u8> = caller.command("GET k");
        assert!((8000..18_000).contains(&value.len()), "{} bytes", value.len());
    }
}

#[test]
pub(super) fn charges_older_than_every_window_are_not_recorded() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let limits = limits(algorithm, &[(5, 1000), (9, 2000)]);
        let recorded = [charge(3, 2000), charge(2, 1999)].map(|one| {
            let charged = caller.charge(START, "k", &limits, &[one]);
            (charged, caller.used(START, "k", &limits)[0])
        });
        assert_eq!(recorded[0], (0, 0), "{algorithm:?}");
        assert_eq!(recorded[1].0, 2, "{algorithm:?}");
    }
}

// Debt does not end at the limit, and a check that follows sees it.
#[test]
pub(super) fn charges_may_exceed_the_limit() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let limits = limits(algorithm, &[(5, 1000)]);
        let charges = [charge(4, 20), charge(4, 10)];
        // The window of the fixed algorithms must not end between the charges.
        let now = START + ms(500);
        assert_eq!(caller.charge(now, "k", &limits, &charges), 8, "{algorithm:?}");
        let op = KeyOp { limits: &limits, op: Op::Check { cost: 1 } };
        let reply = caller.call(now, &["k"], &[op]).unwrap();
        assert_eq!(decided(&reply.keys[0]), (false, 0, 8), "{algorithm:?}");
    }
}

/// The units that count in one window of a log, as the memory store counts them.
struct InMemory {
    limiter: Limiter,
    clock: ManualClock,
}

impl InMemory {
    fn new(quotas: &[(u64, u64)]) -> Self {
        let clock = ManualClock::new(START);
        let quota = |&(limit, window)| Quota::new(limit, ms(window)).unwrap();
        let policy = Policy::builder("test").quotas(quotas.iter().map(quota)).build().unwrap();
        let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
        Self { limiter, clock }
    }
}

// Reports of usage arrive although nothing is left. They must take no memory, and count as in memory.
#[test]
pub(super) fn units_above_the_limit_join_the_newest_entry_as_in_memory() {
    let (mut caller, mut random) = (Caller::start(), Random::new(7));
    for round in 0..60 {
        let quotas: &[(u64, u64)] =
            if random.chance(60) { &[(30, 60_000)] } else { &[(30, 60_000), (9, 2500)] };
        let limits = limits(Algorithm::Log, quotas);
        let memory = InMemory::new(quotas);
        caller.flush();
        let mut now = START;
        for step in 0..random.between(5, 120) {
            now += ms(random.pick(&[0, 1, 7, 60, 400, 20_000]));
            memory.clock.set(now);
            if random.chance(30) {
                let op = KeyOp { limits: &limits, op: Op::Check { cost: 1 } };
                let reply = caller.call(now, &["k"], &[op]).unwrap();
                let allowed = memory.limiter.check("k").is_allowed();
                assert_eq!(decided(&reply.keys[0]).0, allowed, "round {round}, step {step}");
            } else {
                let units = random.pick(&[1, 3, 40, 70_000, 5_000_000]);
                caller.charge(now, "k", &limits, &[charge(units, 0)]);
                memory.limiter.charge("k", units);
            }
            let usage = memory.limiter.usage("k");
            let expected: Vec<u64> = (0..quotas.len()).map(|index| usage.units(index)).collect();
            assert_eq!(caller.used(now, "k", &limits), expected, "round {round}, step {step}");
        }
    }
}

// The code before the newest entry is changed, wherever it is in a block of the index.
#[test]
pub(super) fn units_join_the_newest_entry_of_a_long_log() {
    let mut caller = Caller::start();
    for entries in 200..340_u64 {
        caller.flush();
        let quotas = [(entries, 60_000)];
        let (limits, memory) = (limits(Algorithm::Log, &quotas), InMemory::new(&quotas));
        let mut now = START;
        for _ in 0..entries {
            now += ms(1);
            memory.clock.set(now);
            memory.limiter.charge("k", 1);
        }
        let ages: Vec<u64> = (0..entries).rev().collect();
        for ages in ages.chunks(100) {
            let charges: Vec<Charge> = ages.iter().map(|age| charge(1, *age)).collect();
            caller.charge(now, "k", &limits, &charges);
        }
        for (step, after) in [1, 1, 7, 200, 17_000, 20_000, 22_600, 1, 30, 90].iter().enumerate() {
            now += ms(*after);
            memory.clock.set(now);
            let units = if step % 2 == 0 { 70_000 } else { 5_000_000 };
            caller.charge(now, "k", &limits, &[charge(units, 0)]);
            memory.limiter.charge("k", units);
            let expected = memory.limiter.usage("k").units(0);
            assert_eq!(caller.used(now, "k", &limits), [expected], "{entries}, step {step}");
        }
    }
}

#[test]
pub(super) fn ten_thousand_charges_above_the_limit_take_no_memory() {
    let mut caller = Caller::start();
    for quotas in [&[(1000, 3_600_000)][..], &[(1000, 3_600_000), (100, 60_000)]] {
        caller.flush();
        let (limits, mut now, mut bytes) = (limits(Algorithm::Log, quotas), START, 0);
        for report in 0..10_000_u64 {
            now += ms(3);
            caller.charge(now, "k", &limits, &[charge(if report % 2 == 0 { 600 } else { 1 }, 0)]);
            if report == 100 {
                bytes = caller.command::<Vec<u8>>("GET k").len();
            }
        }
        let value: Vec<u8> = caller.command("GET k");
        assert!(value.len() <= bytes + 64, "{} bytes after {bytes}", value.len());
        assert_eq!(caller.used(now, "k", &limits)[0], 5_000 * 601);
    }
}
