//! Counters of a limiter on Redis.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use slidegate::DegradedReason;

use crate::local::LocalFallback;
use crate::servers::{BreakerState, Servers};

/// Counters of one limiter.
#[derive(Debug, Default)]
pub(super) struct LimiterCounts {
    /// Checks that the deny cache answered at first: one counter, because that path is fast.
    pub(super) denied_at_once: AtomicU64,
    /// Checks that the deny cache did not answer at first.
    pub(super) not_cached: AtomicU64,
    /// Of these, those that the deny cache answered while they waited for a lease.
    pub(super) denied_later: AtomicU64,
    pub(super) leased_here: AtomicU64,
    pub(super) degraded: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) leases: AtomicU64,
    pub(super) returned: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) lost_keys: AtomicU64,
}

/// What has happened so far, to one limiter and to the servers it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Checks decided, in whatever way.
    pub decisions: u64,
    /// Denials repeated from the deny cache.
    pub denied_here: u64,
    /// Checks that a lease allowed.
    pub leased_here: u64,
    /// Checks that the failure mode answered.
    pub degraded: u64,
    /// Of these, checks of which it is not known whether Redis counted them.
    pub unknown: u64,
    /// Leases taken.
    pub leases: u64,
    /// Units of leases that went back unused.
    pub lease_units_returned: u64,
    /// Units of leases that could not be given back, or that Redis may have granted in an answer
    /// that never came; they count until their window has passed.
    pub lease_units_lost: u64,
    /// Keys that Redis had lost: denied a moment ago, and empty before their units could expire.
    /// They were evicted or flushed, or a failover lost them. A key that another process resets, or
    /// refunds to the last unit, looks the same. Only keys in the deny cache are noticed.
    pub lost_keys: u64,
    /// Units that the local fallback admitted and that Redis was charged with afterwards.
    pub local_units_reported: u64,
    /// Units that the local fallback admitted and that Redis was not charged with: their window had
    /// passed, the reply to the charge was lost, or there was no room to remember them.
    pub local_units_unreported: u64,
    /// Callers of this process that wait for units.
    pub waiters: usize,
    /// The worst breaker of all servers.
    pub breaker: BreakerState,
    /// Commands sent to the servers.
    pub calls: u64,
    /// Commands that were not answered in time.
    pub timeouts: u64,
    /// Connections that broke, and servers that turned out not to be primaries.
    pub errors: u64,
    /// Calls not made because too many were in flight.
    pub crowded: u64,
    /// Connections made.
    pub connections: u64,
    /// Times a breaker opened.
    pub breaker_opened: u64,
    /// Steps of a server's clock beyond [`RedisBuilder::clock_step`](crate::RedisBuilder::clock_step).
    /// Each opens a breaker.
    pub clock_steps: u64,
    /// Steps of a server's clock of 5 ms and more that are within that tolerance. Steps shorter than
    /// the round trips before and after them are not noticed.
    pub small_clock_steps: u64,
    /// The largest of the small steps. It may be too small by two round trips.
    pub small_clock_step_max: Duration,
    /// Times a script had to be sent as text.
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

    /// Returns the calls and connections that failed for a reason. Calls that an open breaker
    /// stopped are not counted again.
    pub fn failures(&self, reason: DegradedReason) -> u64 {
        self.failures[reason as usize]
    }
}
