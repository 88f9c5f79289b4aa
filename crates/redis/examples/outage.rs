//! Redis hangs under load and recovers.
//!
//! Every request is decided within the deadline: by Redis while it replies, and by a limiter in
//! this process while it does not.
//!
//! ```sh
//! cargo run -p slidegate-redis --example outage
//! ```

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::error::Error;
use std::time::Duration;

use slidegate::{FailureMode, Policy, Quota};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::RedisServer;
use tokio::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut server = RedisServer::start()?;
    let policy = Policy::builder("example")
        .quota(Quota::per_second(100))
        .failure_mode(FailureMode::Local)
        .build()?;
    let redis = Redis::single(&server.url())?.build()?;
    // Two processes share the limit, so each may allow half of it alone.
    let limiter = redis.limiter(policy).nodes(2).build()?;

    println!(
        "The limit is 100 requests per second for two processes. This one sends 200 per second.\n"
    );
    println!("  until  allowed  denied  degraded  slowest  breaker");
    let began = Instant::now();
    for step in 1..=16 {
        let line = load(&limiter, Duration::from_millis(250)).await;
        let at = began.elapsed().as_secs_f64();
        println!("{at:5.2} s  {line}  {:?}", limiter.stats().breaker);
        match step {
            4 => {
                println!("         Redis hangs: this process allows half of the limit");
                server.suspend()?;
            }
            8 => {
                println!(
                    "         Redis replies again: for one second, both have to allow a request"
                );
                server.resume()?;
            }
            _ => {}
        }
    }
    let stats = limiter.stats();
    println!(
        "\n{} decisions, {} of them degraded; {} of these may have been counted in Redis too",
        stats.decisions, stats.degraded, stats.unknown
    );
    Ok(())
}

/// Sends 200 requests per second for a while.
async fn load(limiter: &RedisLimiter, time: Duration) -> String {
    let mut requests = tokio::time::interval(Duration::from_millis(5));
    let end = Instant::now() + time;
    let (mut allowed, mut denied, mut degraded) = (0, 0, 0);
    let mut slowest = Duration::ZERO;
    while requests.tick().await < end {
        let asked = Instant::now();
        let decision = limiter.check("all").await;
        slowest = slowest.max(asked.elapsed());
        allowed += u32::from(decision.is_allowed());
        denied += u32::from(!decision.is_allowed());
        degraded += u32::from(decision.is_degraded());
    }
    format!("{allowed:7}  {denied:6}  {degraded:8}  {:4} ms", slowest.as_millis())
}
