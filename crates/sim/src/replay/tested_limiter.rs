//! One algorithm under one policy, and how its decisions compare with the exact ones.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use slidegate::{Algorithm, Error, Limiter, ManualClock, Policy, Quota};

use super::Request;
use super::hits::Hits;
use crate::definition::TickQuota;
use crate::exact::ExactKey;
use crate::keys::KeySlot;
use crate::number::to_float;

/// The memory budget of a simulated limiter: enough that no key has to be evicted in practice.
const MEMORY_LIMIT: usize = 16 << 30;

/// Admissions of the worst window that are kept for a chart.
const ADMITTED_MAX: usize = 500;

/// A limiter that takes part in a replay.
#[derive(Debug)]
pub(super) struct TestedLimiter {
    pub(super) algorithm: Algorithm,
    limiter: Limiter,
    clock: ManualClock,
    /// The decisions of the current batch.
    decided: Vec<TestedDecision>,
    /// What the algorithm admitted, of keys for which that differs from what the exact limiter did.
    own: Vec<Option<Box<ExactKey>>>,
    pub(super) tally: Tally,
    pub(super) hits: Hits,
    empty_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct TestedDecision {
    allowed: bool,
    /// Units that count by the algorithm, with those of this request if it was allowed.
    counted: u64,
}

/// What is known about a limiter's decisions.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) wrongly_allowed: u64,
    pub(super) wrongly_denied: u64,
    pub(super) allowed_unlike_exact: u64,
    pub(super) denied_unlike_exact: u64,
    pub(super) worst: Option<WorstWindow>,
    pub(super) rate_error: f64,
    pub(super) bytes: usize,
    pub(super) bytes_per_key: f64,
    pub(super) overflowed: u64,
    pub(super) nanos: u128,
}

/// The window that contains the most units over its limit.
#[derive(Debug, Clone)]
pub(super) struct WorstWindow {
    pub(super) excess: u64,
    pub(super) at_ms: u64,
    pub(super) key: Box<str>,
    pub(super) fingerprint: u64,
    /// Times and units of its latest admissions.
    pub(super) admitted: Vec<(u64, u64)>,
}

/// What the exact limiter decided.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactDecision<'a> {
    pub(super) allowed: bool,
    /// The state before the decision.
    pub(super) key: &'a ExactKey,
}

impl TestedLimiter {
    pub(super) fn new(algorithm: Algorithm, quotas: &[Quota]) -> Result<Self, Error> {
        let clock = ManualClock::new(Duration::ZERO);
        let policy = Policy::builder("simulated")
            .quotas(quotas.iter().copied())
            .algorithm(algorithm)
            .build()?;
        let limiter =
            Limiter::builder(policy).clock(clock.clone()).memory_limit(MEMORY_LIMIT).build()?;
        let empty_bytes = limiter.stats().bytes;
        Ok(Self {
            algorithm,
            limiter,
            clock,
            decided: Vec::new(),
            own: Vec::new(),
            tally: Tally::default(),
            hits: Hits::default(),
            empty_bytes,
        })
    }

    /// Decides all requests of a batch, and measures how long that takes.
    pub(super) fn decide(&mut self, batch: &[Request], slots: usize) {
        self.own.resize(slots.max(self.own.len()), None);
        self.decided.clear();
        self.decided.reserve(batch.len());
        let start = processor_time();
        for request in batch {
            self.clock.set(Duration::from_millis(request.at_ms));
            let decision =
                self.limiter.check_cost(&request.fingerprint.to_le_bytes(), request.cost);
            let first = decision.quotas().first();
            let counted = first.map_or(0, |quota| quota.limit().saturating_sub(quota.remaining()));
            self.decided.push(TestedDecision { allowed: decision.is_allowed(), counted });
        }
        self.tally.nanos += processor_time().saturating_sub(start).as_nanos();
    }

    /// Compares the decision of a request with the exact one. Returns `true` if it was denied.
    pub(super) fn compare(
        &mut self,
        place: usize,
        request: &Request,
        exact: ExactDecision<'_>,
        quotas: &[TickQuota],
        slot: &KeySlot,
    ) -> bool {
        let TestedDecision { allowed, counted } = self.decided[place];
        let cost = request.cost.get();
        let tally = &mut self.tally;
        match (allowed, exact.allowed) {
            (true, false) => tally.allowed_unlike_exact += 1,
            (false, true) => tally.denied_unlike_exact += 1,
            _ => {}
        }
        let own = &mut self.own[request.slot as usize];
        if let Some(key) = own {
            key.fits(quotas, request.at_ms, cost);
            // Both have forgotten how they differed.
            if key.is_empty() && exact.key.is_empty() {
                *own = None;
            }
        }
        let units = if own.is_none() && allowed == exact.allowed {
            exact.key.units() + if allowed { cost } else { 0 }
        } else {
            let key = own.get_or_insert_with(|| Box::new(exact.key.clone()));
            let fits = key.fits(quotas, request.at_ms, cost);
            if allowed {
                key.record(request.at_ms, cost);
                if !fits {
                    tally.wrongly_allowed += 1;
                    tally.note_excess(key, quotas, request, slot);
                }
            } else if fits {
                tally.wrongly_denied += 1;
            }
            key.units()
        };
        if counted != units {
            tally.rate_error += to_float(counted.abs_diff(units)) / to_float(units.max(1));
        }
        if allowed {
            tally.allowed += 1;
        } else {
            tally.denied += 1;
            self.hits.add(slot, request.at_ms);
        }
        !allowed
    }

    /// Forgets a key for which nothing counts any more.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Some(own) = self.own.get_mut(slot as usize) {
            *own = None;
        }
    }

    /// Looks at the memory that the limiter takes.
    pub(super) fn weigh(&mut self) {
        let stats = self.limiter.stats();
        self.tally.overflowed = stats.overflowed;
        if stats.bytes >= self.tally.bytes {
            self.tally.bytes = stats.bytes;
            let bytes = stats.bytes.saturating_sub(self.empty_bytes);
            self.tally.bytes_per_key = to_float(bytes as u64) / to_float(stats.keys.max(1));
        }
    }
}

impl Tally {
    fn note_excess(
        &mut self,
        exact: &ExactKey,
        quotas: &[TickQuota],
        request: &Request,
        slot: &KeySlot,
    ) {
        let excess = exact.excess(quotas);
        if self.worst.as_ref().is_none_or(|worst| excess > worst.excess) {
            self.worst = Some(WorstWindow {
                excess,
                at_ms: request.at_ms,
                key: slot.name.clone(),
                fingerprint: slot.fingerprint,
                admitted: exact.exceeding(quotas, ADMITTED_MAX),
            });
        }
    }
}

/// Returns the time that this thread has run. It does not include the time in which other programs ran.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}
