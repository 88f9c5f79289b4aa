//! The log against a list of ticks that forgets nothing.

use proptest::prelude::*;

use super::*;
use crate::window::TickQuota;

/// Every entry ever taken, with its true tick.
#[derive(Default)]
struct Model {
    entries: Vec<(u64, u64)>,
}

impl Model {
    fn used(&self, now: u64, window: u64) -> u64 {
        let counts = |(tick, _): &&(u64, u64)| tick + window > now;
        self.entries.iter().filter(counts).map(|(_, units)| units).sum()
    }

    fn retry(&self, now: u64, quota: TickQuota, cost: u64) -> u64 {
        if cost > quota.limit {
            return NEVER;
        }
        let mut times = vec![now];
        times.extend(self.entries.iter().map(|(tick, _)| tick + quota.window));
        times.sort_unstable();
        let fits = |at: &u64| *at >= now && self.used(*at, quota.window) + cost <= quota.limit;
        times.iter().find(|at| fits(at)).map_or(NEVER, |at| at - now)
    }

    fn add(&mut self, tick: u64, units: u64) {
        let at = self.entries.partition_point(|(other, _)| *other <= tick);
        self.entries.insert(at, (tick, units));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Check(u64),
    Burst(u64),
    Refund(usize),
    Debt(u64),
    Ahead(u64),
    Trim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop_oneof![0u64..5, 100u64..400, 10_000u64..40_000].prop_map(Step::Pass),
        6 => prop_oneof![Just(1u64), 1u64..9, 60_000u64..200_000].prop_map(Step::Check),
        1 => (1u64..60).prop_map(Step::Burst),
        3 => any::<usize>().prop_map(Step::Refund),
        1 => prop_oneof![1u64..20, Just(5_000_000_000u64)].prop_map(Step::Debt),
        1 => (1u64..3000).prop_map(Step::Ahead),
        1 => Just(Step::Trim),
    ];
    prop::collection::vec(step, 1..250)
}

fn turning_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => (1u64..400).prop_map(Step::Pass),
        40 => Just(Step::Check(1)),
        2 => (2u64..300).prop_map(Step::Check),
        1 => any::<usize>().prop_map(Step::Refund),
        1 => (1u64..3000).prop_map(Step::Ahead),
        1 => Just(Step::Trim),
    ];
    prop::collection::vec(step, 300..900)
}

/// Runs the steps on both and compares every answer.
fn compare(limits: &Limits, steps: &[Step]) -> Result<(), TestCaseError> {
    let account = Account::unlimited();
    let mut log = Log::new(limits, 9);
    account.grow(log.heap_bytes());
    let mut model = Model::default();
    let mut now = 1_700_000_000_000;
    let mut receipts: Vec<(u64, u64)> = Vec::new();
    for step in steps {
        let moment = Moment { now, date: now };
        log.advance(limits, now, &account);
        match *step {
            Step::Pass(ticks) => now += ticks,
            Step::Check(cost) => {
                check(&mut log, &mut model, limits, moment, cost, &mut receipts, &account)?;
            }
            Step::Burst(count) => {
                for _ in 0..count {
                    check(&mut log, &mut model, limits, moment, 1, &mut receipts, &account)?;
                }
            }
            Step::Refund(which) if !receipts.is_empty() => {
                let (tick, units) = receipts.swap_remove(which % receipts.len());
                let alive = tick + limits.longest() > now;
                let given = log.give_back(limits, now, tick, units, &account);
                prop_assert_eq!(given, if alive { units } else { 0 });
                if alive {
                    let found = model.entries.iter().position(|entry| *entry == (tick, units));
                    model.entries.remove(found.expect("the receipt's entry"));
                }
            }
            Step::Refund(_) => {}
            Step::Debt(units) => take(&mut log, &mut model, limits, moment, units, &account),
            Step::Ahead(ticks) => {
                let ahead = Moment { now, date: now + ticks };
                take(&mut log, &mut model, limits, ahead, 1, &account);
            }
            Step::Trim => log.trim(limits, &account),
        }
        same_state(&mut log, &model, limits, now, &account)?;
    }
    prop_assert_eq!(account.used(), log.heap_bytes());
    Ok(())
}

fn check(
    log: &mut Log,
    model: &mut Model,
    limits: &Limits,
    moment: Moment,
    cost: u64,
    receipts: &mut Vec<(u64, u64)>,
    account: &Account,
) -> Result<(), TestCaseError> {
    let mut passes = true;
    for (index, quota) in limits.quotas().iter().enumerate() {
        let expected = model.retry(moment.now, *quota, cost);
        prop_assert_eq!(log.retry(limits, index, moment.now, cost), expected);
        passes &= expected == 0;
    }
    let TickQuota { limit, window } = limits.quota(0);
    let usual = limits.is_single().then(|| log.check_fast(limits, moment, cost, account)).flatten();
    if let Some(QuotaStatus { used, retry, reset, tick }) = usual {
        if passes {
            model.add(moment.date, cost);
            receipts.push((moment.date, cost));
        }
        prop_assert_eq!(used, model.used(moment.now, window));
        prop_assert_eq!(reset, log.reset(limits, 0, moment.now));
        prop_assert_eq!((retry, tick), if passes { (0, moment.date) } else { (reset, 0) });
        prop_assert!(passes || used == limit);
    } else if limits.is_single() {
        let status = log.check(limits, moment, cost, account);
        prop_assert_eq!(status.retry == 0, passes);
        if passes {
            prop_assert_eq!(status.tick, moment.date);
            model.add(moment.date, cost);
            receipts.push((moment.date, cost));
        }
        prop_assert_eq!(status.used, model.used(moment.now, limits.longest()));
    } else if passes {
        take(log, model, limits, moment, cost, account);
        receipts.push((moment.date, cost));
    }
    Ok(())
}

fn take(
    log: &mut Log,
    model: &mut Model,
    limits: &Limits,
    moment: Moment,
    units: u64,
    account: &Account,
) {
    let tick = log.take(limits, moment, units, account);
    model.entries.retain(|(tick, _)| tick + limits.longest() > moment.now);
    model.add(tick, units);
}

fn same_state(
    log: &mut Log,
    model: &Model,
    limits: &Limits,
    now: u64,
    account: &Account,
) -> Result<(), TestCaseError> {
    log.advance(limits, now, account);
    for (index, quota) in limits.quotas().iter().enumerate() {
        prop_assert_eq!(log.used(limits, index, now), model.used(now, quota.window));
        let first = model.entries.iter().map(|(tick, _)| tick + quota.window).find(|at| *at > now);
        prop_assert_eq!(log.reset(limits, index, now), first.map_or(0, |at| at - now));
    }
    let mut expected: Vec<(u64, u64)> = Vec::new();
    for &(tick, units) in &model.entries {
        match expected.last_mut() {
            Some(last) if last.0 == tick => last.1 += units,
            _ if tick + limits.longest() > now => expected.push((tick, units)),
            _ => {}
        }
    }
    let mut found: Vec<(u64, u64)> = Vec::new();
    log.history(&mut |tick, units| found.push((tick, units)));
    prop_assert_eq!(&found, &expected);
    let mut bytes = Vec::new();
    log.encode(&mut bytes);
    let mut input = bytes.as_slice();
    let context = DecodeContext { limits, epoch: 3, account };
    let mut copy = Log::decode(&mut input, &context).expect("its own bytes");
    prop_assert!(input.is_empty());
    copy.advance(limits, now, account);
    prop_assert_eq!(copy.used(limits, 0, now), log.used(limits, 0, now));
    account.shrink(copy.heap_bytes());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_quota_is_exact(steps in steps(), limit in prop_oneof![1u64..30, Just(500_000u64)]) {
        compare(&Limits::of(&[(limit, 60_000)]), &steps)?;
    }

    // Codes that go round in their block, of one and of two bytes, with one now and then that is
    // longer, or is taken out of the middle.
    #[test]
    fn a_log_that_goes_round_is_exact(steps in turning_steps(), limit in 20u64..120) {
        compare(&Limits::of(&[(limit, 10_000)]), &steps)?;
    }

    #[test]
    fn several_quotas_over_one_run_of_codes_are_exact(steps in steps()) {
        compare(&Limits::of(&[(5, 1000), (40, 60_000), (300_000, 3_600_000)]), &steps)?;
    }

    // Whatever is merged, for a cap or for want of memory, no unit may be forgotten or freed early,
    // and none may count much longer than it should.
    #[test]
    fn a_log_that_may_not_grow_never_counts_too_little(
        steps in steps(),
        cap in prop::sample::select(vec![0usize, 64, 100, 256]),
        budget in prop::sample::select(vec![0usize, 32, 64, 200, 1 << 20]),
    ) {
        let mut limits = Limits::of(&[(300, 60_000)]);
        limits.bytes_max = cap;
        let account = Account::new(budget);
        let mut log = Log::new(&limits, 1);
        let mut model = Model::default();
        let mut now = 1_700_000_000_000;
        for step in steps {
            log.advance(&limits, now, &account);
            match step {
                Step::Pass(ticks) => now += ticks,
                Step::Check(_) | Step::Burst(_) => {
                    let cost = 1 + now % 3;
                    let moment = Moment { now, date: now };
                    let status = log.check(&limits, moment, cost, &account);
                    if status.retry == 0 {
                        prop_assert!(model.used(now, 60_000) + cost <= 300);
                        model.entries.push((now, cost));
                    }
                }
                _ => {}
            }
            log.advance(&limits, now, &account);
            prop_assert!(log.used(&limits, 0, now) >= model.used(now, 60_000));
            if cap == 0 {
                prop_assert!(account.used() <= budget);
            } else if budget > 1000 {
                let error = 24 * 60_000 / cap as u64;
                prop_assert!(log.used(&limits, 0, now) <= model.used(now, 60_000 + error));
            }
        }
    }

    // A place that is too early lets a caller in above the limit, one that is too late wastes
    // units. Withdrawing must leave every other entry where it is.
    #[test]
    fn places_are_the_earliest_in_order_and_leave_no_trace(
        used in prop::collection::vec((0u64..400, 1u64..5), 0..30),
        costs in prop::collection::vec((1u64..6, 0usize..2), 1..20),
        ahead in 0u64..3,
        large: bool,
        wide: bool,
    ) {
        // Units beyond sixteen bits do not fit the open entry.
        let scale = if large { 70_000 } else { 1 };
        let quotas = [[(7, 300), (30, 5000)], [(9, 400), (10, 450)]];
        let limits = quotas.map(|quotas| {
            let quotas = quotas.map(|(limit, window)| (limit * scale, window));
            Limits::of(if wide { &quotas } else { &quotas[..1] })
        });
        let account = Account::unlimited();
        let mut log = Log::new(&limits[0], 1);
        let (mut model, now) = (Model::default(), 10_000);
        let moment = Moment { now, date: now + ahead };
        for (age, units) in used {
            log.take(&limits[0], Moment { now, date: now - age }, units * scale, &account);
            model.add(now - age, units * scale);
        }
        let before = history(&log);
        let (mut places, mut expected, mut due) = (Vec::new(), Vec::new(), now);
        for (cost, index) in costs {
            let cost = cost * scale;
            let fits = |at: &u64| limits[index].quotas().iter().all(|quota| {
                model.used(*at, quota.window) + cost <= quota.limit
            });
            due = (due..due + 100_000).find(fits).unwrap();
            model.add(due.max(moment.date), cost);
            expected.push(due);
            places.push(Place { limits: index, cost, due: 0, tick: Place::ASIDE });
        }
        log.place_all(&limits, places.iter_mut(), moment, &account);
        let dues: Vec<u64> = places.iter().map(|place| place.due).collect();
        prop_assert_eq!(dues, expected);
        log.withdraw_all(&limits, places.iter(), now, &account);
        prop_assert_eq!(history(&log), before);
    }
}

fn history(log: &Log) -> Vec<(u64, u64)> {
    let mut entries: Vec<(u64, u64)> = Vec::new();
    log.history(&mut |tick, units| match entries.last_mut() {
        Some(last) if last.0 == tick => last.1 += units,
        _ => entries.push((tick, units)),
    });
    entries
}

// A million entries must not make one step linear: sums by chunk carry it.
#[test]
fn a_huge_log_is_exact_and_is_dropped_in_chunks() {
    let limits = Limits::of(&[(1_000_000, 1_000_000)]);
    let account = Account::unlimited();
    let mut log = Log::new(&limits, 1);
    for tick in 0..1_000_000 {
        let moment = Moment { now: 5_000_000 + tick, date: 5_000_000 + tick };
        assert_eq!(log.check(&limits, moment, 1, &account).retry, 0);
    }
    let now = 5_999_999;
    assert_eq!(log.used(&limits, 0, now), 1_000_000);
    assert_eq!(log.retry(&limits, 0, now, 500_000), 500_000);
    assert_eq!(log.give_back(&limits, now, 5_500_000, 1, &account), 1);
    assert!(account.used() < 1_100_000, "{} bytes", account.used());
    log.advance(&limits, now + 900_000, &account);
    assert_eq!(log.used(&limits, 0, now + 900_000), 100_000);
    assert!(account.used() < 150_000, "{} bytes", account.used());
}
