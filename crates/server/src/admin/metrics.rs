//! The metrics page of the daemon.

use std::sync::Arc;

use slidegate_gate::Kind::{Counter, Gauge};
use slidegate_gate::{Count, Page, write_process};

use super::AdminState;
use crate::http::Connections;
use crate::http::error::ApiError;

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
pub(super) async fn page(state: &AdminState) -> Result<String, ApiError> {
    let AdminState { engine, listeners, reloads, sources, .. } = state;
    let (gates, reloads) = (Arc::clone(engine.metrics()), Arc::clone(reloads));
    let (listeners, sources) = (listeners.clone(), sources.clone());
    let write = move || {
        let mut page = Page::new();
        write_build(&mut page, &reloads);
        write_process(&mut page);
        gates.write(&mut page);
        write_listeners(&mut page, &listeners);
        for source in sources {
            source(&mut page);
        }
        page.finish()
    };
    state.write_page(write).await
}

fn write_build(page: &mut Page, reloads: &ResultCounts) {
    page.family("slidegate_build_info", Gauge, "The version of the daemon.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    reloads.write(page);
}

fn write_listeners(page: &mut Page, listeners: &[Arc<Connections>]) {
    let mut each = |name, kind, help, get: fn(&Connections) -> u64| {
        page.family(name, kind, help);
        for connections in listeners {
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
        "Connections refused because a maximum was open.",
        |all| all.refused.get(),
    );
    each(
        "slidegate_connections_evicted_total",
        Counter,
        "Idle connections closed to accept a new one.",
        |all| all.evicted.get(),
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
