//! Random checks, late wake-ups, cancelled waits and refunds, over real times in nanoseconds.
//!
//! What could go wrong: a place in the queue is recorded at the tick at which it is due. A waiter
//! that wakes later uses its units later. With the old tick, they would expire before a window has
//! passed.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slidegate::{Algorithm, Cost, Decision, Error, Limiter, ManualClock, Policy, Quota, Receipt};
use slidegate_testkit::{Random, never_over};

const SEEDS: u64 = 1500;
const STEPS: usize = 250;

const LOGS: [Algorithm; 2] = [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }];

// With one quota, a log is one block of codes; with several, it has chunks.
#[test]
fn waits_are_never_over_under_one_quota() {
    for algorithm in LOGS {
        assert_eq!(broken(algorithm, 1), [""; 0], "{algorithm:?}");
    }
}

#[test]
fn waits_are_never_over_under_two_quotas() {
    for algorithm in LOGS {
        assert_eq!(broken(algorithm, 2), [""; 0], "{algorithm:?}");
    }
}

// If refunds, cancels or late wake-ups never happened, the two tests above would prove little.
#[test]
fn the_walks_cover_all_events() {
    let mut seen = [0; 5];
    for seed in 0..100 {
        let walk = Walk::run(seed, Algorithm::Log, 1);
        let Counts { checked, waited, late, cancelled, refunded } = walk.counts;
        for (seen, count) in seen.iter_mut().zip([checked, waited, late, cancelled, refunded]) {
            *seen += count;
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}

// Units without an owner would deny forever, and a waiter that is never woken would hang.
#[test]
fn every_wait_ends() {
    for seed in 0..SEEDS {
        let mut walk = Walk::run(seed, Algorithm::Log, 1 + seed % 2);
        let longest = walk.quotas.iter().map(|quota| quota.1).max().unwrap();
        for _ in 0..400 {
            walk.pass(longest / 2);
            walk.poll_all();
        }
        assert_eq!(walk.waiting.len(), 0, "seed {seed}");
        walk.pass(longest + 2 * TICK);
        assert_eq!(walk.limiter.usage("key").as_slice(), vec![0; walk.quotas.len()], "seed {seed}");
        assert_eq!(walk.limiter.stats().waiters, 0, "seed {seed}");
    }
}

// A sleep that ends after the deadline holds the caller for too long.
#[test]
fn no_sleep_exceeds_the_deadline() {
    let mut broken = Vec::new();
    // A limiter whose clock is stopped cannot know that the deadline has passed.
    for seed in (0..SEEDS).filter(|seed| !seed.is_multiple_of(3)) {
        let walk = Walk::run(seed, Algorithm::Log, 1 + seed % 2);
        let over = *walk.sleeps.over.borrow();
        broken.extend(over.map(|(asked, left)| format!("seed {seed}: {asked} ns, {left} left")));
    }
    assert_eq!(broken, [""; 0]);
}

fn broken(algorithm: Algorithm, quotas: u64) -> Vec<String> {
    let mut broken = Vec::new();
    for seed in 0..SEEDS {
        let walk = Walk::run(seed, algorithm, quotas);
        for (limit, window) in &walk.quotas {
            let violation = never_over(&walk.used, *limit, *window);
            broken.extend(violation.map(|violation| format!("seed {seed}: {violation}")));
        }
    }
    broken
}

const TICK: u64 = 1_000_000;

/// One key, everything that really happened to it, and its waiters.
struct Walk {
    random: Random,
    limiter: Rc<Limiter>,
    clock: ManualClock,
    quotas: Vec<(u64, u64)>,
    sleeps: Rc<Sleeps>,
    /// How far the limiter's clock is behind real time.
    behind: u64,
    /// The real times at which units were used, without refunded ones.
    used: Vec<(u64, u64)>,
    /// With the index in `used`.
    receipts: Vec<(Receipt, usize)>,
    waiting: Vec<(Task, u64)>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    checked: u64,
    waited: u64,
    late: u64,
    cancelled: u64,
    refunded: u64,
}

/// Real time, and the delays of sleeping waiters.
struct Sleeps {
    now: Cell<u64>,
    random: RefCell<Random>,
    late: Cell<u64>,
    late_max: u64,
    /// The first sleep that was longer than the time to the deadline, and that time.
    over: RefCell<Option<(u64, u64)>>,
}

type Task = Pin<Box<dyn Future<Output = Result<Decision, Error>>>>;

impl Walk {
    fn run(seed: u64, algorithm: Algorithm, quotas: u64) -> Self {
        let mut walk = Self::new(seed, algorithm, quotas);
        let falls_behind = seed.is_multiple_of(3);
        for _ in 0..STEPS {
            walk.step(falls_behind);
        }
        walk
    }

    fn new(seed: u64, algorithm: Algorithm, quotas: u64) -> Self {
        let mut random = Random::new(seed);
        let quotas: Vec<_> = (0..quotas)
            .map(|_| {
                let window = random.between(3, 400) * TICK + random.pick(&[0, 1, TICK / 2]);
                (random.between(1, 12), window)
            })
            .collect();
        let now = random.between(1 << 58, 1 << 60);
        let clock = ManualClock::new(Duration::from_nanos(now));
        let built = quotas
            .iter()
            .map(|(limit, window)| Quota::new(*limit, Duration::from_nanos(*window)).unwrap());
        let policy = Policy::builder("walk").quotas(built).algorithm(algorithm).build().unwrap();
        let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
        let longest = quotas.iter().map(|quota| quota.1).max().unwrap();
        let sleeps = Sleeps {
            now: Cell::new(now),
            random: RefCell::new(Random::new(!seed)),
            late: Cell::new(0),
            // One walk in four wakes on time, one in four slightly late, the others very late.
            late_max: [0, TICK, longest, 3 * longest][random.index(4)],
            over: RefCell::new(None),
        };
        Self {
            random,
            limiter: Rc::new(limiter),
            clock,
            quotas,
            sleeps: Rc::new(sleeps),
            behind: 0,
            used: Vec::new(),
            receipts: Vec::new(),
            waiting: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn step(&mut self, falls_behind: bool) {
        let (limit, window) = self.quotas[0];
        let by = match self.random.between(0, 9) {
            0..=3 => 0,
            4 => 1,
            5..=6 => self.random.between(0, 2 * TICK),
            7..=8 => self.random.between(0, window / limit),
            _ => self.random.between(window.saturating_sub(TICK), window + TICK),
        };
        if falls_behind && self.random.chance(5) {
            self.behind += self.random.between(1, 2 * window);
        }
        self.pass(by);
        self.poll_all();
        match self.random.between(0, 9) {
            0..=3 => self.check(),
            4..=6 => self.wait(),
            7 => self.cancel(),
            _ => self.refund(),
        }
    }

    fn pass(&mut self, nanos: u64) {
        self.sleeps.now.set(self.sleeps.now.get() + nanos);
        self.clock.set(Duration::from_nanos(self.sleeps.now.get() - self.behind));
    }

    fn cost(&mut self) -> Cost {
        let most = self.quotas.iter().map(|quota| quota.0).min().unwrap();
        let units = if self.random.chance(60) { 1 } else { self.random.between(1, most) };
        Cost::new(units).unwrap()
    }

    fn check(&mut self) {
        let cost = self.cost();
        let decision = self.limiter.check_cost("key", cost);
        self.counts.checked += u64::from(decision.is_allowed());
        self.note(decision, cost.get());
    }

    fn wait(&mut self) {
        let cost = self.cost();
        let deadline = self.random.between(0, 4 * self.quotas[0].1);
        let (limiter, sleeps) = (Rc::clone(&self.limiter), Rc::clone(&self.sleeps));
        let end = sleeps.now.get() + deadline;
        let task = async move {
            let sleep = |asked| sleeps.sleep(asked, end);
            limiter.wait_timeout("key", cost, Duration::from_nanos(deadline), sleep).await
        };
        self.waiting.push((Box::pin(task), cost.get()));
        let newest = self.waiting.len() - 1;
        self.poll(newest);
    }

    fn cancel(&mut self) {
        if !self.waiting.is_empty() {
            let index = self.random.index(self.waiting.len());
            drop(self.waiting.swap_remove(index));
            self.counts.cancelled += 1;
        }
    }

    fn refund(&mut self) {
        if !self.receipts.is_empty() {
            let index = self.random.index(self.receipts.len());
            let (receipt, place) = self.receipts.swap_remove(index);
            let back = self.limiter.refund(receipt);
            self.used[place].1 -= back;
            self.counts.refunded += u64::from(back > 0);
        }
    }

    /// Polls the waiters in a random order, and skips some of them.
    fn poll_all(&mut self) {
        for _ in 0..self.waiting.len() {
            if !self.waiting.is_empty() {
                let index = self.random.index(self.waiting.len());
                self.poll(index);
            }
        }
    }

    fn poll(&mut self, index: usize) {
        let (task, units) = &mut self.waiting[index];
        let units = *units;
        let poll = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(result) = poll {
            drop(self.waiting.swap_remove(index));
            let decision = result.unwrap();
            self.counts.waited += u64::from(decision.is_allowed());
            self.counts.late += self.sleeps.late.take();
            self.note(decision, units);
        }
    }

    fn note(&mut self, decision: Decision, units: u64) {
        if decision.is_allowed() {
            self.used.push((self.sleeps.now.get(), units));
            let place = self.used.len() - 1;
            self.receipts.extend(decision.into_receipt().map(|receipt| (receipt, place)));
        }
    }
}

impl Sleeps {
    fn sleep(self: &Rc<Self>, asked: Duration, end: u64) -> Sleep {
        let asked = u64::try_from(asked.as_nanos()).unwrap();
        let left = end.saturating_sub(self.now.get());
        // Both the current time and the deadline are rounded to a tick.
        if asked > left + 2 * TICK && self.over.borrow().is_none() {
            self.over.replace(Some((asked, left)));
        }
        let mut random = self.random.borrow_mut();
        let late = if random.chance(50) { random.between(0, self.late_max) } else { 0 };
        self.late.set(self.late.get() + u64::from(late > 0));
        Sleep { sleeps: Rc::clone(self), until: self.now.get() + asked + late }
    }
}

struct Sleep {
    sleeps: Rc<Sleeps>,
    until: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.sleeps.now.get() >= self.until { Poll::Ready(()) } else { Poll::Pending }
    }
}
