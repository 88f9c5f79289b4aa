//! Exhaustive search: every sequence of operations up to a depth, in worlds so small that every boundary is a
//! few ticks away.
//!
//! A limiter and the [definition](crate::definition) run side by side. After each operation, both must give
//! the same reply. Sequences that lead both to the same state are merged, so that only one of them is
//! continued. Sequences are tried in the order of their length: the first that fails is a shortest one.
//!
//! A test removes operations and tiers from its worlds for which its limiter documents a difference.

mod store;
mod worlds;

use core::fmt;
use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::collections::HashSet;
use std::hash::DefaultHasher;
use std::time::Instant;

use slidegate::{Error, Policy, Quota};
pub use store::{InMemory, run_on};
pub use worlds::worlds;

use slidegate_sim::definition::{Counting, Decision, KeyState, Moment, TickQuota, TickReceipt};

/// A small world: a policy, its tiers, and the operations that may happen.
#[derive(Debug, Clone)]
pub struct World {
    /// What is special about it.
    pub name: String,
    /// The algorithm.
    pub counting: Counting,
    /// The most bytes of a log, or zero for no maximum.
    pub bytes_max: u32,
    /// The quotas of the policy, then those of each tier.
    pub tiers: Vec<Vec<TickQuota>>,
    /// The tick at which the clock starts.
    pub start: u64,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// An operation on one of a few keys, under the quotas of one of the tiers. Tier 0 is the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Moves the clock by half ticks.
    Clock(i64),
    /// Checks some units.
    Check(At, u64),
    /// Checks at most some units.
    AtMost(At, u64),
    /// Decides without taking units.
    Peek(At, u64),
    /// Records units that were used.
    Charge(At, u64),
    /// Refunds the receipt with this number, counted from the latest one, used or not.
    Refund(At, usize),
    /// Settles a receipt for the actual units.
    Settle(At, usize, u64),
    /// Refunds units without a receipt.
    Forgive(At, u64),
    /// Denies the key for some ticks.
    Block(At, u64),
    /// Ends the block of the key.
    Unblock(At),
    /// Removes the key.
    Reset(At),
    /// Returns the units that count.
    Usage(At),
    /// Saves all state and continues with what was restored from it.
    Restart,
}

/// A key and a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct At {
    /// The number of the key.
    pub key: usize,
    /// The number of the tier.
    pub tier: usize,
}

/// The reply to an operation, with times in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The reply to a check, without its receipt.
    Decision {
        /// Whether it is allowed.
        is_allowed: bool,
        /// The units taken.
        units: u64,
        /// Units left, ticks until the cost is allowed, and ticks until more units become available, for
        /// every quota.
        quotas: Vec<(u64, Option<u64>, u64)>,
    },
    /// A number of units.
    Units(u64),
    /// Units for every quota.
    Usage(Vec<u64>),
    /// Whether there was something to end.
    Found(bool),
    /// Nothing to compare.
    Done,
    /// The limiter failed. The definition never does.
    Failed(String),
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A receipt of any system: its key, units, tick and life or epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnyReceipt {
    /// The number of the key.
    pub key: usize,
    /// The units taken.
    pub units: u64,
    /// The tick at which they are recorded.
    pub tick: u64,
    /// The life or the epoch of the key.
    pub life: u64,
}

/// A limiter that can be searched.
pub trait System {
    /// Sets the clock, in nanoseconds.
    fn set_time(&mut self, now: Duration);

    /// Runs an operation other than [`Operation::Clock`]. `receipt` is the one that the operation names. A check
    /// also returns its receipt.
    fn run(
        &mut self,
        operation: &Operation,
        receipt: Option<AnyReceipt>,
    ) -> (Reply, Option<AnyReceipt>);

    /// Returns bytes that are equal only if all later replies are.
    fn state(&mut self) -> Vec<u8>;
}

/// One tick.
pub const TICK: Duration = Duration::from_millis(1);

/// The number of receipts that a sequence may refer to.
const RECEIPTS_MAX: usize = 3;

/// A system at the end of a sequence, with its clock and its receipts.
struct Run<S> {
    system: S,
    half_ticks: u64,
    receipts: Vec<AnyReceipt>,
}

impl<S: System> Run<S> {
    fn new(world: &World, mut system: S) -> Self {
        let half_ticks = 2 * world.start;
        system.set_time(time(half_ticks));
        Self { system, half_ticks, receipts: Vec::new() }
    }

    /// Runs an operation. Returns `None` if it names a receipt that does not exist.
    fn step(&mut self, operation: &Operation) -> Option<Reply> {
        if let Operation::Clock(steps) = *operation {
            self.half_ticks = self.half_ticks.saturating_add_signed(steps);
            self.system.set_time(time(self.half_ticks));
            return Some(Reply::Done);
        }
        let receipt = match operation.receipt() {
            None => None,
            Some(ago) => Some(*self.receipts.iter().rev().nth(ago)?),
        };
        let (reply, taken) = self.system.run(operation, receipt);
        if let Some(taken) = taken {
            self.receipts.push(taken);
            if self.receipts.len() > RECEIPTS_MAX {
                self.receipts.remove(0);
            }
        }
        Some(reply)
    }
}

fn time(half_ticks: u64) -> Duration {
    TICK / 2 * u32::try_from(half_ticks).unwrap_or(u32::MAX)
}

/// The definition as a system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Defined {
    keys: Vec<KeyState>,
    tiers: Vec<Vec<TickQuota>>,
    clock: Moment,
    /// The latest time of an operation since the start. Time never goes back before it.
    latest: Moment,
    /// By how many ticks time is ahead of the clock. At a restart, time does not go back before the latest one of the
    /// snapshot.
    ahead: u64,
}

impl Defined {
    /// Creates the definition of a world.
    pub fn new(world: &World) -> Self {
        let longest = world.tiers.iter().flatten().map(|quota| quota.window).max();
        let key = KeyState::new(world.counting, longest.unwrap_or(1));
        Self {
            keys: vec![key; 2],
            tiers: world.tiers.clone(),
            clock: Moment::at(0),
            latest: Moment::at(0),
            ahead: 0,
        }
    }
}

impl System for Defined {
    fn set_time(&mut self, now: Duration) {
        let ticks = |nanos: u128| u64::try_from(nanos).unwrap_or(u64::MAX);
        let (nanos, tick) = (now.as_nanos(), TICK.as_nanos());
        self.clock = Moment { now: ticks(nanos / tick), date: ticks(nanos.div_ceil(tick)) };
    }

    fn run(
        &mut self,
        operation: &Operation,
        receipt: Option<AnyReceipt>,
    ) -> (Reply, Option<AnyReceipt>) {
        use Operation as Op;
        let clock = Moment { now: self.clock.now + self.ahead, date: self.clock.date + self.ahead };
        let Moment { now, date } = self.latest;
        if *operation == Op::Restart {
            let ahead = now.saturating_sub(clock.now);
            self.ahead += ahead;
            self.latest = Moment { now: clock.now + ahead, date: clock.date + ahead };
            return (Reply::Done, None);
        }
        self.latest = if clock.now < now { Moment { now, date } } else { clock };
        let Some(At { key, tier }) = operation.at() else { return (Reply::Done, None) };
        let key = receipt.map_or(key, |receipt| receipt.key);
        let (state, quotas, moment) = (&mut self.keys[key], &self.tiers[tier], self.latest);
        let decided = |decision: Decision| {
            let taken = decision.receipt.map(|taken| AnyReceipt {
                key,
                units: taken.units,
                tick: taken.at,
                life: taken.life,
            });
            let quotas = decision.quotas.iter();
            let quotas =
                quotas.map(|quota| (quota.remaining, quota.retry_after, quota.reset_after));
            let reply = Reply::Decision {
                is_allowed: decision.is_allowed,
                units: taken.map_or(0, |taken| taken.units),
                quotas: quotas.collect(),
            };
            (reply, taken)
        };
        let receipt = receipt.filter(|receipt| receipt.key == key).map(|receipt| TickReceipt {
            units: receipt.units,
            at: receipt.tick,
            life: receipt.life,
        });
        let reply = match (*operation, receipt) {
            (Op::Check(_, cost), _) => return decided(state.check(quotas, moment, cost)),
            (Op::AtMost(_, cost), _) => return decided(state.check_at_most(quotas, moment, cost)),
            (Op::Peek(_, cost), _) => return decided(state.peek(quotas, moment, cost)),
            (Op::Charge(_, units), _) => Reply::Units(state.charge(quotas, moment, units)),
            (Op::Refund(..), Some(receipt)) => Reply::Units(state.refund(quotas, moment, receipt)),
            (Op::Settle(.., actual), Some(receipt)) => {
                Reply::Units(state.settle(quotas, moment, receipt, actual))
            }
            (Op::Refund(..) | Op::Settle(..), _) => Reply::Units(0),
            (Op::Forgive(_, units), _) => Reply::Units(state.forgive(quotas, moment, units)),
            (Op::Block(_, ticks), _) => {
                state.block(moment, ticks);
                Reply::Done
            }
            (Op::Unblock(_), _) => Reply::Found(state.unblock(moment)),
            (Op::Reset(_), _) => Reply::Found(state.reset(quotas, moment)),
            (Op::Usage(_), _) => Reply::Usage(state.usage(quotas, moment)),
            (Op::Clock(_) | Op::Restart, _) => Reply::Done,
        };
        (reply, None)
    }

    fn state(&mut self) -> Vec<u8> {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish().to_le_bytes().to_vec()
    }
}

impl World {
    /// Returns the policy, and the quotas of the tiers.
    ///
    /// # Errors
    ///
    /// Returns an error if a quota is not valid.
    pub fn policy(&self) -> Result<(Policy, Vec<Vec<Quota>>), Error> {
        use slidegate::Algorithm;
        let quota = |quota: &TickQuota| {
            Quota::new(quota.limit, TICK * u32::try_from(quota.window).unwrap_or(u32::MAX))
        };
        let all: Result<Vec<Vec<Quota>>, Error> =
            self.tiers.iter().map(|quotas| quotas.iter().map(quota).collect()).collect();
        let mut all = all?;
        let algorithm = match self.counting {
            Counting::Log if self.bytes_max > 0 => {
                Algorithm::LogCapped { bytes_max: self.bytes_max }
            }
            Counting::Log => Algorithm::Log,
            Counting::Counter => Algorithm::Counter,
            Counting::Fixed => Algorithm::Fixed,
            Counting::Gcra => Algorithm::Gcra,
            Counting::Segments(count) => {
                Algorithm::Segments { count: u16::try_from(count).unwrap_or(u16::MAX) }
            }
        };
        let policy = Policy::builder("world").quotas(all.remove(0)).algorithm(algorithm).build()?;
        Ok((policy, all))
    }
}

impl Operation {
    /// Returns the key and the tier.
    pub fn at(&self) -> Option<At> {
        match *self {
            Self::Clock(_) | Self::Restart => None,
            Self::Check(at, _)
            | Self::AtMost(at, _)
            | Self::Peek(at, _)
            | Self::Charge(at, _)
            | Self::Refund(at, _)
            | Self::Settle(at, ..)
            | Self::Forgive(at, _)
            | Self::Block(at, _)
            | Self::Unblock(at)
            | Self::Reset(at)
            | Self::Usage(at) => Some(at),
        }
    }

    fn receipt(&self) -> Option<usize> {
        match *self {
            Self::Refund(_, ago) | Self::Settle(_, ago, _) => Some(ago),
            _ => None,
        }
    }
}

/// Returns the time for all worlds of an algorithm: the seconds in `SLIDEGATE_SEARCH_SECONDS`, or 3.
pub fn budget() -> Duration {
    let seconds = std::env::var("SLIDEGATE_SEARCH_SECONDS");
    Duration::from_secs(seconds.ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3))
}

/// What was searched.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coverage {
    /// Different states.
    pub states: u64,
    /// Operations whose replies were compared.
    pub operations: u64,
    /// The length up to which all sequences were tried.
    pub depth: usize,
}

/// The shortest sequence after which a limiter's reply differs from the definition's.
#[derive(Debug, Clone)]
pub struct Counterexample {
    /// The world.
    pub world: String,
    /// The operations.
    pub operations: Vec<Operation>,
    /// What the definition replies to the last one.
    pub expected: Reply,
    /// What the limiter replies.
    pub got: Reply,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "world {}:", self.world)?;
        for operation in &self.operations {
            writeln!(f, "    {operation:?}")?;
        }
        writeln!(f, "  the definition: {:?}", self.expected)?;
        write!(f, "  the limiter:    {:?}", self.got)
    }
}

/// A sequence whose continuations are still to be tried.
struct Node {
    path: Vec<u8>,
    defined: Run<Defined>,
}

/// Tries all sequences in the order of their length, until `deadline`.
///
/// # Errors
///
/// Returns the shortest sequence after which the replies differ.
pub fn search<S: System>(
    world: &World,
    make: impl Fn(&World) -> Result<S, Error>,
    deadline: Instant,
) -> Result<Coverage, Box<Counterexample>> {
    let mut coverage = Coverage::default();
    let mut seen = HashSet::new();
    let root = Node { path: Vec::new(), defined: Run::new(world, Defined::new(world)) };
    let mut frontier = vec![root];
    for depth in 1.. {
        let mut next = Vec::new();
        for node in &frontier {
            // The clock of the machine is only the budget: no reply depends on it.
            #[expect(clippy::disallowed_methods, reason = "the budget of the search")]
            if Instant::now() >= deadline {
                return Ok(coverage);
            }
            for (index, operation) in world.operations.iter().enumerate() {
                let mut defined = node.defined.again();
                let Some(expected) = defined.step(operation) else { continue };
                let mut path = node.path.clone();
                path.push(u8::try_from(index).unwrap_or(u8::MAX));
                let operations = || path.iter().map(|index| world.operations[usize::from(*index)]);
                let fault = |expected, got| {
                    let (world, operations) = (world.name.clone(), operations().collect());
                    Box::new(Counterexample { world, operations, expected, got })
                };
                let system = make(world).map_err(|error| fault(Reply::Done, error.into()))?;
                let (mut run, mut got) = (Run::new(world, system), Reply::Done);
                for operation in operations() {
                    got = run.step(&operation).unwrap_or(Reply::Done);
                }
                coverage.operations += 1;
                // A store may or may not still have a key without units that count.
                if got != expected && expected != Reply::Found(false) {
                    return Err(fault(expected, got));
                }
                let mut hasher = DefaultHasher::new();
                (run.system.state(), defined.system.state()).hash(&mut hasher);
                (defined.half_ticks, &defined.receipts, &run.receipts).hash(&mut hasher);
                if seen.insert(hasher.finish()) {
                    coverage.states += 1;
                    next.push(Node { path, defined });
                }
            }
        }
        coverage.depth = depth;
        frontier = next;
    }
    Ok(coverage)
}

/// Searches every world of an algorithm, and prints what was searched. `system` returns what creates the
/// system of a world.
///
/// # Panics
///
/// Panics with the shortest sequence of each world in which a reply differs from the definition's.
pub fn explore<S: System, M: Fn(&World) -> Result<S, Error>>(
    counting: Counting,
    system: impl Fn(&mut World) -> Result<M, Error>,
) {
    let worlds = worlds(counting);
    let budget = budget() / u32::try_from(worlds.len()).unwrap_or(1);
    let mut failures = Vec::new();
    for mut world in worlds {
        #[expect(clippy::disallowed_methods, reason = "the budget of the search")]
        let started = Instant::now();
        let make = system(&mut world);
        let make = |world: &World| make.as_ref().map_err(Clone::clone).and_then(|make| make(world));
        match search(&world, make, started + budget) {
            Ok(Coverage { states, operations, depth }) => {
                let seconds = started.elapsed().as_secs();
                let name = &world.name;
                eprintln!(
                    "{name}: {states} states, {operations} operations, depth {depth}, {seconds} s"
                );
            }
            Err(found) => failures.push(found.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

impl Run<Defined> {
    fn again(&self) -> Self {
        Self {
            system: self.system.clone(),
            half_ticks: self.half_ticks,
            receipts: self.receipts.clone(),
        }
    }
}
