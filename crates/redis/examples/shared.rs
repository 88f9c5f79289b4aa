//! Two processes share one limit.
//!
//! ```sh
//! cargo run -p slidegate-redis --example shared
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p slidegate-redis --example shared
//! ```

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use slidegate::{Policy, Quota};
use slidegate_redis::Redis;
use slidegate_testkit::server::RedisServer;

/// The limit per minute of both processes together.
const LIMIT: u32 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, name, url] = arguments.as_slice() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(ask(name, url));
    }
    // An existing server, or one that the example starts.
    let own = std::env::var("REDIS_URL").ok();
    let server = if own.is_none() { Some(RedisServer::start()?) } else { None };
    let url = own.or_else(|| server.as_ref().map(RedisServer::url)).unwrap_or_default();

    println!("Two processes with {LIMIT} requests per minute together send 8 each:\n");
    let (lines, printed) = mpsc::channel();
    for name in ["one", "two"] {
        start(name, &url, lines.clone())?;
    }
    drop(lines);
    let mut allowed = 0;
    // In order of arrival, until both have ended.
    for line in printed {
        allowed += u32::from(line.contains("allowed"));
        println!("  {line}");
    }
    println!("\n{allowed} allowed in all");
    Ok(())
}

/// Runs this example again as one of the two processes, and sends its output to `lines`.
fn start(name: &str, url: &str, lines: Sender<String>) -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).args([name, url]).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("a child without output")?;
    thread::spawn(move || {
        let printed = BufReader::new(output).lines().map_while(Result::ok);
        // The receiver is dropped only when the example ends.
        let _ = printed.map(|line| lines.send(line)).all(|sent| sent.is_ok());
        child.wait()
    });
    Ok(())
}

async fn ask(name: &str, url: &str) -> Result<(), Box<dyn Error>> {
    let redis = Redis::single(url)?.deadline(Duration::from_millis(500)).build()?;
    let policy = Policy::new("example", Quota::per_minute(LIMIT))?;
    let limiter = redis.limiter(policy).build()?;
    // A separate key for each run.
    let key = format!("run-{}", std::os::unix::process::parent_id());
    for _ in 0..8 {
        let decision = limiter.check(&key).await;
        let answer = if decision.is_allowed() { "allowed" } else { "denied" };
        println!("process {name}: {answer:7} {:2} left", decision.remaining());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
