//! Any sequence of operations on the exact log, against a model that keeps every timestamp.
//!
//! What could go wrong: a gap coded or expired wrongly, a refund that takes units of another
//! request, a cursor of one quota left behind by another's. Each shows as a result that differs from
//! the model, a plain list walked from the start every time.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use slidegate::{Algorithm, Cost, Decision, Limiter, ManualClock, Policy, Quota, Receipt};

/// Where the clock starts; longer ago than any window here.
const START: Duration = Duration::from_secs(1_000_000);

/// More would only make the model slow.
const STEPS_MAX: usize = 200;
const BURST_MAX: u16 = 300;

#[derive(Debug, Arbitrary)]
struct Input {
    /// One to three quotas: limit, and window in milliseconds.
    first: (u8, u16),
    others: [Option<(u16, u32)>; 2],
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Check {
        key: u8,
        cost: u8,
    },
    Burst {
        key: u8,
        count: u16,
        gap_millis: u8,
    },
    Peek {
        key: u8,
        cost: u16,
    },
    Advance {
        millis: u16,
    },
    Leap {
        seconds: u32,
    },
    /// The clock goes back; time does not.
    Back {
        millis: u16,
    },
    Refund {
        receipt: u8,
    },
    Settle {
        receipt: u8,
        actual: u16,
    },
    Reset {
        key: u8,
    },
    Sweep,
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let mut pair = Pair::new(&input.quotas());
    pair.compare_state();
    for step in input.steps.iter().take(STEPS_MAX) {
        pair.step(step);
        pair.compare_state();
    }
}

impl Input {
    /// Brought into range, so that every input is used.
    fn quotas(&self) -> Vec<Rule> {
        let (limit, window) = self.first;
        let mut rules = vec![Rule::new(u64::from(limit), u64::from(window))];
        for (limit, window) in self.others.iter().flatten() {
            rules.push(Rule::new(u64::from(*limit), u64::from(*window) % 100_000_000));
        }
        rules
    }
}

/// The limiter and the model, taken through the same steps.
struct Pair {
    clock: ManualClock,
    /// What the clock shows.
    time: Duration,
    limiter: Limiter,
    model: Model,
    receipts: Vec<(Receipt, Taken)>,
}

impl Pair {
    fn new(rules: &[Rule]) -> Self {
        let clock = ManualClock::new(START);
        let quota = |rule: &Rule| {
            Quota::new(rule.limit, Duration::from_millis(rule.window)).expect("brought into range")
        };
        let policy = Policy::builder("fuzz")
            .quotas(rules.iter().map(quota))
            .algorithm(Algorithm::Log)
            .build()
            .expect("one to three quotas");
        let limiter = Limiter::builder(policy)
            .clock(clock.clone())
            .shards(1)
            .secret([7; 16])
            .build()
            .expect("settings in range");
        Self { clock, time: START, limiter, model: Model::new(rules), receipts: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Check { key, cost } => self.check(key % KEYS, u64::from(cost).max(1)),
            Step::Burst { key, count, gap_millis } => self.burst(key % KEYS, count, gap_millis),
            Step::Peek { key, cost } => self.peek(key % KEYS, u64::from(cost).max(1)),
            Step::Advance { millis } => self.advance(u64::from(millis)),
            Step::Leap { seconds } => self.advance(u64::from(seconds % 200_000) * 1000),
            Step::Back { millis } => self.back(Duration::from_millis(u64::from(millis))),
            Step::Refund { receipt } => self.refund(usize::from(receipt)),
            Step::Settle { receipt, actual } => self.settle(usize::from(receipt), actual.into()),
            Step::Reset { key } => self.reset(key % KEYS),
            Step::Sweep => drop(self.limiter.sweep(usize::MAX)),
        }
    }

    fn check(&mut self, key: u8, cost: u64) {
        let retries = self.model.retries(key, cost);
        let allowed = retries.iter().all(|retry| *retry == Some(0));
        let decision = self.limiter.check_cost(&name(key), units(cost));
        assert_eq!(decision.is_allowed(), allowed, "check of {cost} by {key}: {retries:?}");
        compare_retries(&decision, &retries);
        let taken = allowed.then(|| self.model.take(key, cost));
        self.model.compare_standing(key, &decision);
        match (decision.into_receipt(), taken) {
            (Some(receipt), Some(taken)) => self.receipts.push((receipt, taken)),
            (None, None) => {}
            (receipt, _) => panic!("{receipt:?} for an answer of {allowed}"),
        }
    }

    fn burst(&mut self, key: u8, count: u16, gap_millis: u8) {
        for _ in 0..count % BURST_MAX {
            self.check(key, 1);
            self.advance(u64::from(gap_millis));
        }
    }

    /// That a peek changes nothing is what the comparison after every step shows.
    fn peek(&self, key: u8, cost: u64) {
        let decision = self.limiter.peek_cost(&name(key), units(cost));
        let retries = self.model.retries(key, cost);
        let allowed = retries.iter().all(|retry| *retry == Some(0));
        assert_eq!(decision.is_allowed(), allowed, "peek of {cost} by {key}: {retries:?}");
        compare_retries(&decision, &retries);
        self.model.compare_standing(key, &decision);
    }

    fn advance(&mut self, millis: u64) {
        self.time += Duration::from_millis(millis);
        self.clock.set(self.time);
        self.model.see(self.time);
    }

    fn back(&mut self, by: Duration) {
        self.time -= by;
        self.clock.set(self.time);
    }

    fn refund(&mut self, index: usize) {
        if let Some((receipt, taken)) = self.some_receipt(index) {
            let given_back = self.limiter.refund(receipt);
            let expected = self.model.give_back(&taken, taken.units);
            assert_eq!(given_back, expected, "refund of {taken:?}");
        }
    }

    /// Less than was taken gives the difference back; more is recorded now, over the limit or not.
    fn settle(&mut self, index: usize, actual: u64) {
        let Some((receipt, taken)) = self.some_receipt(index) else { return };
        let recorded = self.limiter.settle(receipt, actual);
        let expected = if actual <= taken.units {
            taken.units - self.model.give_back(&taken, taken.units - actual)
        } else {
            self.model.in_debt[usize::from(taken.key)] = true;
            self.model.take(taken.key, actual - taken.units);
            actual
        };
        assert_eq!(recorded, expected, "settling of {taken:?} to {actual}");
    }

    fn some_receipt(&mut self, index: usize) -> Option<(Receipt, Taken)> {
        let index = index.checked_rem(self.receipts.len())?;
        Some(self.receipts.swap_remove(index))
    }

    fn reset(&mut self, key: u8) {
        let _ = self.limiter.reset(&name(key));
        self.model.keys[usize::from(key)].clear();
    }

    /// Also lets the limiter see the time, so that it knows of every step of the clock.
    fn compare_state(&self) {
        for key in 0..KEYS {
            let usage = self.limiter.usage(&name(key));
            for (index, rule) in self.model.rules.iter().enumerate() {
                let used = self.model.used(key, rule);
                let in_debt = self.model.in_debt[usize::from(key)];
                assert!(used <= rule.limit || in_debt, "{used} units of {key} are over {rule:?}");
                assert_eq!(usage.units(index), used, "usage of {key} by {rule:?}");
            }
            let history = self.limiter.history(&name(key)).expect("a log has a history");
            let history = history.iter().map(|event| (event.at.as_millis(), event.units));
            assert_eq!(by_time(history), self.model.history(key), "history of {key}");
        }
    }
}

fn compare_retries(decision: &Decision, retries: &[Option<u64>]) {
    for (quota, retry) in decision.quotas().iter().zip(retries) {
        let expected = retry.map(Duration::from_millis);
        assert_eq!(
            quota.retry_after().duration(),
            expected,
            "retry_after, the model says {retries:?}"
        );
    }
}

/// Keys that take part; few, so that they meet often.
const KEYS: u8 = 3;

fn name(key: u8) -> String {
    format!("key-{key}")
}

fn units(cost: u64) -> Cost {
    Cost::new(cost).expect("one or more")
}

/// A quota in plain numbers; the window in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Rule {
    limit: u64,
    window: u64,
}

impl Rule {
    fn new(limit: u64, window: u64) -> Self {
        Self { limit: limit.max(1), window: window.max(1) }
    }
}

/// Every unit taken and not given back that may still count.
struct Model {
    rules: Vec<Rule>,
    now: u64,
    keys: [Vec<Entry>; KEYS as usize],
    /// Keys that settling may have taken over a limit.
    in_debt: [bool; KEYS as usize],
    /// How many entries were ever made; numbers them.
    entries: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    at: u64,
    units: u64,
}

/// The units that a receipt is for.
#[derive(Debug)]
struct Taken {
    key: u8,
    number: u64,
    units: u64,
}

impl Model {
    fn new(rules: &[Rule]) -> Self {
        let now = millis(START);
        let keys = Default::default();
        Self { rules: rules.to_vec(), now, keys, in_debt: Default::default(), entries: 0 }
    }

    fn counted(&self, key: u8, rule: &Rule) -> impl Iterator<Item = &Entry> {
        let (now, window) = (self.now, rule.window);
        self.keys[usize::from(key)].iter().filter(move |entry| now - entry.at < window)
    }

    fn used(&self, key: u8, rule: &Rule) -> u64 {
        self.counted(key, rule).map(|entry| entry.units).sum()
    }

    /// For every quota the milliseconds until a cost passes; `None` for never.
    fn retries(&self, key: u8, cost: u64) -> Vec<Option<u64>> {
        self.rules.iter().map(|rule| self.retry(key, rule, cost)).collect()
    }

    fn retry(&self, key: u8, rule: &Rule, cost: u64) -> Option<u64> {
        let room = rule.limit.checked_sub(cost)?;
        let mut used = self.used(key, rule);
        if used <= room {
            return Some(0);
        }
        for entry in self.counted(key, rule) {
            used -= entry.units;
            if used <= room {
                return Some(entry.at + rule.window - self.now);
            }
        }
        unreachable!("an empty window has room for a cost within the limit");
    }

    fn take(&mut self, key: u8, units: u64) -> Taken {
        self.entries += 1;
        let number = self.entries;
        self.keys[usize::from(key)].push(Entry { number, at: self.now, units });
        Taken { key, number, units }
    }

    /// The units given back: none once the longest window has passed them, or after a reset.
    fn give_back(&mut self, taken: &Taken, units: u64) -> u64 {
        let entries = &mut self.keys[usize::from(taken.key)];
        let Some(entry) = entries.iter_mut().find(|entry| entry.number == taken.number) else {
            return 0;
        };
        entry.units -= units;
        entries.retain(|entry| entry.units > 0);
        units
    }

    /// Time goes on to `time`, unless it has been there before.
    fn see(&mut self, time: Duration) {
        self.now = self.now.max(millis(time));
        let (now, longest) = (self.now, self.longest());
        for entries in &mut self.keys {
            entries.retain(|entry| now - entry.at < longest);
        }
    }

    /// Remaining units and the time until more come.
    fn compare_standing(&self, key: u8, decision: &Decision) {
        assert_eq!(decision.quotas().len(), self.rules.len());
        for (quota, rule) in decision.quotas().iter().zip(&self.rules) {
            let remaining = rule.limit.saturating_sub(self.used(key, rule));
            let first = self.counted(key, rule).next();
            let reset = first.map_or(0, |entry| entry.at + rule.window - self.now);
            assert_eq!(quota.limit(), rule.limit);
            assert_eq!(quota.remaining(), remaining, "remaining of {key} by {rule:?}");
            let reset = Duration::from_millis(reset);
            assert_eq!(quota.reset_after(), reset, "reset_after of {key} by {rule:?}");
        }
    }

    fn history(&self, key: u8) -> Vec<(u128, u64)> {
        let longest = Rule { limit: 1, window: self.longest() };
        by_time(self.counted(key, &longest).map(|entry| (u128::from(entry.at), entry.units)))
    }

    fn longest(&self) -> u64 {
        self.rules.iter().map(|rule| rule.window).max().unwrap_or(0)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a few years at most")
}

/// Sums the units of the same time: they may be one entry or two.
fn by_time(events: impl Iterator<Item = (u128, u64)>) -> Vec<(u128, u64)> {
    let mut sums: Vec<(u128, u64)> = Vec::new();
    for (at, units) in events {
        match sums.last_mut() {
            Some(last) if last.0 == at => last.1 += units,
            _ => sums.push((at, units)),
        }
    }
    sums
}
