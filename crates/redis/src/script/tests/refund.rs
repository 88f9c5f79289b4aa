//! Refunds in the middle of long logs, compared with a list of entries.

use core::time::Duration;

use slidegate::Algorithm;
use slidegate_testkit::Random;

use super::super::{KeyReply, Op, ScriptLimits};
use super::{Caller, START, decided, limits, ms};

/// What a log must hold.
#[derive(Default)]
pub(super) struct Model {
    /// Ticks and units, oldest first.
    pub(super) entries: Vec<(u64, u64)>,
}

impl Model {
    pub(super) fn take(&mut self, tick: u64, units: u64) {
        match self.entries.last_mut() {
            Some((last, sum)) if *last == tick => *sum += units,
            _ => self.entries.push((tick, units)),
        }
    }

    /// Takes units off the entry of a tick.
    pub(super) fn give_back(&mut self, tick: u64, units: u64) -> u64 {
        Self::remove(self.entries.iter_mut().filter(|(at, _)| *at == tick), units)
    }

    /// Takes units off the oldest entries from a tick on.
    pub(super) fn forgive(&mut self, from: u64, units: u64) -> u64 {
        Self::remove(self.entries.iter_mut().filter(|(at, _)| *at >= from), units)
    }

    fn remove<'a>(entries: impl Iterator<Item = &'a mut (u64, u64)>, units: u64) -> u64 {
        let mut left = units;
        for (_, there) in entries {
            let given = left.min(*there);
            *there -= given;
            left -= given;
        }
        units - left
    }

    pub(super) fn used(&self, now: u64, window: u64) -> u64 {
        self.entries.iter().filter(|(at, _)| at + window > now).map(|(_, units)| units).sum()
    }

    /// When `cost` units fit a limit.
    fn retry_after(&self, now: u64, (limit, window): (u64, u64), cost: u64) -> Option<u64> {
        let mut used = self.used(now, window);
        let mut expiring = self.entries.iter().filter(|(at, _)| at + window > now);
        let mut wait = 0;
        while used + cost > limit {
            let (at, units) = expiring.next()?;
            (used, wait) = (used - units, at + window - now);
        }
        Some(wait)
    }
}

impl Caller {
    /// Every page of the history.
    pub(super) fn history(&mut self, now: Duration, limits: &ScriptLimits) -> Vec<(u64, u64)> {
        let (mut entries, mut from) = (Vec::new(), Some(0));
        while let Some(tick) = from {
            let KeyReply::History(page) =
                self.run(now, "k", limits, Op::History { from: tick }).unwrap()
            else {
                panic!("no history");
            };
            entries.extend(page.entries);
            from = page.next;
        }
        entries
    }

    pub(super) fn given(&mut self, now: Duration, limits: &ScriptLimits, op: Op<'_>) -> u64 {
        self.run(now, "k", limits, op).unwrap().units().unwrap()
    }
}

/// How a round goes.
struct Round {
    quotas: Vec<(u64, u64)>,
    gaps: &'static [u64],
    costs: &'static [u64],
    steps: u64,
    /// Refunds in a hundred steps.
    refunds: u64,
}

impl Round {
    fn random(random: &mut Random) -> Self {
        let window = random.pick(&[3000, 30_000, 300_000]);
        let limit = 1 << 40;
        Self {
            quotas: match random.between(0, 2) {
                0 => vec![(limit, window / 3), (limit, window)],
                _ => vec![(limit, window)],
            },
            gaps: random.pick::<&[u64]>(&[
                &[0, 1, 2, 5],
                &[0, 1, 3, 200, 1000],
                // Two of them pass what a code of two bytes has room for.
                &[1, 15_000, 15_400, 191, 300],
                &[0, 3],
            ]),
            costs: random.pick::<&[u64]>(&[&[1], &[1, 1, 1, 2], &[1, 5, 100, 300, 70_000]]),
            steps: random.pick(&[100, 800, 2000]),
            refunds: random.pick(&[5, 40, 70]),
        }
    }
}

// Codes are changed where they lie, and an index leads to them: a gap, a record or a cursor that is
// off by one would show as another tick, another sum or a damaged log.
#[test]
pub(super) fn refunds_anywhere_in_a_log_are_exact() {
    let mut caller = Caller::start();
    let mut random = Random::new(8);
    for number in 0..24 {
        let round = Round::random(&mut random);
        let limits = limits(Algorithm::Log, &round.quotas);
        let window = round.quotas.last().unwrap().1;
        caller.flush();
        let (mut model, mut receipts, mut now) = (Model::default(), Vec::new(), START);
        for step in 0..round.steps {
            now += ms(random.pick(round.gaps));
            let tick = u64::try_from(now.as_millis()).unwrap();
            model.entries.retain(|(at, _)| at + window > tick);
            let cost = random.pick(round.costs);
            let reply = caller.run(now, "k", &limits, Op::Check { cost }).unwrap();
            model.take(tick, cost);
            let shown = format!("round {number}, step {step}");
            let used = model.used(tick, round.quotas[0].1);
            assert_eq!(decided(&reply), (true, cost, used), "{shown}");
            let KeyReply::Decision { epoch, .. } = reply else { panic!("no decision") };
            receipts.push((tick, cost));
            while random.chance(round.refunds) && !receipts.is_empty() {
                let (last, any) = (receipts.len() - 1, random.index(receipts.len()));
                let at = random.pick(&[0, last, any]);
                let (tick_of, mut units) = receipts[at];
                // Some are used again: nothing is left of their entry then.
                if random.chance(90) {
                    receipts.remove(at);
                }
                if random.chance(50) {
                    units = random.between(1, units);
                } else if random.chance(5) {
                    // More than it took: the entries behind it keep theirs.
                    units += random.between(1, 5);
                }
                let lives = tick_of + window > tick;
                let expected = if lives { model.give_back(tick_of, units) } else { 0 };
                let op = Op::Refund { tick: tick_of, units, epoch };
                assert_eq!(caller.given(now, &limits, op), expected, "{shown}: {op:?}");
            }
            if random.chance(3) {
                let units = random.pick(&[1, 3, 50, 2000]);
                let expected = model.forgive(0, units);
                let given = caller.given(now, &limits, Op::Forgive { units });
                assert_eq!(given, expected, "{shown}: {units} forgiven");
            }
            if random.chance(2) {
                let entries: Vec<_> =
                    model.entries.iter().copied().filter(|(_, units)| *units > 0).collect();
                assert_eq!(caller.history(now, &limits), entries, "{shown}");
            }
        }
    }
}

// Many entries expire at once, and a large cost waits for many: whole blocks are passed.
#[test]
pub(super) fn long_logs_expire_and_wait_exactly() {
    let mut caller = Caller::start();
    let quotas = [(3000, 20_000), (4000, 60_000)];
    for quotas in [&quotas[..1], &quotas[..]] {
        caller.flush();
        let limits = limits(Algorithm::Log, quotas);
        let (mut model, mut now, mut random) = (Model::default(), START, Random::new(2));
        for step in 0..4200 {
            // Now and then a pause in which much of it expires.
            now += if step % 1500 == 1499 { ms(14_000) } else { ms(random.between(0, 12)) };
            let tick = u64::try_from(now.as_millis()).unwrap();
            let cost = if step % 50 == 0 { random.between(1, 2500) } else { 1 };
            let waits: Vec<_> =
                quotas.iter().map(|quota| model.retry_after(tick, *quota, cost).unwrap()).collect();
            let reply = caller.run(now, "k", &limits, Op::Check { cost }).unwrap();
            let KeyReply::Decision { allowed, quotas: decided, .. } = reply else {
                panic!("no decision");
            };
            assert_eq!(allowed, waits.iter().all(|wait| *wait == 0), "step {step}: {waits:?}");
            if allowed {
                model.take(tick, cost);
                continue;
            }
            for (decided, wait) in decided.iter().zip(&waits) {
                assert_eq!(decided.retry_after().duration(), Some(ms(*wait)), "step {step}");
            }
        }
    }
}

// The place of a tick is guessed as if entries came evenly. Here it is far away.
#[test]
pub(super) fn refunds_in_an_uneven_log_are_exact() {
    let mut caller = Caller::start();
    let quota = (1 << 40, 600_000);
    let limits = limits(Algorithm::Log, &[quota]);
    let (mut model, mut now, mut random) = (Model::default(), START, Random::new(6));
    let (mut receipts, mut of) = (Vec::new(), 0);
    for step in 0..3000 {
        now += ms(if step < 2000 { 1 } else { 60 });
        let reply = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap();
        let KeyReply::Decision { epoch, tick, .. } = reply else { panic!("no decision") };
        of = epoch;
        model.take(tick, 1);
        receipts.push(tick);
    }
    for step in 0..500 {
        let tick = receipts.remove(random.index(receipts.len()));
        let op = Op::Refund { tick, units: 1, epoch: of };
        assert_eq!(caller.given(now, &limits, op), model.give_back(tick, 1), "step {step}");
    }
    model.entries.retain(|(_, units)| *units > 0);
    assert_eq!(caller.history(now, &limits), model.entries);
}

// A long gap that grows may take more bytes than there are: what comes later moves, and the index
// with it.
#[test]
pub(super) fn refunds_next_to_long_gaps_are_exact() {
    let mut caller = Caller::start();
    let (many, window) = (1 << 40, 100_000_000);
    for quotas in [&[(many, window)][..], &[(many, window / 50), (many, window)]] {
        caller.flush();
        let limits = limits(Algorithm::Log, quotas);
        let (mut model, mut now, mut random) = (Model::default(), START, Random::new(4));
        let (mut receipts, mut of) = (Vec::new(), 0);
        for step in 0..1500 {
            now += ms(if step % 20 == 19 { 15_540 } else { random.between(1, 190) });
            let cost = random.pick(&[1, 1, 1, 3]);
            let reply = caller.run(now, "k", &limits, Op::Check { cost }).unwrap();
            let KeyReply::Decision { epoch, tick, .. } = reply else { panic!("no decision") };
            of = epoch;
            model.take(tick, cost);
            receipts.push((tick, cost));
        }
        let tick = u64::try_from(now.as_millis()).unwrap();
        for step in 0..1200 {
            let (tick_of, units) = receipts.remove(random.index(receipts.len()));
            let units = random.between(1, units);
            let op = Op::Refund { tick: tick_of, units, epoch: of };
            let expected = model.give_back(tick_of, units);
            assert_eq!(caller.given(now, &limits, op), expected, "step {step}: {op:?}");
            let peek = caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
            assert_eq!(decided(&peek).2, model.used(tick, quotas[0].1), "step {step}");
            if step % 20 == 0 {
                let entries: Vec<_> =
                    model.entries.iter().copied().filter(|(_, units)| *units > 0).collect();
                assert_eq!(caller.history(now, &limits), entries, "step {step}");
            }
        }
        // Blocks are passed by their sums.
        for left in [500, 300, 0] {
            let units = model.used(tick, window) - left;
            let given = caller.given(now, &limits, Op::Forgive { units });
            assert_eq!(given, model.forgive(0, units), "all but {left} forgiven");
            let peek = caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
            assert_eq!(decided(&peek).2, model.used(tick, quotas[0].1), "all but {left} forgiven");
        }
    }
}
