//! Counters of a limiter on Redis.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use slidegate::DegradedReason;

use crate::local::LocalFallback;
use crate::servers::{BreakerState, Servers};

/// Counters of one limiter.
#[derive(Debug, Default)]
pub(super) struct LimiterCounts {
    /// Checks that the deny cache denied immediately: one counter, because that path is fast.
    pub(super) denied_at_once: AtomicU64,
    /// Checks that the deny cache did not deny immediately.
    pub(super) not_cached: AtomicU64,
    /// Of these, those that the deny cache denied while they waited for a lease.
    pub(super) denied_later: AtomicU64,
    pub(super) leased_here: AtomicU64,
    pub(super) degraded: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) leases: AtomicU64,
    pub(super) returned: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) lost_keys: AtomicU64,
}

/// Counters of one limiter and of the servers that it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Checks decided.
    pub decisions: u64,
    /// Denials from the deny cache.
    pub denied_here: u64,
    /// Checks that a lease allowed.
    pub leased_here: u64,
    /// Checks that the failure mode decided.
    pub degraded: u64,
    /// Degraded checks that Redis may have counted.
    pub unknown: u64,
    /// Leases taken.
    pub leases: u64,
    /// Unused units of leases that were refunded.
    pub lease_units_returned: u64,
    /// Units of leases that could not be refunded, or that Redis may have granted in a lost reply.
    /// They count until their window has passed.
    pub lease_units_lost: u64,
    /// Keys that Redis has lost: just denied, and empty before their units could expire. They were
    /// evicted or flushed, or lost in a failover. A key that another process resets, or refunds
    /// completely, looks the same. Only keys in the deny cache are detected.
    pub lost_keys: u64,
    /// Units that the local fallback admitted and that were reported to Redis.
    pub local_units_reported: u64,
    /// Units that the local fallback admitted and that were not reported to Redis: their window had
    /// passed, the reply was lost, or they did not fit into the table.
    pub local_units_unreported: u64,
    /// Callers of this process that wait for units.
    pub waiters: usize,
    /// The worst breaker state of all servers.
    pub breaker: BreakerState,
    /// Commands sent to the servers.
    pub calls: u64,
    /// Commands without a reply in time.
    pub timeouts: u64,
    /// Connections that broke, and servers that were not primaries.
    pub errors: u64,
    /// Calls not made because too many were in flight.
    pub crowded: u64,
    /// Connections opened.
    pub connections: u64,
    /// Times a breaker opened.
    pub breaker_opened: u64,
    /// Steps of a server's clock beyond
    /// [`RedisBuilder::clock_step`](crate::RedisBuilder::clock_step). Each opens a breaker.
    pub clock_steps: u64,
    /// Steps of a server's clock of 5 ms and more within that tolerance. Steps shorter than the
    /// round trips before and after them are not detected.
    pub small_clock_steps: u64,
    /// The largest of the small steps. It may be too small by two round trips.
    pub small_clock_step_max: Duration,
    /// Scripts sent as text.
    pub scripts_sent: u64,
    /// Redirections by a cluster.
    pub redirects: u64,
    /// Failed calls and connections, by the number of their reason.
    failures: [u64; DegradedReason::ALL.len()],
}

impl RedisStats {
    pub(super) fn new(
        counts: &LimiterCounts,
        local: Option<&LocalFallback>,
        servers: &Servers,
    ) -> Self {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let shared = &servers.counts;
        let reports = local.map(|local| &local.reports);
        Self {
            decisions: get(&counts.not_cached) + get(&counts.denied_at_once),
            denied_here: get(&counts.denied_at_once) + get(&counts.denied_later),
            leased_here: get(&counts.leased_here),
            degraded: get(&counts.degraded),
            unknown: get(&counts.unknown),
            leases: get(&counts.leases),
            lease_units_returned: get(&counts.returned),
            lease_units_lost: get(&counts.lost),
            lost_keys: get(&counts.lost_keys),
            local_units_reported: reports.map_or(0, |reports| get(&reports.reported)),
            local_units_unreported: reports.map_or(0, |reports| get(&reports.dropped)),
            waiters: 0,
            breaker: servers.breaker_state(),
            calls: get(&shared.calls),
            timeouts: get(&shared.timeouts),
            errors: get(&shared.errors),
            crowded: get(&shared.crowded),
            connections: get(&shared.connections),
            breaker_opened: get(&shared.breaker_opened),
            clock_steps: get(&shared.clock_steps),
            small_clock_steps: get(&shared.small_clock_steps),
            small_clock_step_max: Duration::from_micros(get(&shared.small_clock_step_max)),
            scripts_sent: get(&shared.scripts_sent),
            redirects: get(&shared.redirects),
            failures: shared.failures(),
        }
    }

    pub(super) fn with_waiters(self, waiters: usize) -> Self {
        Self { waiters, ..self }
    }

    /// Returns the number of calls and connections that failed for a reason. Calls that an open
    /// breaker stopped are not counted again.
    pub fn failures(&self, reason: DegradedReason) -> u64 {
        self.failures[reason as usize]
    }
}
