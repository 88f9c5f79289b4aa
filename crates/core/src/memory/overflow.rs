//! Keys that do not fit in the table: the sketches decide for them and count their units.

use super::decide::{Request, deny_full};
use super::shard::{OnFull, Shard, Shared};
use super::sketch::Sketch;
use crate::decision::{Decision, Outcome, QuotaDecision};
use crate::policy::QUOTAS_MAX;
use crate::sync::atomic::Ordering;
use crate::window::Window;

impl<W: Window> Shard<W> {
    /// Decides for a key that does not fit into the table. Takes the units if allowed and `take` is set.
    pub(super) fn decide_without_slot(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        take: bool,
    ) -> Decision {
        match shared.on_full.get() {
            OnFull::Deny => deny_full(request, shared),
            OnFull::Overflow | OnFull::Lru => self.decide_by_sketches(request, shared, take),
        }
    }

    fn decide_by_sketches(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        take: bool,
    ) -> Decision {
        self.open_sketches(shared);
        let estimates = self.estimates(request);
        let Request { fingerprint, limits, moment, cost } = *request;
        let quotas = || limits.quotas().iter().zip(estimates);
        let allowed =
            quotas().all(|(quota, estimate)| estimate.saturating_add(cost) <= quota.limit);
        let sketches = &mut self.sketches;
        let quotas = quotas().zip(sketches).map(|((quota, estimate), sketch)| {
            let passes = estimate.saturating_add(cost) <= quota.limit;
            let retry =
                if passes { 0 } else { sketch.retry(fingerprint, quota.limit, cost, moment.now) };
            let taken = if allowed && take { cost } else { 0 };
            if taken > 0 {
                sketch.add(fingerprint, taken);
            }
            let used = estimate.saturating_add(taken);
            QuotaDecision::from_nanos(
                quota.limit,
                quota.limit.saturating_sub(used),
                shared.scale.nanos(retry),
                shared.scale.nanos(sketch.reset(moment.now)),
            )
        });
        let outcome = if allowed { Outcome::Allow } else { Outcome::Deny };
        Decision::collect(outcome, quotas, None).into_estimated()
    }

    /// Returns the units that the sketches estimate for a key, by quota. All are zero if there are no
    /// sketches.
    pub(super) fn estimates(&mut self, request: &Request<'_>) -> [u64; QUOTAS_MAX] {
        let mut estimates = [0; QUOTAS_MAX];
        let quotas = request.limits.quotas().iter().zip(&mut self.sketches);
        for (estimate, (quota, sketch)) in estimates.iter_mut().zip(quotas) {
            sketch.advance(quota.window, request.moment.now);
            *estimate = sketch.estimate(request.fingerprint);
        }
        estimates
    }

    /// Creates the sketches, one per quota of the policy, if there are none. Tiers have at most as many
    /// quotas.
    pub(super) fn open_sketches(&mut self, shared: &Shared) {
        for quota in shared.limits.quotas().iter().skip(self.sketches.len()) {
            let bytes = shared.sketch_bytes.load(Ordering::Relaxed);
            self.sketches.push(Sketch::new(bytes, quota.limit));
        }
    }

    /// Adds a key from a snapshot. Returns `false` if it does not fit, and leaves it to
    /// [`place_rest`](Self::place_rest).
    pub(super) fn restore(
        &mut self,
        fingerprint: u64,
        window: W,
        request: &Request<'_>,
        shared: &Shared,
    ) -> bool {
        let request = self.with_clamped_time(request);
        if let Some(at) = self.slots.find(fingerprint) {
            self.drop_slot(at, shared);
        }
        // Decoding has added the window to the account without asking for the limit.
        let fits = shared.account.fits();
        if fits && (!self.slots.is_full() || self.grow(shared)) {
            self.idle.include(window.idle_at(shared.longest()));
            self.slots.insert(fingerprint, window);
            return true;
        }
        let mut units = [0; QUOTAS_MAX];
        for (index, units) in units[..request.limits.quotas().len()].iter_mut().enumerate() {
            *units = window.kept_units(request.limits, index, request.moment.now);
        }
        self.cold.unplaced.push((fingerprint, units));
        shared.account.shrink(window.heap_bytes());
        false
    }

    /// Moves the keys that did not fit in a restore into the sketches, after those are restored too.
    pub(super) fn place_rest(&mut self, shared: &Shared) {
        if self.cold.unplaced.is_empty() {
            return;
        }
        self.open_sketches(shared);
        let now = self.latest.now;
        for (fingerprint, units) in core::mem::take(&mut self.cold.unplaced) {
            for (sketch, units) in self.sketches.iter_mut().zip(units) {
                sketch.advance(shared.longest(), now);
                sketch.raise(fingerprint, units);
            }
        }
    }
}
