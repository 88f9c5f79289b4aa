//! The metrics of everything that is in force.

use std::collections::HashSet;

use slidegate::Stats;
use slidegate_redis::{BreakerState, RedisStats};

use super::page::Kind::{Counter, Gauge, Histogram};
use super::{AdminState, Page};
use crate::engine::{BOUNDS, Counts, Plan, Pool};
use crate::http::Connections;

/// The whole page.
pub(super) fn write(state: &AdminState) -> String {
    let plan = state.engine.plan();
    let mut page = Page::new();
    write_build(&mut page, state);
    write_limits(&mut page, &plan);
    write_memory(&mut page, &plan);
    write_redis(&mut page, &plan);
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

/// Every limit once: in a domain, several may go by one name, and then share their counts.
fn write_limits(page: &mut Page, plan: &Plan) {
    let mut seen = HashSet::new();
    let limits: Vec<(&str, &Counts)> = plan
        .limits()
        .iter()
        .map(|limit| (limit.name(), limit.counts()))
        .filter(|(name, _)| seen.insert(*name))
        .collect();
    page.family("rate_limit_requests_total", Counter, "Requests judged.");
    for (policy, counts) in &limits {
        for (outcome, count) in [
            ("allowed", &counts.allowed),
            ("denied", &counts.denied),
            ("denied_by_other", &counts.denied_by_other),
            ("shadow_denied", &counts.shadow_denied),
            ("off", &counts.off),
        ] {
            page.sample(&[("policy", policy), ("outcome", outcome)], count.get());
        }
    }
    let mut each = |name, help, get: fn(&Counts) -> u64| {
        page.family(name, Counter, help);
        for (policy, counts) in &limits {
            page.sample(&[("policy", policy)], get(counts));
        }
    };
    each("rate_limit_rejected_total", "Requests turned away.", |counts| counts.denied.get());
    each("rate_limit_degraded_total", "Answers by the failure mode.", |counts| {
        counts.degraded.get()
    });
    each("rate_limit_candidate_denied_total", "What candidates would have denied.", |counts| {
        counts.candidate_denied.get()
    });
    page.family("rate_limit_decision_seconds", Histogram, "Time to decide.");
    for (policy, counts) in &limits {
        let time = &counts.time;
        page.histogram(&[("policy", policy)], &BOUNDS, &time.cumulative(), time.sum());
    }
}

/// The labels of a pool.
type Labels<'a> = [(&'a str, &'a str); 3];

/// Each pool once, with its labels.
fn pools<'a, T>(plan: &'a Plan, pick: impl Fn(&'a Pool) -> Option<T>) -> Vec<(Labels<'a>, T)> {
    let mut found: Vec<(Labels<'a>, T)> = Vec::new();
    for (id, pool) in plan.pools() {
        let labels = [
            ("store", id.store.as_str()),
            ("pool", id.name.as_str()),
            ("algorithm", id.algorithm.as_str()),
        ];
        if let Some(picked) = pick(pool)
            && !found.iter().any(|(other, _)| *other == labels)
        {
            found.push((labels, picked));
        }
    }
    found
}

fn write_memory(page: &mut Page, plan: &Plan) {
    let pools = pools(plan, |pool| match pool {
        Pool::Memory(limiter) => Some(limiter.stats()),
        Pool::Redis(_) => None,
    });
    let mut each = |name, kind, help, get: fn(&Stats) -> u64| {
        page.family(name, kind, help);
        for (labels, stats) in &pools {
            page.sample(labels, get(stats));
        }
    };
    each("rate_limit_keys", Gauge, "Keys in memory.", |stats| stats.keys);
    each("rate_limit_memory_bytes", Gauge, "Bytes of state, logs included.", |stats| {
        stats.bytes as u64
    });
    each("rate_limit_memory_limit_bytes", Gauge, "Bytes of state there may be.", |stats| {
        stats.memory_limit as u64
    });
    each("rate_limit_evictions_total", Counter, "Keys moved out to make room.", |stats| {
        stats.evictions
    });
    each("rate_limit_overflowed_total", Counter, "Requests that found no room.", |stats| {
        stats.overflowed
    });
    each("rate_limit_swept_total", Counter, "Keys dropped because they had passed.", |stats| {
        stats.swept
    });
    each("rate_limit_waiters", Gauge, "Callers that wait in line.", |stats| stats.waiters as u64);
    page.family("rate_limit_memory_used_ratio", Gauge, "The share of the memory that is used.");
    for (labels, stats) in &pools {
        page.ratio(labels, stats.bytes as u64, stats.memory_limit as u64);
    }
    page.family("rate_limit_lock_hold_longest_seconds", Gauge, "The longest that a lock was held.");
    for (labels, stats) in &pools {
        page.seconds(labels, stats.longest_hold);
    }
}

fn write_redis(page: &mut Page, plan: &Plan) {
    let pools = pools(plan, |pool| match pool {
        Pool::Redis(limiter) => Some(limiter.stats()),
        Pool::Memory(_) => None,
    });
    let mut each = |name, help, get: fn(&RedisStats) -> u64| {
        page.family(name, Counter, help);
        for (labels, stats) in &pools {
            page.sample(labels, get(stats));
        }
    };
    each("rate_limit_redis_decisions_total", "Checks decided.", |stats| stats.decisions);
    each("rate_limit_redis_deny_cache_total", "Denials repeated from memory.", |stats| {
        stats.denied_here
    });
    each("rate_limit_redis_leased_total", "Checks that a lease allowed.", |stats| {
        stats.leased_here
    });
    each("rate_limit_redis_degraded_total", "Checks that the failure mode answered.", |stats| {
        stats.degraded
    });
    each("rate_limit_redis_unknown_total", "Of these, perhaps counted.", |stats| stats.unknown);
    each("rate_limit_redis_leases_total", "Leases taken.", |stats| stats.leases);
    each("rate_limit_redis_lease_units_returned_total", "Leased units that went back.", |stats| {
        stats.lease_units_returned
    });
    each("rate_limit_redis_lease_units_lost_total", "Leased units that could not.", |stats| {
        stats.lease_units_lost
    });
    write_servers(page, &pools);
}

/// What all policies of a store share is told once for each store.
fn write_servers(page: &mut Page, pools: &[(Labels<'_>, RedisStats)]) {
    let mut seen = HashSet::new();
    let stores: Vec<(&str, &RedisStats)> = pools
        .iter()
        .map(|([(_, store), ..], stats)| (*store, stats))
        .filter(|(store, _)| seen.insert(*store))
        .collect();
    let mut each = |name, kind, help, get: fn(&RedisStats) -> u64| {
        page.family(name, kind, help);
        for (store, stats) in &stores {
            page.sample(&[("store", store)], get(stats));
        }
    };
    each("rate_limit_redis_breaker_state", Gauge, "0 closed, 1 half-open, 2 open.", |stats| {
        match stats.breaker {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        }
    });
    each("rate_limit_redis_breaker_opened_total", Counter, "Times a breaker opened.", |stats| {
        stats.breaker_opened
    });
    each("rate_limit_redis_calls_total", Counter, "Commands sent.", |stats| stats.calls);
    each("rate_limit_redis_timeouts_total", Counter, "Commands not answered in time.", |stats| {
        stats.timeouts
    });
    each("rate_limit_redis_errors_total", Counter, "Connections that broke.", |stats| stats.errors);
    each("rate_limit_redis_crowded_total", Counter, "Calls not made for want of room.", |stats| {
        stats.crowded
    });
    each("rate_limit_redis_connections_total", Counter, "Connections made.", |stats| {
        stats.connections
    });
    each("rate_limit_redis_clock_steps_total", Counter, "Jumps of a server's clock.", |stats| {
        stats.clock_steps
    });
    each("rate_limit_redis_scripts_sent_total", Counter, "Scripts sent as text.", |stats| {
        stats.scripts_sent
    });
    each("rate_limit_redis_redirects_total", Counter, "Redirections by a cluster.", |stats| {
        stats.redirects
    });
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
