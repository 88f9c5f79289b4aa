//! Leases of several processes on one key: never over the limit, and little below it.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use common::{patient, policy, runtime};
use slidegate_redis::RedisLimiter;
use slidegate_testkit::server::{Proxy, RedisServer, monotonic, poll, wall_clock};
use slidegate_testkit::{Bracket, Random, surely_over};
use tokio::task::JoinSet;
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

/// The load of the processes.
#[derive(Debug, Clone, Copy)]
struct Load {
    limit: u64,
    window_ms: u64,
    lease_ms: u64,
    share: u64,
    /// Tasks in each process.
    tasks: u64,
    /// The maximum pause of a task between two checks.
    rest_us: u64,
    /// One in this number of allowed checks is refunded.
    refund_one_of: u64,
    length_ms: u64,
}

/// About as much as the limit allows, so that leases last their time and their last units are used
/// late. Then a lease that is recorded too early, or used too long, is detected.
const NEAR_THE_LIMIT: Load = Load {
    limit: 500,
    window_ms: 1000,
    lease_ms: 60,
    share: 8,
    tasks: 6,
    rest_us: 40_000,
    refund_one_of: 10,
    length_ms: 5000,
};

// Every admission is between two readings of a clock that all processes share. If no placement
// within these brackets keeps all windows within the limit, units were used after their recorded
// time, or twice.
#[test]
fn processes_with_leases_are_never_over() {
    let server = RedisServer::start().unwrap();
    let far = Proxy::in_front_of(&server).unwrap();
    far.delay_replies(30 * MS);
    let start =
        |url: &str, variables: &[(&str, String)]| Worker::start(url, NEAR_THE_LIMIT, variables);
    let skewed = wall_clock("+2h x3").unwrap();
    let mut workers = [
        start(&server.url(), &[]),
        start(&server.url(), &[]),
        // Half of every lease is over when it arrives.
        start(far.url(), &[]),
        // Its wall clock is two hours ahead and runs three times as fast.
        start(&server.url(), &skewed),
    ];
    let mut killed = start(&server.url(), &[]);
    poll("the last process to hold a lease", || {
        Ok((killed.admitted.load(Ordering::Relaxed) > 30).then_some(()))
    })
    .unwrap();
    killed.process.kill().unwrap();

    let reports: Vec<Report> = workers.iter_mut().map(Worker::report).collect();
    let rest = killed.report();
    assert!(rest.stats.is_none() && rest.admissions.len() >= 30, "killed in the middle of it");
    let mut admissions = rest.admissions;
    for (number, report) in reports.iter().enumerate() {
        let stats = report.stats.as_ref().unwrap();
        println!("{number}: {} admitted, {stats:?}", report.admissions.len());
        assert!(stats.leases > 0 && stats.leased_here > 0, "{number}: no leases");
        assert_eq!(stats.degraded, 0);
        admissions.extend(&report.admissions);
    }
    let off = |number: usize| reports[number].stats.as_ref().unwrap().wall_ahead_ms;
    assert!(off(0).abs() < 60_000 && off(3) > 7_000_000, "{} and {} ms ahead", off(0), off(3));

    let Load { limit, window_ms, .. } = NEAR_THE_LIMIT;
    let admitted = admissions.len() as u64;
    println!("{admitted} admitted in all, limit {limit} in {window_ms} ms");
    assert!(admitted > 2 * limit, "{admitted} admitted: too few to say anything");
    let violation = surely_over(&admissions, limit, window_ms * 1_000_000);
    assert!(violation.is_none(), "{}", violation.unwrap());
}

// Units that one process holds are denied to another: up to a share each. Unused units are refunded
// and requested again, so that little is lost in the end; otherwise more than one share would be
// missing.
#[test]
fn processes_with_leases_use_most_of_the_limit() {
    const PROCESSES: u64 = 4;
    let load = Load {
        limit: 4000,
        window_ms: 60_000,
        lease_ms: 20,
        share: 16,
        tasks: 8,
        rest_us: 2000,
        refund_one_of: u64::MAX,
        length_ms: 6000,
    };
    let server = RedisServer::start().unwrap();
    let mut workers: Vec<_> =
        (0..PROCESSES).map(|_| Worker::start(&server.url(), load, &[])).collect();
    let reports: Vec<Report> = workers.iter_mut().map(Worker::report).collect();
    let admitted: usize = reports.iter().map(|report| report.admissions.len()).sum();
    let leases: u64 = reports.iter().map(|report| report.stats.as_ref().unwrap().leases).sum();
    let under = load.limit - admitted as u64;
    println!("{admitted} of {} admitted by {leases} leases: {under} too few", load.limit);
    assert!(leases > PROCESSES);
    assert!(under <= load.limit / load.share);
}

/// A process that checks one key, together with others.
struct Worker {
    process: Child,
    /// Admissions that it has reported so far.
    admitted: Arc<AtomicU64>,
    reader: Option<thread::JoinHandle<Report>>,
}

/// The report of a process.
#[derive(Debug, Default)]
struct Report {
    admissions: Vec<Bracket>,
    /// `None` if it was killed before.
    stats: Option<Stats>,
}

#[derive(Debug)]
struct Stats {
    leases: u64,
    leased_here: u64,
    degraded: u64,
    /// How far its wall clock was ahead.
    wall_ahead_ms: i64,
}

impl Worker {
    fn start(url: &str, load: Load, variables: &[(&str, String)]) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env("WORKER_URL", url)
            .env("WORKER_LOAD", load.to_words())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, admitted) = (process.stdout.take().unwrap(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&admitted);
        let reader = Some(thread::spawn(move || read(output, &counted)));
        Self { process, admitted, reader }
    }

    /// Returns all reports, once it has ended.
    fn report(&mut self) -> Report {
        self.reader.take().unwrap().join().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

fn read(output: ChildStdout, admitted: &AtomicU64) -> Report {
    let mut report = Report::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        // Test harnesses print to the same place. The last line of a killed process may be
        // truncated.
        let Some((what, words)) = line.split_once(": ") else { continue };
        let numbers: Vec<i64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        let number = |index: usize| u64::try_from(numbers[index]).unwrap();
        if what.ends_with("admitted") && words.ends_with(';') && numbers.len() == 2 {
            report.admissions.push(Bracket { from_ns: number(0), until_ns: number(1), units: 1 });
            admitted.fetch_add(1, Ordering::Relaxed);
        } else if what.ends_with("done") {
            let wall_ahead_ms = numbers[3] - wall_ms();
            let (leases, leased_here, degraded) = (number(0), number(1), number(2));
            report.stats = Some(Stats { leases, leased_here, degraded, wall_ahead_ms });
        }
    }
    report
}

#[expect(clippy::disallowed_methods, reason = "to see that a process has another wall clock")]
fn wall_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

impl Load {
    fn to_words(self) -> String {
        let Self { limit, window_ms, lease_ms, share, tasks, rest_us, refund_one_of, length_ms } =
            self;
        format!(
            "{limit} {window_ms} {lease_ms} {share} {tasks} {rest_us} {refund_one_of} {length_ms}"
        )
    }

    fn from_words(words: &str) -> Self {
        let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
        let [limit, window_ms, lease_ms, share, tasks, rest_us, refund_one_of, length_ms] =
            numbers.try_into().unwrap();
        Self { limit, window_ms, lease_ms, share, tasks, rest_us, refund_one_of, length_ms }
    }
}

fn print(line: &str) {
    // Not captured by the harness, and in one piece.
    io::stdout().write_all(line.as_bytes()).unwrap();
    io::stdout().flush().unwrap();
}

// Alone, it runs the tasks of one process; the tests above start it as processes.
#[test]
fn worker() {
    if let Ok(load) = env::var("WORKER_LOAD") {
        return serve(Load::from_words(&load));
    }
    let server = RedisServer::start().unwrap();
    let load = Load { limit: 60, window_ms: 400, share: 2, length_ms: 2500, ..NEAR_THE_LIMIT };
    let limiter = limiter(&server.url(), load);
    let admissions = run(&limiter, load, false);
    println!("{} admitted, {:?}", admissions.len(), limiter.stats());
    assert!(admissions.len() as u64 > load.limit && limiter.stats().leases > 0);
    let violation = surely_over(&admissions, load.limit, load.window_ms * 1_000_000);
    assert!(violation.is_none(), "{}", violation.unwrap());
}

fn serve(load: Load) {
    let limiter = limiter(&env::var("WORKER_URL").unwrap(), load);
    run(&limiter, load, true);
    let stats = limiter.stats();
    let (leases, leased, degraded) = (stats.leases, stats.leased_here, stats.degraded);
    print(&format!("done: {leases} {leased} {degraded} {}\n", wall_ms()));
}

fn limiter(url: &str, load: Load) -> Arc<RedisLimiter> {
    let redis = patient(url).build().unwrap();
    let limiter = redis.limiter(policy("shared", load.limit, load.window_ms));
    let limiter = limiter.leases(Duration::from_millis(load.lease_ms)).lease_share(load.share);
    Arc::new(limiter.deny_cache_cap(Some(2 * MS)).build().unwrap())
}

/// Returns the units that all tasks were allowed and did not refund, and optionally prints them as
/// they happen.
fn run(limiter: &Arc<RedisLimiter>, load: Load, is_printed: bool) -> Vec<Bracket> {
    runtime().block_on(async {
        let end = monotonic() + Duration::from_millis(load.length_ms);
        let mut tasks = JoinSet::new();
        for number in 0..load.tasks {
            let random = Random::new(u64::from(std::process::id()) << 8 | number);
            tasks.spawn(work(Arc::clone(limiter), load, random, end, is_printed));
        }
        tasks.join_all().await.concat()
    })
}

async fn work(
    limiter: Arc<RedisLimiter>,
    load: Load,
    mut random: Random,
    end: Duration,
    is_printed: bool,
) -> Vec<Bracket> {
    let mut admissions = Vec::new();
    loop {
        let before = monotonic();
        let decision = limiter.check("hot").await;
        let after = monotonic();
        let mut is_kept = decision.is_allowed();
        let refunds = random.between(1, load.refund_one_of) == load.refund_one_of;
        if refunds && let Some(receipt) = decision.into_receipt() {
            is_kept = limiter.refund("hot", receipt).await.unwrap() == 0;
        }
        if is_kept {
            let [from_ns, until_ns] =
                [before, after].map(|at| u64::try_from(at.as_nanos()).unwrap());
            admissions.push(Bracket { from_ns, until_ns, units: 1 });
            if is_printed {
                print(&format!("admitted: {from_ns} {until_ns} ;\n"));
            }
        }
        if after > end {
            return admissions;
        }
        sleep(Duration::from_micros(random.between(1, load.rest_us))).await;
    }
}
