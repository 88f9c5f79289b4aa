//! Wait queues compared with a model that stores every entry and plans by brute force.
//!
//! What could go wrong: refunded units reach a later check instead of the queue; a waiter sleeps
//! although its units are available; `retry_after` counts waiters that have left.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use slidegate::{
    Algorithm, Cost, Decision, Error, Limiter, ManualClock, Policy, Quota, Receipt, Tier,
};
use slidegate_testkit::Random;

const SEEDS: u64 = 400;
const STEPS: usize = 200;

#[test]
fn one_quota() {
    run(|random| Setup::log(random, 1, 1));
}

#[test]
fn several_quotas() {
    run(|random| Setup::log(random, 3, 1));
}

// Units beyond 16 and 32 bits have other encodings.
#[test]
fn large_costs() {
    run(|random| Setup::log(random, 1, 70_000));
    run(|random| Setup::log(random, 2, 1 << 33));
}

#[test]
fn waiters_with_different_quotas() {
    run(Setup::tiers);
}

#[test]
fn gcra() {
    run(Setup::gcra);
}

// If refunds or cancelled waits never happened, the tests above would prove little.
#[test]
fn the_walks_cover_all_events() {
    let mut seen = [0; EVENTS];
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let setup = Setup::log(&mut random, 1, 1);
        let walk = Walk::run(random, &setup);
        seen.iter_mut().zip(walk.seen).for_each(|(sum, seen)| *sum += seen);
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

fn run(setup: impl Fn(&mut Random) -> Setup) {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let setup = setup(&mut random);
        let result = std::panic::catch_unwind(|| drop(Walk::run(random, &setup)));
        assert!(result.is_ok(), "seed {seed}: {setup:?}");
    }
}

/// Limits, and windows in milliseconds.
type Limits = Vec<(u64, u64)>;

#[derive(Debug)]
struct Setup {
    algorithm: Algorithm,
    /// Those of the policy, then those of the tiers.
    limits: Vec<Limits>,
    scale: u64,
}

impl Setup {
    fn log(random: &mut Random, quotas: usize, scale: u64) -> Self {
        let quota = |_| (random.between(1, 10) * scale, random.between(5, 60));
        let limits = (0..quotas).map(quota).collect();
        Self { algorithm: Algorithm::Log, limits: vec![limits], scale }
    }

    /// A larger limit in the same window: the tier allows what the policy allows, and a check never
    /// overtakes a waiter.
    fn tiers(random: &mut Random) -> Self {
        let (limit, window) = (random.between(1, 8), random.between(20, 60));
        let tier = (limit + random.between(1, 8), window);
        Self {
            algorithm: Algorithm::Log,
            limits: vec![vec![(limit, window)], vec![tier]],
            scale: 1,
        }
    }

    fn gcra(random: &mut Random) -> Self {
        let limit = random.between(1, 8);
        let limits = vec![vec![(limit, limit * random.between(2, 9))]];
        Self { algorithm: Algorithm::Gcra, limits, scale: 1 }
    }
}

/// The expected behavior of the limiter.
enum Model {
    /// Every used unit with its time.
    Log(Vec<(u64, u64)>),
    /// The time at which the bucket is full.
    Gcra(u64),
}

impl Model {
    /// Returns the earliest time from `from` on at which the quotas allow `cost`.
    fn earliest(&self, limits: &Limits, from: u64, cost: u64) -> u64 {
        match self {
            Self::Log(used) => {
                let counted = |at: u64, window: u64| -> u64 {
                    used.iter().filter(|(tick, _)| tick + window > at).map(|(_, units)| units).sum()
                };
                let fits = |at: &u64| {
                    limits.iter().all(|(limit, window)| counted(*at, *window) + cost <= *limit)
                };
                (from..from + 100_000).find(fits).unwrap()
            }
            Self::Gcra(full_at) => {
                let (limit, window) = limits[0];
                from.max((full_at.max(&from) + cost * window / limit).saturating_sub(window))
            }
        }
    }

    fn take(&mut self, limits: &Limits, at: u64, cost: u64) {
        match self {
            Self::Log(used) => {
                used.push((at, cost));
                used.sort_unstable();
            }
            Self::Gcra(full_at) => {
                *full_at = (*full_at).max(at) + cost * limits[0].1 / limits[0].0;
            }
        }
    }

    /// Records units without a check. If a log is used up without its newest entry, they join it.
    fn charge(&mut self, limits: &Limits, at: u64, mut cost: u64) {
        if let Self::Log(used) = self
            && let Some((last, _)) = used.iter().rev().find(|(_, units)| *units > 0).copied()
        {
            let (limit, window) = *limits.iter().max_by_key(|limit| limit.1).unwrap();
            let counted = |tick: u64| tick + window > at;
            let before = used.iter().filter(|(tick, _)| *tick != last && counted(*tick));
            if counted(last) && before.map(|(_, units)| units).sum::<u64>() >= limit.max(1) {
                used.retain(|(tick, units)| {
                    cost += if *tick == last { *units } else { 0 };
                    *tick != last
                });
            }
        }
        self.take(limits, at, cost);
    }

    /// Refunds units taken at `tick`.
    fn give_back(&mut self, limits: &Limits, now: u64, tick: u64, units: u64) -> u64 {
        self.remove(limits, now, tick..=tick, units)
    }

    /// Refunds units, the oldest first.
    fn forgive(&mut self, limits: &Limits, now: u64, units: u64) -> u64 {
        let longest = limits.iter().map(|limits| limits.1).max().unwrap();
        self.remove(limits, now, now + 1 - longest..=u64::MAX, units)
    }

    fn remove(&mut self, limits: &Limits, now: u64, ticks: RangeInclusive<u64>, units: u64) -> u64 {
        let tick = *ticks.start();
        match self {
            Self::Log(used) => {
                let longest = limits.iter().map(|limits| limits.1).max().unwrap();
                let mut left = if tick + longest > now { units } else { 0 };
                let asked = left;
                for (_, there) in used.iter_mut().filter(|(at, _)| ticks.contains(at)) {
                    let some = left.min(*there);
                    (*there, left) = (*there - some, left - some);
                }
                asked - left
            }
            Self::Gcra(full_at) => {
                let unit = limits[0].1 / limits[0].0;
                let left = (units * unit).saturating_sub(now - tick);
                let given = left.min(full_at.saturating_sub(now));
                *full_at -= given;
                given.div_ceil(unit)
            }
        }
    }

    fn copy(&self) -> Self {
        match self {
            Self::Log(used) => Self::Log(used.clone()),
            Self::Gcra(full_at) => Self::Gcra(*full_at),
        }
    }
}

struct Queued {
    id: u64,
    cost: u64,
    limits: usize,
    end: u64,
}

const EVENTS: usize = 9;

struct Walk<'a> {
    random: Random,
    setup: &'a Setup,
    limiter: Rc<Limiter>,
    tier: Option<Rc<Tier>>,
    clock: ManualClock,
    now: u64,
    model: Model,
    queue: VecDeque<Queued>,
    tasks: Vec<Task>,
    /// With the cost and the time in the model.
    receipts: Vec<(Receipt, u64, u64)>,
    next_id: u64,
    /// The number of events of each kind.
    seen: [u64; EVENTS],
}

struct Task {
    id: u64,
    cost: u64,
    future: Pin<Box<dyn Future<Output = Result<Decision, Error>>>>,
    woken: Arc<Flag>,
    asleep_until: Rc<Cell<u64>>,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a> Walk<'a> {
    fn run(random: Random, setup: &'a Setup) -> Self {
        let mut walk = Self::new(random, setup);
        for _ in 0..STEPS {
            for _ in 0..walk.random.pick(&[0, 0, 0, 1, 2, 15]) {
                walk.pass();
            }
            walk.step();
            walk.settle_down();
            walk.compare_peek();
        }
        // Every waiter is served or denied in the end.
        while !walk.queue.is_empty() {
            walk.pass();
        }
        assert_eq!((walk.tasks.len(), walk.limiter.stats().waiters), (0, 0));
        walk
    }

    fn new(random: Random, setup: &'a Setup) -> Self {
        let quota = |(limit, window): &(u64, u64)| {
            Quota::new(*limit, Duration::from_millis(*window)).unwrap()
        };
        let quotas = |limits: &Limits| limits.iter().map(quota).collect::<Vec<_>>();
        let builder = Policy::builder("line").quotas(quotas(&setup.limits[0]));
        let policy = builder.algorithm(setup.algorithm).build().unwrap();
        let now = 1_700_000_000_000;
        let clock = ManualClock::new(Duration::from_millis(now));
        let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
        let tier =
            setup.limits.get(1).map(|limits| Rc::new(limiter.tier(&quotas(limits)).unwrap()));
        let model = match setup.algorithm {
            Algorithm::Gcra => Model::Gcra(0),
            _ => Model::Log(Vec::new()),
        };
        Self {
            random,
            setup,
            limiter: Rc::new(limiter),
            tier,
            clock,
            now,
            model,
            queue: VecDeque::new(),
            tasks: Vec::new(),
            receipts: Vec::new(),
            next_id: 0,
            seen: [0; EVENTS],
        }
    }

    fn pass(&mut self) {
        self.now += 1;
        self.clock.set(Duration::from_millis(self.now));
        self.settle_down();
    }

    fn step(&mut self) {
        match self.random.between(0, 19) {
            0..=4 => self.check(),
            5..=10 => self.wait(),
            11..=13 => self.cancel(),
            14..=15 => self.settle(),
            16 => self.reset(),
            17 if self.setup.algorithm == Algorithm::Log => self.forgive(),
            _ => self.refund(),
        }
    }

    fn cost(&mut self) -> u64 {
        let limits = &self.setup.limits[0];
        let most = limits.iter().map(|limit| limit.0).min().unwrap() / self.setup.scale;
        let units = if self.random.chance(50) { 1 } else { self.random.between(1, most) };
        units * self.setup.scale
    }

    fn check(&mut self) {
        let cost = self.cost();
        let decision = self.limiter.check_cost("key", Cost::new(cost).unwrap());
        let expected = self.queue.is_empty() && self.earliest(0, self.now, cost) == self.now;
        assert_eq!(decision.is_allowed(), expected, "a check of {cost}");
        if expected {
            self.grant(decision, 0, cost);
        }
    }

    fn wait(&mut self) {
        let (cost, limits) = (self.cost(), self.random.index(self.setup.limits.len()));
        let deadline = self.random.between(0, 3 * self.setup.limits[0][0].1);
        let (id, asleep_until) = (self.next_id, Rc::new(Cell::new(0)));
        self.next_id += 1;
        let sleeps = (Rc::clone(&asleep_until), self.clock.clone());
        let (limiter, tier) = (Rc::clone(&self.limiter), self.tier.clone());
        let future = Box::pin(async move {
            let tier = if limits == 1 { tier.as_deref() } else { None };
            let sleep = |time| Sleep::new(time, &sleeps);
            let (cost, deadline) = (Cost::new(cost).unwrap(), Duration::from_millis(deadline));
            limiter.with(tier)?.wait_timeout("key", cost, deadline, sleep).await
        });
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        self.tasks.push(Task { id, cost, future, woken, asleep_until });
        let result = self.poll(self.tasks.len() - 1);

        let fits = self.fits_behind_the_line(limits, cost);
        let due = self.plan().1.max(self.earliest_behind_the_line(limits, cost));
        match result {
            Some(decision) if fits => {
                assert!(decision.is_allowed(), "a wait of {cost} that need not wait");
                self.grant(decision, limits, cost);
            }
            Some(decision) => {
                assert!(!decision.is_allowed() && due - self.now > deadline, "due at {due}");
                self.seen[0] += 1;
            }
            None => {
                assert!(!fits && due - self.now <= deadline, "waits, due at {due}");
                self.queue.push_back(Queued { id, cost, limits, end: self.now + deadline });
                self.seen[1] += 1;
            }
        }
    }

    fn cancel(&mut self) {
        if !self.tasks.is_empty() {
            let index = self.random.index(self.tasks.len());
            let task = self.remove_task(index);
            self.queue.retain(|queued| queued.id != task.id);
            self.seen[2] += 1;
        }
    }

    fn take_receipt(&mut self) -> Option<(Receipt, u64, u64)> {
        let some = !self.receipts.is_empty();
        some.then(|| self.receipts.swap_remove(self.random.index(self.receipts.len())))
    }

    fn refund(&mut self) {
        if let Some((receipt, cost, tick)) = self.take_receipt() {
            let given = self.limiter.refund(receipt);
            let expected = self.model.give_back(&self.setup.limits[0], self.now, tick, cost);
            assert_eq!(given, expected, "refunded");
            self.seen[3] += u64::from(given > 0);
        }
    }

    fn settle(&mut self) {
        let Some((receipt, cost, tick)) = self.take_receipt() else { return };
        let actual = self.random.between(0, 2 * cost);
        let charged = self.limiter.settle(receipt, actual);
        let limits = &self.setup.limits[0];
        if actual < cost {
            let given = self.model.give_back(limits, self.now, tick, cost - actual);
            assert_eq!(charged, cost - given);
            self.seen[4] += u64::from(given > 0);
        } else {
            if actual > cost {
                self.model.charge(limits, self.now, actual - cost);
            }
            self.seen[5] += u64::from(actual > cost);
        }
    }

    fn forgive(&mut self) {
        let units = 3 * self.cost();
        let limits = &self.setup.limits[0];
        let expected = self.model.forgive(limits, self.now, units);
        assert_eq!(self.limiter.forgive("key", units), expected, "forgiven");
        self.seen[6] += u64::from(expected > 0);
    }

    fn reset(&mut self) {
        self.limiter.reset("key");
        self.model = match self.model {
            Model::Log(_) => Model::Log(Vec::new()),
            Model::Gcra(_) => Model::Gcra(0),
        };
        for (receipt, ..) in self.receipts.drain(..) {
            assert_eq!(self.limiter.refund(receipt), 0, "the receipt is void");
        }
        self.seen[7] += 1;
    }

    /// Polls the tasks that are awake, and serves the model's queue.
    fn settle_down(&mut self) {
        let (mut done, mut index) = (Vec::new(), 0);
        while index < self.tasks.len() {
            let Task { id, cost, woken, asleep_until, .. } = &self.tasks[index];
            let (id, cost) = (*id, *cost);
            let is_awake = woken.0.swap(false, Ordering::Relaxed) || asleep_until.get() <= self.now;
            match if is_awake { self.poll(index) } else { None } {
                // A waiter that leaves may wake any other.
                Some(decision) => {
                    done.push((id, decision.is_allowed()));
                    if let Some(receipt) = decision.into_receipt() {
                        self.receipts.push((receipt, cost, self.now));
                    }
                    index = 0;
                }
                None => index += 1,
            }
        }
        let mut expected = self.serve();
        done.sort_unstable();
        expected.sort_unstable();
        assert_eq!(done, expected, "served or denied at {}", self.now);
    }

    /// Serves the model's queue in order, as soon as possible, until the deadline.
    fn serve(&mut self) -> Vec<(u64, bool)> {
        let mut done = Vec::new();
        loop {
            if let Some(Queued { id, cost, limits, .. }) = self.queue.front()
                && self.earliest(*limits, self.now, *cost) == self.now
            {
                done.push((*id, true));
                self.model.take(&self.setup.limits[*limits], self.now, *cost);
                self.queue.pop_front();
                self.seen[8] += 1;
            } else if let Some(at) = self.queue.iter().position(|queued| queued.end <= self.now) {
                done.extend(self.queue.remove(at).map(|queued| (queued.id, false)));
            } else {
                return done;
            }
        }
    }

    fn earliest(&self, limits: usize, from: u64, cost: u64) -> u64 {
        self.model.earliest(&self.setup.limits[limits], from, cost)
    }

    /// Returns the model with the whole queue served, and the time of its last waiter.
    fn plan(&self) -> (Model, u64) {
        let (mut model, mut due) = (self.model.copy(), self.now);
        for Queued { cost, limits, .. } in &self.queue {
            let limits = &self.setup.limits[*limits];
            due = model.earliest(limits, due, *cost);
            model.take(limits, due, *cost);
        }
        (model, due)
    }

    fn earliest_behind_the_line(&self, limits: usize, cost: u64) -> u64 {
        self.plan().0.earliest(&self.setup.limits[limits], self.now, cost)
    }

    fn fits_behind_the_line(&self, limits: usize, cost: u64) -> bool {
        self.earliest_behind_the_line(limits, cost) == self.now
    }

    fn compare_peek(&mut self) {
        let cost = self.cost();
        let looked = self.limiter.peek_cost("key", Cost::new(cost).unwrap());
        let expected = self.earliest_behind_the_line(0, cost).max(self.plan().1) - self.now;
        assert_eq!(
            looked.retry_after().duration(),
            Some(Duration::from_millis(expected)),
            "of {cost}"
        );
    }

    fn grant(&mut self, decision: Decision, limits: usize, cost: u64) {
        self.model.take(&self.setup.limits[limits], self.now, cost);
        self.receipts.push((decision.into_receipt().unwrap(), cost, self.now));
    }

    /// Removes a task. Tasks that are due at the same time may run in any order, if they have the
    /// same quotas. Otherwise a later one with larger quotas may leave too little for the first.
    fn remove_task(&mut self, index: usize) -> Task {
        if self.setup.limits.len() == 1 {
            self.tasks.swap_remove(index)
        } else {
            self.tasks.remove(index)
        }
    }

    fn poll(&mut self, index: usize) -> Option<Decision> {
        let task = &mut self.tasks[index];
        let waker = Waker::from(Arc::clone(&task.woken));
        match task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                drop(self.remove_task(index));
                Some(result.unwrap())
            }
            Poll::Pending => None,
        }
    }
}

struct Sleep(u64, ManualClock);

impl Sleep {
    fn new(time: Duration, (asleep_until, clock): &(Rc<Cell<u64>>, ManualClock)) -> Self {
        let until = now(clock) + u64::try_from(time.as_millis()).unwrap();
        asleep_until.set(until);
        Self(until, clock.clone())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if now(&self.1) >= self.0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn now(clock: &ManualClock) -> u64 {
    slidegate::Clock::now(clock) / 1_000_000
}
