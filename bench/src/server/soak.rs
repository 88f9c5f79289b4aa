//! A steady load for a long time: does memory stay where it is?

use core::time::Duration;
use std::process::ExitCode;

use super::load_client::LoadClient;
use super::open;
use super::process::Wrapper;
use super::program::Programs;
use super::subject::ServerKind;
use super::workload::Protocol;
use crate::Failure;
use crate::clock;
use crate::json::JsonLine;
use crate::options::Options;
use crate::progress;
use crate::rounding::to_float;

/// Requests per second, over HTTP and the Redis protocol in turn.
const RATE: u32 = 4000;

/// The interval between two memory samples.
const STEP: Duration = Duration::from_secs(10);

/// After a window, which is a minute, tables are full; after another one what has expired is swept as
/// fast as new keys come.
const SETTLED: Duration = Duration::from_secs(120);

/// The maximum growth.
const GROWTH_MAX: f64 = 0.05;

/// Runs for `minutes`. Returns a failing exit code if memory grew.
pub(crate) fn run(options: &Options, minutes: u64) -> Result<ExitCode, Failure> {
    if minutes < 3 {
        return Err("a soak takes at least 3 minutes: the first two do not count".into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(soak(options, Duration::from_secs(minutes * 60)))
}

async fn soak(options: &Options, time: Duration) -> Result<ExitCode, Failure> {
    let programs = Programs::prepare()?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let server = ServerKind::Slidegate.start(&programs, workers, Wrapper::None).await?;
    let (mut settled, mut last) = (None, 0);
    let began = clock::instant();
    while began.elapsed() < time {
        for protocol in [Protocol::Http, Protocol::Resp { pipelined: 1 }] {
            // Opened again each time: closed connections must not leave anything behind.
            let mut lines = LoadClient::open_all(ServerKind::Slidegate, protocol, &server).await?;
            open::lap(&mut lines, RATE, STEP / 2).await?;
        }
        last = server.resident()?;
        let seconds = began.elapsed().as_secs();
        progress::say(&format!("soak: {seconds} s, {:.1} MB resident", megabytes(last)));
        if settled.is_none() && began.elapsed() >= SETTLED {
            settled = Some(last);
        }
    }
    let first = settled.ok_or("the soak ended before its third minute")?;
    let growth = to_float(last) / to_float(first.max(1)) - 1.0;
    if options.json {
        JsonLine::new("soak")
            .whole("seconds", began.elapsed().as_secs())
            .whole("rate", RATE.into())
            .whole("rss_bytes_settled", first)
            .whole("rss_bytes", last)
            .number("growth", Some(growth), 4)
            .print();
    } else {
        println!(
            "{:.1} MB resident after two minutes, {:.1} MB after {} s at {RATE}/s: {:+.1} %",
            megabytes(first),
            megabytes(last),
            began.elapsed().as_secs(),
            growth * 100.0,
        );
    }
    Ok(if growth > GROWTH_MAX { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn megabytes(bytes: u64) -> f64 {
    to_float(bytes) / 1e6
}
