//! The metrics page of the daemon.

use slidegate_gate::Kind::{Counter, Gauge};
use slidegate_gate::{Count, Page, write_process};

use super::AdminState;
use crate::http::Connections;

/// Counts results of an operation: one metric family with the label `result`.
#[derive(Debug)]
pub struct ResultCounts {
    name: &'static str,
    help: &'static str,
    counts: Vec<(&'static str, Count)>,
}

impl ResultCounts {
    /// Creates counters for these results.
    pub fn new(name: &'static str, help: &'static str, results: &[&'static str]) -> Self {
        let counts = results.iter().map(|result| (*result, Count::default())).collect();
        Self { name, help, counts }
    }

    /// Adds to the count of a result.
    pub fn add(&self, result: &str, by: u64) {
        if let Some((_, count)) = self.counts.iter().find(|(name, _)| *name == result) {
            count.add(by);
        }
    }

    /// Returns the count of a result.
    pub fn get(&self, result: &str) -> u64 {
        let found = self.counts.iter().find(|(name, _)| *name == result);
        found.map_or(0, |(_, count)| count.get())
    }

    /// Adds one to the count of `ok` or `failed`.
    pub fn note<T, E>(&self, result: &Result<T, E>) {
        self.add(if result.is_ok() { "ok" } else { "failed" }, 1);
    }

    /// Adds the counts to a page.
    pub fn write(&self, page: &mut Page) {
        page.family(self.name, Counter, self.help);
        for (result, count) in &self.counts {
            page.sample(&[("result", result)], count.get());
        }
    }
}

/// Returns the whole page.
pub(super) fn write(state: &AdminState) -> String {
    let mut page = Page::new();
    write_build(&mut page, state);
    write_process(&mut page);
    state.engine.metrics().write(&mut page);
    write_listeners(&mut page, state);
    for source in &state.sources {
        source(&mut page);
    }
    page.finish()
}

fn write_build(page: &mut Page, state: &AdminState) {
    page.family("slidegate_build_info", Gauge, "The version of the daemon.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    state.reloads.write(page);
}

fn write_listeners(page: &mut Page, state: &AdminState) {
    let mut each = |name, kind, help, get: fn(&Connections) -> u64| {
        page.family(name, kind, help);
        for connections in &state.listeners {
            page.sample(&[("listener", connections.name())], get(connections));
        }
    };
    each("slidegate_connections_open", Gauge, "Open connections.", |all| all.open() as u64);
    each("slidegate_connections_max", Gauge, "Maximum number of open connections.", |all| {
        all.max() as u64
    });
    each("slidegate_connections_total", Counter, "Connections accepted.", |all| all.accepted.get());
    each(
        "slidegate_connections_refused_total",
        Counter,
        "Connections refused because the maximum was open.",
        |all| all.refused.get(),
    );
    each(
        "slidegate_connections_failed_total",
        Counter,
        "Connections that could not be accepted, for example for lack of file descriptors.",
        |all| all.failed.get(),
    );
    each(
        "slidegate_connections_cut_total",
        Counter,
        "Connections closed because the client was too slow or flooded the listener.",
        |all| all.cut.get(),
    );
    each("slidegate_panics_total", Counter, "Requests whose handler panicked.", |all| {
        all.panics.get()
    });
}
