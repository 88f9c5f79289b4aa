//! Units that are recorded late: they must count as if they had been recorded in time.

use core::time::Duration;

use slidegate::Algorithm;
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
            caller.charge(now, "in time", &limits, &[charge(units, 0)]);
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
            Algorithm::LogCapped { .. } => limits(Algorithm::Log, &quotas),
            algorithm => limits(algorithm, &quotas),
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
