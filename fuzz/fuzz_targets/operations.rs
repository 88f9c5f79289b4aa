//! Any sequence of operations on the exact log, against a model that keeps every timestamp.
//!
//! What could go wrong: a gap coded or expired wrongly, a refund that takes somebody else's units, a
//! cursor of one quota left behind by another's. Each shows as an answer that the model, a plain list
//! walked from the start every time, does not give.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use slidegate::{Algorithm, Cost, Decision, Limiter, ManualClock, Policy, Quota, Receipt};

/// Where the clock starts; longer ago than any window here.
const START: Duration = Duration::from_secs(1_000_000);

/// More would only make the model slow.
const STEPS_MAX: usize = 400;

#[derive(Debug, Arbitrary)]
struct Input {
    /// One to three quotas: limit, and window in milliseconds.
    first: (u8, u16),
    others: [Option<(u16, u32)>; 2],
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Check { key: u8, cost: u8 },
    Burst { key: u8, count: u8 },
    Peek { key: u8, cost: u16 },
    Advance { millis: u16 },
    Leap { seconds: u32 },
    Refund { receipt: u8 },
    Reset { key: u8 },
    Sweep,
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let mut pair = Pair::new(&input.quotas());
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
        let now = u64::try_from(START.as_millis()).expect("the start is in range");
        let model = Model { rules: rules.to_vec(), now, keys: Default::default(), taken: 0 };
        Self { clock, limiter, model, receipts: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Check { key, cost } => self.check(key % KEYS, u64::from(cost).max(1)),
            Step::Burst { key, count } => (0..count).for_each(|_| self.check(key % KEYS, 1)),
            Step::Peek { key, cost } => self.peek(key % KEYS, u64::from(cost).max(1)),
            Step::Advance { millis } => self.advance(u64::from(millis)),
            Step::Leap { seconds } => self.advance(u64::from(seconds % 200_000) * 1000),
            Step::Refund { receipt } => self.refund(usize::from(receipt)),
            Step::Reset { key } => self.reset(key % KEYS),
            Step::Sweep => drop(self.limiter.sweep(usize::MAX)),
        }
    }

    fn check(&mut self, key: u8, cost: u64) {
        let decision = self.limiter.check_cost(&name(key), units(cost));
        let answers = self.model.answers(key, cost);
        let allowed = answers.iter().all(|answer| answer.retry == Some(0));
        assert_eq!(decision.is_allowed(), allowed, "check of {cost} by {key}: {answers:?}");
        compare_retry(&decision, &answers);
        if allowed {
            let taken = self.model.take(key, cost);
            self.model.compare_standing(key, &decision);
            let receipt = decision.into_receipt().expect("allowed, so there is a receipt");
            assert_eq!(receipt.units(), cost);
            self.receipts.push((receipt, taken));
        } else {
            self.model.compare_standing(key, &decision);
            assert!(decision.into_receipt().is_none(), "a receipt for a denial");
        }
    }

    /// That a peek changes nothing is what the comparison after every step shows.
    fn peek(&self, key: u8, cost: u64) {
        let decision = self.limiter.peek(&name(key), units(cost));
        let answers = self.model.answers(key, cost);
        let allowed = answers.iter().all(|answer| answer.retry == Some(0));
        assert_eq!(decision.is_allowed(), allowed, "peek of {cost} by {key}: {answers:?}");
        compare_retry(&decision, &answers);
    }

    fn advance(&mut self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        self.model.now += millis;
    }

    fn refund(&mut self, index: usize) {
        if self.receipts.is_empty() {
            return;
        }
        let (receipt, taken) = self.receipts.swap_remove(index % self.receipts.len());
        let given_back = self.limiter.refund(receipt);
        assert_eq!(given_back, self.model.refund(&taken), "refund of {taken:?}");
    }

    fn reset(&mut self, key: u8) {
        let _ = self.limiter.reset(&name(key));
        self.model.keys[usize::from(key)].clear();
    }

    fn compare_state(&self) {
        for key in 0..KEYS {
            let usage = self.limiter.usage(&name(key));
            for (index, rule) in self.model.rules.iter().enumerate() {
                let used = self.model.used(key, rule);
                assert!(used <= rule.limit, "{used} units of {key} are over {rule:?}");
                assert_eq!(usage.units(index), used, "usage of {key} by {rule:?}");
            }
            let history = self.limiter.history(&name(key)).expect("a log has a history");
            let history = history.iter().map(|event| (event.at.as_millis(), event.units));
            assert_eq!(by_time(history), self.model.history(key), "history of {key}");
        }
    }
}

fn compare_retry(decision: &Decision, answers: &[Answer]) {
    for (quota, answer) in decision.quotas().iter().zip(answers) {
        let retry = answer.retry.map(Duration::from_millis);
        assert_eq!(quota.retry_after(), retry, "retry_after, the model says {answers:?}");
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

/// Every unit ever taken and not given back.
struct Model {
    rules: Vec<Rule>,
    now: u64,
    keys: [Vec<Entry>; KEYS as usize],
    /// How many entries were ever made; numbers them.
    taken: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    at: u64,
    units: u64,
}

/// Which entry a receipt stands for.
#[derive(Debug)]
struct Taken {
    key: u8,
    number: u64,
}

/// What the model says about one quota before anything is taken.
#[derive(Debug)]
struct Answer {
    /// Milliseconds until the cost passes; `None` for never.
    retry: Option<u64>,
}

impl Model {
    fn counted(&self, key: u8, rule: &Rule) -> impl Iterator<Item = &Entry> {
        let (now, window) = (self.now, rule.window);
        self.keys[usize::from(key)].iter().filter(move |entry| now - entry.at < window)
    }

    fn used(&self, key: u8, rule: &Rule) -> u64 {
        self.counted(key, rule).map(|entry| entry.units).sum()
    }

    fn answers(&self, key: u8, cost: u64) -> Vec<Answer> {
        let answer = |rule| Answer { retry: self.retry(key, rule, cost) };
        self.rules.iter().map(answer).collect()
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
        self.taken += 1;
        let entry = Entry { number: self.taken, at: self.now, units };
        self.keys[usize::from(key)].push(entry);
        Taken { key, number: self.taken }
    }

    /// The units given back: none once the longest window has passed them, or after a reset.
    fn refund(&mut self, taken: &Taken) -> u64 {
        let longest = self.longest();
        let entries = &mut self.keys[usize::from(taken.key)];
        let Some(index) = entries.iter().position(|entry| entry.number == taken.number) else {
            return 0;
        };
        let entry = entries.remove(index);
        if self.now - entry.at < longest { entry.units } else { 0 }
    }

    /// Remaining units and the time until more come, after a check.
    fn compare_standing(&self, key: u8, decision: &Decision) {
        assert_eq!(decision.quotas().len(), self.rules.len());
        for (quota, rule) in decision.quotas().iter().zip(&self.rules) {
            assert_eq!(quota.limit(), rule.limit);
            assert_eq!(quota.remaining(), rule.limit - self.used(key, rule), "remaining");
            let first = self.counted(key, rule).next();
            let reset = first.map_or(0, |entry| entry.at + rule.window - self.now);
            assert_eq!(quota.reset_after(), Duration::from_millis(reset), "reset_after");
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

/// Units of the same moment summed: whether they are one entry or two is nobody's concern.
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
