//! Limits in Redis: the packed log compared with the usual sorted set, a counter and an empty script.
//!
//! Every subject talks to the same server over one multiplexed connection, from the same number
//! of tasks. Rounds are interleaved and ratios are taken within a round.

mod bytes;
mod rate;
mod report;
mod reserve;
mod single;
mod subject;

use slidegate_testkit::server::RedisServer;

use crate::Failure;
use crate::options::Options;
use crate::progress;

/// Tasks that ask at the same time, all in this process.
const TASKS: usize = 64;

/// Runs all workloads against a server of its own.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_all(options))
}

async fn run_all(options: &Options) -> Result<(), Failure> {
    let (rounds, seconds) = if options.quick { (3, 0.3) } else { (7, 1.0) };
    let server = RedisServer::start()?;
    progress::say("redis: single calls on logs of 100, 1000 and 20,000 entries");
    let calls = single::calls(&server, &[100, 1000, 20_000], rounds * 3).await?;
    progress::say("redis: latency of a single check");
    let latency = single::latency(&server, if options.quick { 2000 } else { 20_000 }).await?;
    progress::say("redis: reserve and settle on one key, with checks of other keys");
    let reserved = reserve::measure(&server, if options.quick { 3 } else { 25 }).await?;
    // Before what takes minutes: these rows need a quiet machine.
    report::print_single(options, &calls, &latency, &reserved);
    let mut rates = Vec::new();
    for workload in rate::WORKLOADS {
        progress::say(&format!("redis: {}", workload.name));
        rates.push(rate::measure(&server, workload, rounds, seconds).await?);
    }
    progress::say("redis: memory at 100 and 1000 entries a key, come within a minute");
    let mut bytes = bytes::memory(&server, &[100, 1000]).await?;
    progress::say("redis: replicated bytes");
    bytes.push(bytes::replicated(&server).await?);
    report::print(options, &rates, &bytes);
    Ok(())
}
