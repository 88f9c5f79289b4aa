//! `redis sweep`: looks for keys in Redis that no configured policy uses.

use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use serde_json::json;
use slidegate_redis::{SweepOptions, SweepReport};

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
    let options =
        SweepOptions::default().remove(arguments.remove).keys_per_second(arguments.keys_per_second);
    let show = io::stderr().is_terminal();
    let mut shown = now();
    let progress = |report: &SweepReport| {
        if show && shown.elapsed() >= PROGRESS_EVERY {
            shown = now();
            let SweepReport { keys, orphans, .. } = report;
            let _ = write!(io::stderr(), "\r{}: {keys} keys, {orphans} orphans", store.name);
        }
    };
    let report = store.redis.sweep_with(&store.policies, options, progress).await;
    if show {
        // The line of the progress is cleared.
        let _ = write!(io::stderr(), "\r\x1b[2K");
    }
    let report = report.map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    let written = if arguments.json {
        write_json(&mut out, store, &report)
    } else {
        write_text(&mut out, store, &report, arguments.remove)
    };
    Ok(super::config::written(written, exit::OK))
}

fn write_json(out: &mut impl Write, store: &RedisStore, report: &SweepReport) -> io::Result<()> {
    let report = json!({
        "store": store.name,
        "keys": report.keys,
        "orphans": report.orphans,
        "removed": report.removed,
        "without_ttl": report.without_ttl,
        "orphans_by_policy": report.orphans_by_policy,
    });
    writeln!(out, "{report}")
}

fn write_text(
    out: &mut impl Write,
    store: &RedisStore,
    report: &SweepReport,
    remove: bool,
) -> io::Result<()> {
    let SweepReport { keys, orphans, removed, without_ttl, .. } = report;
    let name = &store.name;
    writeln!(out, "{name}: {keys} keys, {orphans} of policies that are not configured")?;
    for (policy, count) in &report.orphans_by_policy {
        writeln!(out, "  {policy}: {count}")?;
    }
    if *without_ttl > 0 {
        writeln!(out, "  {without_ttl} keys never expire: another program has removed their TTL")?;
    }
    match (remove, orphans) {
        (true, _) => writeln!(out, "  removed: {removed}"),
        (false, 0) => Ok(()),
        (false, _) => writeln!(out, "  nothing was removed: --remove removes them"),
    }
}

#[expect(clippy::disallowed_methods, reason = "how often progress is shown")]
fn now() -> Instant {
    Instant::now()
}
