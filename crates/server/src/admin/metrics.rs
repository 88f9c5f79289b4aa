//! The metrics of everything that is in force.

use slidegate_gate::Kind::{Counter, Gauge};
use slidegate_gate::{Page, write_process};

use super::AdminState;
use crate::http::Connections;

/// The whole page.
pub(super) fn write(state: &AdminState) -> String {
    let mut page = Page::new();
    write_build(&mut page, state);
    write_process(&mut page);
    state.engine.metrics().write(&mut page);
    write_stores(&mut page, state);
    write_listeners(&mut page, state);
    for source in &state.sources {
        source(&mut page);
    }
    page.finish()
}

fn write_build(page: &mut Page, state: &AdminState) {
    page.family("slidegate_build_info", Gauge, "The version that runs.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("slidegate_config_reloads_total", Counter, "Configurations read again.");
    page.sample(&[("result", "ok")], state.reloads.ok());
    page.sample(&[("result", "failed")], state.reloads.failed());
}

fn write_stores(page: &mut Page, state: &AdminState) {
    let known = state.stores.known();
    for (name, kind, help, get) in [
        (
            "rate_limit_store_memory_bytes",
            Gauge,
            "Bytes that the servers of a store use.",
            (|usage| usage.bytes) as fn(&slidegate_redis::StoreUsage) -> u64,
        ),
        (
            "rate_limit_store_memory_limit_bytes",
            Gauge,
            "Bytes that they may use; 0 without a bound.",
            |usage| usage.bytes_max,
        ),
        ("rate_limit_store_keys", Gauge, "Keys on the servers of a store.", |usage| usage.keys),
        ("rate_limit_store_evicted_total", Counter, "Keys that the servers threw out.", |usage| {
            usage.evicted
        }),
    ] {
        page.family(name, kind, help);
        for (store, usage) in &known {
            page.sample(&[("store", store)], get(usage));
        }
    }
}

fn write_listeners(page: &mut Page, state: &AdminState) {
    let mut each = |name, kind, help, get: fn(&Connections) -> u64| {
        page.family(name, kind, help);
        for (listener, connections) in &state.listeners {
            page.sample(&[("listener", listener)], get(connections));
        }
    };
    each("slidegate_connections_open", Gauge, "Connections there are.", |all| all.open() as u64);
    each("slidegate_connections_total", Counter, "Connections accepted.", Connections::accepted);
    each("slidegate_connections_refused_total", Counter, "Connections too many.", |all| {
        all.refused()
    });
    each("slidegate_connections_cut_total", Counter, "Connections too slow.", Connections::cut);
    each("slidegate_panics_total", Counter, "Requests that met a panic.", Connections::panics);
}
