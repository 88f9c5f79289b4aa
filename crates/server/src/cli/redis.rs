//! `redis sweep`: repairs keys in Redis without a TTL, and counts those that no configured policy uses.

use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use serde_json::json;
use slidegate_redis::SweepReport;

use super::arguments::SweepArguments;
use super::{exit, failed, load};
use crate::engine::{Engine, RedisStore};
use crate::gates::NoRestore;

/// How often progress is shown on a terminal.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

pub(super) fn sweep(arguments: &SweepArguments) -> u8 {
    let loaded = match load(&arguments.load) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error, exit::FAILED),
    };
    runtime.block_on(async {
        let engine = match Engine::new(&loaded.spec, &mut NoRestore) {
            Ok(engine) => engine,
            Err(error) => return failed(&error, exit::FAILED),
        };
        let mut stores = engine.redis_stores();
        if stores.is_empty() {
            let error = "no policy or domain of this configuration is in Redis: name the files with \
                         --config";
            return failed(&error, exit::CONFIG);
        }
        if let Some(name) = &arguments.store {
            let known: Vec<String> = stores.iter().map(|store| store.name.clone()).collect();
            stores.retain(|store| store.name == *name);
            if stores.is_empty() {
                let error = format!("there is no store {name:?}: use one of {}", known.join(", "));
                return failed(&error, exit::USAGE);
            }
        }
        for store in &stores {
            match sweep_store(store, arguments).await {
                Ok(exit::OK) => {}
                Ok(code) => return code,
                Err(error) => {
                    return failed(&format!("store {:?}: {error}", store.name), exit::UNAVAILABLE);
                }
            }
        }
        exit::OK
    })
}

/// Sweeps a store and prints the report. Returns the exit code, or the error of the store.
async fn sweep_store(store: &RedisStore, arguments: &SweepArguments) -> Result<u8, String> {
    let show = io::stderr().is_terminal();
    let mut shown = now();
    let progress = |report: &SweepReport| {
        if show && shown.elapsed() >= PROGRESS_EVERY {
            shown = now();
            let SweepReport { keys, unknown, .. } = report;
            let _ = write!(io::stderr(), "\r{}: {keys} keys, {unknown} unknown", store.name);
        }
    };
    let report = store.redis.sweep(&store.policies, arguments.keys_per_second, progress).await;
    if show {
        // The line of the progress is cleared.
        let _ = write!(io::stderr(), "\r\x1b[2K");
    }
    let report = report.map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    let written = if arguments.json {
        write_json(&mut out, store, &report)
    } else {
        write_text(&mut out, store, &report)
    };
    Ok(super::config::written(written, exit::OK))
}

fn write_json(out: &mut impl Write, store: &RedisStore, report: &SweepReport) -> io::Result<()> {
    let report = json!({
        "store": store.name,
        "keys": report.keys,
        "unknown": report.unknown,
        "repaired": report.repaired,
        "removed": report.removed,
        "foreign": report.foreign,
        "unknown_by_policy": report.unknown_by_policy,
    });
    writeln!(out, "{report}")
}

fn write_text(out: &mut impl Write, store: &RedisStore, report: &SweepReport) -> io::Result<()> {
    let SweepReport { keys, unknown, repaired, removed, foreign, .. } = report;
    let name = &store.name;
    writeln!(out, "{name}: {keys} keys, {unknown} of policies that are not configured")?;
    for (policy, count) in &report.unknown_by_policy {
        writeln!(out, "  {policy}: {count}")?;
    }
    let without_ttl = [
        (repaired, "keys without a TTL got one"),
        (removed, "keys without a TTL had expired and were removed"),
        (foreign, "keys without a TTL hold data of another program and were kept"),
    ];
    for (count, words) in without_ttl.into_iter().filter(|(count, _)| **count > 0) {
        writeln!(out, "  {count} {words}")?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how often progress is shown")]
fn now() -> Instant {
    Instant::now()
}
