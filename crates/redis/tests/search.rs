//! Every sequence of operations in small worlds, on the scripts in a real server, compared with the definition.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use slidegate::{Error, ManualClock, Tier};
use slidegate_redis::RedisLimiter;
use slidegate_testkit::definition::Counting;
use slidegate_testkit::search::{
    AnyReceipt, Operation, Reply, System, TICK, World, explore, run_on,
};
use slidegate_testkit::server::RedisServer;
use tokio::runtime::Runtime;

/// All sequences of one world.
struct Sequences {
    runtime: Runtime,
    limiter: RedisLimiter,
    clock: ManualClock,
    tiers: Vec<Tier>,
    next: Cell<u32>,
}

/// One sequence. It has its own keys and begins later than all before it, because the clock of a server
/// does not go back.
struct Sequence {
    all: Rc<Sequences>,
    number: u32,
    now: Duration,
}

/// The ticks from the start of a sequence to that of the next: more than it lasts, and aligned to every
/// window.
const DISTANCE: u32 = 600;

impl Sequences {
    fn new(server: &RedisServer, world: &World) -> Result<Self, Error> {
        // The worlds use the same names of keys.
        let _: () = redis::cmd("FLUSHALL").query(&mut server.connection().unwrap()).unwrap();
        let runtime = common::runtime();
        let clock = ManualClock::new(Duration::ZERO);
        let (policy, tiers) = world.policy()?;
        let limiter = runtime.block_on(async {
            let redis = common::patient(&server.url()).test_clock(clock.clone()).build()?;
            redis.limiter(policy).deny_cache(0).tick(TICK).build()
        })?;
        let tiers = tiers.iter().map(|quotas| limiter.tier(quotas)).collect::<Result<_, _>>()?;
        Ok(Self { runtime, limiter, clock, tiers, next: Cell::new(0) })
    }
}

impl System for Sequence {
    fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.all.clock.set(self.now + TICK * DISTANCE * self.number);
    }

    fn run(
        &mut self,
        operation: &Operation,
        receipt: Option<AnyReceipt>,
    ) -> (Reply, Option<AnyReceipt>) {
        let Sequences { runtime, limiter, tiers, .. } = &*self.all;
        let earlier = u64::from(DISTANCE * self.number);
        let receipt = receipt.map(|taken| AnyReceipt { tick: taken.tick + earlier, ..taken });
        let name = |key: usize| format!("{}-{key}", self.number);
        match runtime.block_on(run_on(limiter, tiers, name, operation, receipt)) {
            Ok((reply, taken)) => {
                (reply, taken.map(|taken| AnyReceipt { tick: taken.tick - earlier, ..taken }))
            }
            Err(error) => (error.into(), None),
        }
    }

    /// Sequences that lead the definition to the same state are merged. The state in the server contains
    /// times, which differ.
    fn state(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

fn search(counting: Counting) {
    let server = RedisServer::start().unwrap();
    explore(counting, |world| {
        // A server keeps its state, and steps of its clock have tests of their own.
        let is_possible =
            |it: &Operation| !matches!(it, Operation::Restart | Operation::Clock(..=-1));
        world.operations.retain(is_possible);
        let all = Rc::new(Sequences::new(&server, world)?);
        Ok(move |_: &World| {
            let number = all.next.replace(all.next.get() + 1);
            Ok(Sequence { all: Rc::clone(&all), number, now: Duration::ZERO })
        })
    });
}

#[test]
fn search_log() {
    search(Counting::Log);
}

#[test]
fn search_segments() {
    search(Counting::Segments(2));
}

#[test]
fn search_counter() {
    search(Counting::Counter);
}

#[test]
fn search_fixed() {
    search(Counting::Fixed);
}

#[test]
fn search_gcra() {
    search(Counting::Gcra);
}
