//! Calls one at a time: what each takes of the server, and how long a caller waits.

use core::time::Duration;

use slidegate::{Policy, Quota, Receipt};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::RedisServer;

use super::subject::{Subject, SubjectKind};
use crate::Failure;
use crate::clock;
use crate::key::Key;
use crate::random::Random;
use crate::rounding::to_float;

/// Time that the server spends on a call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) workload: String,
    /// Microseconds per call, by round.
    pub(super) server_micros: Vec<f64>,
    /// The same of a check of the same key, by round.
    pub(super) check_micros: Vec<f64>,
    /// Calls of all rounds.
    pub(super) calls: u64,
    /// Calls that took the server longer than [`LONG`].
    pub(super) long: u64,
}

/// Time from sending a check to its decision, in microseconds.
#[derive(Debug)]
pub(super) struct Latency {
    pub(super) which: SubjectKind,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// What no script should take, in microseconds.
pub(super) const LONG: &str = "2000";

/// Calls of one kind in a row.
const CALLS: u64 = 20;

/// Short, so that logs fill up soon.
const TICK: Duration = Duration::from_micros(100);

/// How often a log is filled up because checks fell into the same tick.
const FILLS_MAX: u32 = 20;

const KEY: &str = "alice";

/// What is measured besides checks. Each undoes what a check did.
#[derive(Clone, Copy)]
enum Undo {
    Refund,
    Settle,
    Forgive,
}

/// Measures checks, refunds, settlements and forgiving on logs of several lengths.
pub(super) async fn calls(
    server: &RedisServer,
    lengths: &[u64],
    rounds: usize,
) -> Result<Vec<Call>, Failure> {
    set(server, "slowlog-log-slower-than", LONG)?;
    set(server, "slowlog-max-len", "100000")?;
    let mut all = vec![Call::new("single-check".to_owned())];
    for &length in lengths {
        let log = LongLog::fill(server, length).await?;
        let names = ["refund", "settle", "forgive"].map(|name| format!("{name}-{length}"));
        let undo = [Undo::Refund, Undo::Settle, Undo::Forgive];
        let mut measured = names.map(Call::new);
        let mut log = log;
        for _ in 0..rounds {
            for (call, undo) in measured.iter_mut().zip(undo) {
                let check = log.checks(server).await?;
                let taken = log.undo(server, undo).await?;
                call.add(taken, check.micros);
                if length == lengths[0] {
                    all[0].add(check, check.micros);
                }
            }
            // About as many units as the round added.
            log.limiter.forgive(KEY, CALLS * 3 / 2).await?;
        }
        all.extend(measured);
    }
    Ok(all)
}

impl Call {
    fn new(workload: String) -> Self {
        Self { workload, server_micros: vec![], check_micros: vec![], calls: 0, long: 0 }
    }

    fn add(&mut self, spent: Spent, check_micros: f64) {
        self.server_micros.push(spent.micros);
        self.check_micros.push(check_micros);
        self.calls += CALLS;
        self.long += spent.long;
    }
}

/// What the server spent on [`CALLS`] calls.
#[derive(Clone, Copy)]
struct Spent {
    /// Per call.
    micros: f64,
    long: u64,
}

/// A key with many entries and their receipts.
struct LongLog {
    limiter: RedisLimiter,
    /// Receipts of one unit.
    singles: Vec<Receipt>,
    /// Receipts of two units, of which a settlement returns one.
    doubles: Vec<Receipt>,
    random: Random,
}

impl LongLog {
    async fn fill(server: &RedisServer, entries: u64) -> Result<Self, Failure> {
        let policy = Policy::builder(format!("log-{entries}").as_str())
            .quota(Quota::new(entries * 100, Duration::from_secs(3600))?)
            .build()?;
        let redis = Redis::single(&server.url())?.deadline(Duration::from_secs(5)).build()?;
        let limiter = redis.limiter(policy).tick(TICK).deny_cache(0).build()?;
        let (singles, doubles) = (Vec::new(), Vec::new());
        let mut log = Self { limiter, singles, doubles, random: Random::new(3) };
        for _ in 0..FILLS_MAX {
            let recorded = log.limiter.history(KEY).await?.len() as u64;
            if recorded >= entries {
                return Ok(log);
            }
            for number in recorded..entries {
                let began = clock::instant();
                // Few units per entry, so that the codes stay short.
                log.check(number.is_multiple_of(8)).await?;
                while began.elapsed() < TICK {
                    core::hint::spin_loop();
                }
            }
        }
        Err(format!("the log does not get {entries} entries: the server is too slow").into())
    }

    /// Takes one unit, or two.
    async fn check(&mut self, is_double: bool) -> Result<(), Failure> {
        let decision = self.limiter.reserve(KEY, if is_double { 2 } else { 1 }).await;
        let reason = decision.degraded_reason();
        let failed = || format!("a check was denied or degraded: {reason:?}");
        let receipt = decision.into_receipt().ok_or_else(failed)?;
        if is_double {
            self.doubles.push(receipt);
        } else {
            self.singles.push(receipt);
        }
        Ok(())
    }

    async fn checks(&mut self, server: &RedisServer) -> Result<Spent, Failure> {
        let before = Spending::read(server)?;
        for number in 0..CALLS {
            self.check(number.is_multiple_of(2)).await?;
        }
        before.since(server)
    }

    async fn undo(&mut self, server: &RedisServer, undo: Undo) -> Result<Spent, Failure> {
        let before = Spending::read(server)?;
        let random = &mut self.random;
        let mut pick = |receipts: &mut Vec<Receipt>| -> Result<Receipt, Failure> {
            let count = u32::try_from(receipts.len())?;
            Ok(receipts.swap_remove(random.below(count) as usize))
        };
        for _ in 0..CALLS {
            match undo {
                Undo::Refund => self.limiter.refund(KEY, pick(&mut self.singles)?).await?,
                Undo::Settle => self.limiter.settle(KEY, pick(&mut self.doubles)?, 1).await?,
                Undo::Forgive => self.limiter.forgive(KEY, 1).await?,
            };
        }
        before.since(server)
    }
}

/// What the server has spent on scripts so far.
struct Spending {
    micros: u64,
    long: u64,
}

impl Spending {
    fn read(server: &RedisServer) -> Result<Self, Failure> {
        let stats = server.info("commandstats", "cmdstat_evalsha")?;
        let micros = stats.split(',').find_map(|field| field.strip_prefix("usec="));
        let micros = micros.ok_or("the server has no time of EVALSHA")?.parse()?;
        let long = redis::cmd("SLOWLOG").arg("LEN").query(&mut server.connection()?)?;
        Ok(Self { micros, long })
    }

    fn since(&self, server: &RedisServer) -> Result<Spent, Failure> {
        let now = Self::read(server)?;
        let micros = to_float(now.micros - self.micros) / to_float(CALLS);
        Ok(Spent { micros, long: now.long - self.long })
    }
}

fn set(server: &RedisServer, name: &str, value: &str) -> Result<(), Failure> {
    Ok(redis::cmd("CONFIG").arg(&["SET", name, value]).query(&mut server.connection()?)?)
}

/// Measures single checks of many keys, one after another.
pub(super) async fn latency(server: &RedisServer, checks: u32) -> Result<Vec<Latency>, Failure> {
    let quota = Quota::new(100, Duration::from_secs(60))?;
    let (log, set) = (SubjectKind::Log, SubjectKind::SortedSet);
    let mut subjects = Vec::new();
    for which in [log, set] {
        subjects.push((which, Subject::new(which, &server.url(), quota).await?, Vec::new()));
    }
    let (mut random, mut key) = (Random::new(5), Key::new());
    for number in 0..checks {
        let key = key.write(random.below(1000));
        for (_, subject, times) in &mut subjects {
            let began = clock::instant();
            subject.check(key, number.into()).await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    let percentiles = |(which, _, mut times): (SubjectKind, Subject, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(0.0);
        Latency { which, p50: at(50), p99: at(99) }
    };
    Ok(subjects.into_iter().map(percentiles).collect())
}
