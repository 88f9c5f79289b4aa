//! Several processes with one key: exactly the limit is allowed, also while the server loses its
//! scripts, and in every window of the server's time.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::env;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{patient, policy, runtime};
use slidegate::{Algorithm, Policy, Quota};
use slidegate_redis::RedisLimiter;
use slidegate_testkit::never_over;
use slidegate_testkit::server::{PATIENCE, RedisServer, poll_for};
use tokio::task::JoinSet;

const PROCESSES: usize = 8;
const HOUR_MS: u64 = 3_600_000;

// A decision in two steps, or one that is sent again, would give some trial another count.
#[test]
fn processes_on_one_key_admit_exactly_the_limit() {
    let server = RedisServer::start().unwrap();
    for (algorithm, trials) in [("log", 200), ("capped", 50), ("segments", 50)] {
        let mut workers = Workers::start(&server, algorithm, 100, HOUR_MS);
        for trial in 0..trials {
            let answers = workers.hammer(&format!("{algorithm}{trial}"), 16);
            assert_eq!(admitted(&answers), 100, "{algorithm}, trial {trial}");
            assert!(answers.iter().all(|answer| answer.degraded == 0));
        }
    }
}

#[test]
fn a_limit_of_one_admits_exactly_one() {
    let server = RedisServer::start().unwrap();
    let mut workers = Workers::start(&server, "log", 1, HOUR_MS);
    for trial in 0..300 {
        let answers = workers.hammer(&trial.to_string(), 4);
        assert_eq!(admitted(&answers), 1, "trial {trial}");
    }
}

// The server does not have the script, and the text is sent: the count shows whether exactly one of
// the calls counted.
#[test]
fn a_server_that_forgets_its_scripts_counts_once() {
    let server = RedisServer::start().unwrap();
    let mut workers = Workers::start(&server, "log", 100, HOUR_MS);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connection().unwrap();
            while !done.load(Ordering::Relaxed) {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).unwrap();
                // The server determines when a millisecond is over.
                redis::cmd("BLPOP").arg("absent").arg("0.001").exec(&mut connection).unwrap();
            }
        });
        let end = EndsLoop(&done);
        for trial in 0..150 {
            let answers = workers.hammer(&trial.to_string(), 16);
            assert_eq!(admitted(&answers), 100, "trial {trial}");
            assert!(answers.iter().all(|answer| answer.degraded == 0), "trial {trial}");
        }
        drop(end);
    });
    let answers = workers.hammer("the end", 1);
    let sent: u64 = answers.iter().map(|answer| answer.scripts_sent).sum();
    assert!(sent > 2 * PROCESSES as u64, "scripts were sent {sent} times");
}

// Also when the test fails, because the scope would wait for its thread forever.
struct EndsLoop<'a>(&'a AtomicBool);

impl Drop for EndsLoop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_window_of_the_servers_time_exceeds_the_limit() {
    const LIMIT: u64 = 20;
    const WINDOW_MS: u64 = 300;
    let server = RedisServer::start().unwrap();
    for algorithm in ["log", "segments"] {
        let mut workers = Workers::start(&server, algorithm, LIMIT, WINDOW_MS);
        let mut ticks = Vec::new();
        poll_for(2 * PATIENCE, "a dozen windows to pass", || {
            let answers = workers.hammer(&format!("hot {algorithm}"), 10);
            ticks.extend(answers.into_iter().flat_map(|answer| answer.ticks));
            let (first, last) = (ticks.iter().min(), ticks.iter().max());
            let passed = first.zip(last).map_or(0, |(first, last)| last - first);
            Ok((passed > 12 * WINDOW_MS).then_some(()))
        })
        .unwrap();
        ticks.sort_unstable();
        println!("{algorithm}: {} units over {WINDOW_MS} ms windows", ticks.len());
        assert!(ticks.len() as u64 > 3 * LIMIT, "it did not go on after the first windows");
        // A tick is recorded rounded up and the current time is rounded down, so this holds for
        // ticks.
        let admissions: Vec<(u64, u64)> = ticks.iter().map(|tick| (*tick, 1)).collect();
        let violation = never_over(&admissions, LIMIT, WINDOW_MS);
        assert!(violation.is_none(), "{algorithm}: {violation:?}");
    }
}

/// Processes that check keys on command.
struct Workers(Vec<Worker>);

struct Worker {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// The results of one process.
struct Answer {
    scripts_sent: u64,
    degraded: u64,
    /// When each admitted unit was recorded, on the server's clock.
    ticks: Vec<u64>,
}

impl Answer {
    /// Parses the output of `check_many`.
    fn read(text: &str) -> Self {
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().unwrap());
        let (scripts_sent, degraded) = (numbers.next().unwrap(), numbers.next().unwrap());
        Self { scripts_sent, degraded, ticks: numbers.collect() }
    }
}

fn admitted(answers: &[Answer]) -> usize {
    answers.iter().map(|answer| answer.ticks.len()).sum()
}

impl Workers {
    fn start(server: &RedisServer, algorithm: &str, limit: u64, window_ms: u64) -> Self {
        let start = |number: usize| {
            let mut process = Command::new(env::current_exe().unwrap())
                .args(["--exact", "worker", "--nocapture"])
                .env("WORKER_URL", server.url())
                .env("WORKER_ALGORITHM", algorithm)
                .env("WORKER_LIMIT", limit.to_string())
                .env("WORKER_WINDOW_MS", window_ms.to_string())
                // Half of them call the server for every denial.
                .env("WORKER_DENY_CACHE", if number.is_multiple_of(2) { "0" } else { "1024" })
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let input = process.stdin.take().unwrap();
            let output = BufReader::new(process.stdout.take().unwrap()).lines();
            Worker { process, input, output }
        };
        let mut workers = Self((0..PROCESSES).map(start).collect());
        // A worker that has replied once is connected.
        workers.hammer("warm up", 1);
        workers
    }

    /// Lets all of them check a key `count` times at the same time.
    fn hammer(&mut self, key: &str, count: usize) -> Vec<Answer> {
        for worker in &mut self.0 {
            writeln!(worker.input, "{count} {key}").unwrap();
        }
        self.0.iter_mut().map(Worker::answer).collect()
    }
}

impl Worker {
    /// Reads a result. Test harnesses print to the same place.
    fn answer(&mut self) -> Answer {
        let mut lines = self.output.by_ref().map(Result::unwrap);
        let text = lines.find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned())).unwrap();
        Answer::read(&text)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It would end anyway, because there is nothing more to read.
        let _ = (self.process.kill(), self.process.wait());
    }
}

const ANSWER: &str = "answer: ";

// Alone, it runs the tasks of one process; the tests above start it repeatedly as processes.
#[test]
fn worker() {
    if env::var("WORKER_URL").is_ok() {
        return serve();
    }
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = Arc::new(redis.limiter(policy("api", 100, HOUR_MS)).build().unwrap());
    runtime().block_on(async {
        for trial in 0..50 {
            let answer = check_many(&limiter, &trial.to_string(), 128).await;
            assert_eq!(Answer::read(&answer).ticks.len(), 100, "trial {trial}");
        }
    });
}

fn serve() {
    let setting = |name: &str| env::var(name).unwrap();
    let number = |name: &str| setting(name).parse::<u64>().unwrap();
    let name = setting("WORKER_ALGORITHM");
    let algorithm = match name.as_str() {
        "segments" => Algorithm::Segments { count: 10 },
        "capped" => Algorithm::LogCapped { bytes_max: 64 },
        _ => Algorithm::Log,
    };
    let window = Duration::from_millis(number("WORKER_WINDOW_MS"));
    let quota = Quota::new(number("WORKER_LIMIT"), window).unwrap();
    let policy = Policy::builder(&name).quota(quota).algorithm(algorithm).build().unwrap();
    let redis = patient(&setting("WORKER_URL")).build().unwrap();
    let deny_keys = usize::try_from(number("WORKER_DENY_CACHE")).unwrap();
    let limiter = Arc::new(redis.limiter(policy).deny_cache(deny_keys).build().unwrap());
    let mut output = io::stdout();
    runtime().block_on(async {
        for line in io::stdin().lines().map(Result::unwrap) {
            let (count, key) = line.split_once(' ').unwrap();
            let answer = check_many(&limiter, key, count.parse().unwrap()).await;
            writeln!(output, "{ANSWER}{answer}").unwrap();
        }
    });
}

/// Checks a key `count` times at once, and prints the results.
async fn check_many(limiter: &Arc<RedisLimiter>, key: &str, count: usize) -> String {
    let mut checks = JoinSet::new();
    for _ in 0..count {
        let (limiter, key) = (Arc::clone(limiter), key.to_owned());
        checks.spawn(async move { limiter.check(key).await });
    }
    let decisions = checks.join_all().await;
    let stats = limiter.stats();
    let mut numbers = vec![stats.scripts_sent, stats.degraded];
    let receipts = decisions.iter().filter_map(|decision| decision.receipt());
    numbers.extend(receipts.map(slidegate::Receipt::tick));
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}
