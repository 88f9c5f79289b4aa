//! Keys that do not fit in the table: the sketches decide for them and count their units.

use super::decide::{Request, deny_full};
use super::shard::{OnFull, Shard, Shared};
use super::sketch::{Sketch, quantum_for};
use crate::decision::{Decision, Outcome, QuotaDecision};
use crate::policy::QUOTAS_MAX;
use crate::sync::atomic::Ordering;
use crate::window::{KeptSince, Window};

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

    /// Decides by the sketches alone. Takes the units if allowed and `take` is set.
    pub(super) fn decide_by_sketches(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        take: bool,
    ) -> Decision {
        self.open_sketches(shared);
        let estimates = self.estimates(request, shared);
        let Request { fingerprint, limits, moment, cost } = *request;
        let now = moment.now;
        let allowed = permits(request, &estimates);
        let taken = if allowed && take { cost } else { 0 };
        let quotas = limits.quotas().iter().zip(estimates).map(|(quota, estimate)| {
            // Each of them knows at least the units of this window, so the first that permits decides.
            let sketches = || self.sketches.iter().filter(|one| one.window() >= quota.window);
            let retries = sketches().map(|one| one.retry(fingerprint, quota.limit, cost, now));
            let reset = sketches().map(|one| one.reset(now)).min().unwrap_or(0);
            QuotaDecision::from_nanos(
                quota.limit,
                quota.limit.saturating_sub(estimate.saturating_add(taken)),
                shared.scale.nanos(retries.min().unwrap_or(0)),
                shared.scale.nanos(reset),
            )
        });
        let outcome = if allowed { Outcome::Allow } else { Outcome::Deny };
        let decision = Decision::collect(outcome, quotas, None).into_estimated();
        if taken > 0 {
            self.add_to_sketches(fingerprint, taken);
        }
        decision
    }

    /// Adds units of a key to all sketches, which were advanced to now.
    pub(super) fn add_to_sketches(&mut self, fingerprint: u64, units: u64) {
        for sketch in &mut self.sketches {
            sketch.add(fingerprint, units);
        }
    }

    /// Returns the units that the sketches estimate for a key, by quota. All are zero if there are no
    /// sketches.
    pub(super) fn estimates(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
    ) -> [u64; QUOTAS_MAX] {
        let mut estimates = [0; QUOTAS_MAX];
        if self.sketches.is_empty() {
            return estimates;
        }
        let Request { fingerprint, limits, .. } = *request;
        for (index, quota) in limits.quotas().iter().enumerate() {
            // A tier has at most as many quotas as the policy.
            self.open_sketch(quota.window, quantum_for(shared.limits.quota(index).limit), shared);
        }
        self.advance_sketches();
        for (estimate, quota) in estimates.iter_mut().zip(limits.quotas()) {
            let sketches = self.sketches.iter().filter(|sketch| sketch.window() >= quota.window);
            *estimate = sketches.map(|sketch| sketch.estimate(fingerprint)).min().unwrap_or(0);
        }
        estimates
    }

    /// Returns `true` if a sketch with a longer window than those of a request knows more units of its
    /// key than `estimates`.
    pub(super) fn knows_more(&self, fingerprint: u64, estimates: &[u64; QUOTAS_MAX]) -> bool {
        let most = self.sketches.iter().map(|sketch| sketch.estimate(fingerprint)).max();
        most > estimates.iter().copied().max()
    }

    fn advance_sketches(&mut self) {
        for sketch in &mut self.sketches {
            sketch.advance(self.latest.now);
        }
    }

    /// Creates the sketches of the policy's quotas, if there are none.
    pub(super) fn open_sketches(&mut self, shared: &Shared) {
        if self.sketches.is_empty() {
            for quota in shared.limits.quotas() {
                self.open_sketch(quota.window, quantum_for(quota.limit), shared);
            }
        }
    }

    /// Provides a sketch for a window: one with a window of at most twice the length. Returns its index.
    ///
    /// A window without a sketch starts with the counts of the next longer one. If there are too many
    /// sketches, the next longer one is used, and the longest is stretched.
    fn open_sketch(&mut self, window: u64, quantum: u64, shared: &Shared) -> usize {
        let fits = |one: &Sketch| one.quantum() == quantum && one.window() / 2 <= window;
        let longer = self.sketches.iter().enumerate().filter(|(_, one)| one.window() >= window);
        let next = longer.clone().min_by_key(|(_, one)| one.window()).map(|(index, _)| index);
        if let Some((index, _)) = longer.clone().find(|(_, one)| fits(one)) {
            return index;
        }
        let longest = self.sketches.iter().enumerate().max_by_key(|(_, one)| one.window());
        let from = next.or(longest.map(|(index, _)| index));
        let (now, count) = (self.latest.now, self.sketches.len());
        let bytes = shared.sketch_bytes.load(Ordering::Relaxed);
        let most = (bytes / Sketch::BYTES_MIN).min(SKETCHES_MAX).max(shared.limits.quotas().len());
        if let Some(index) = from.filter(|_| count >= most) {
            self.sketches[index].stretch(window);
            return index;
        }
        self.advance_sketches();
        let mut sketch = Sketch::new(bytes / (count + 1), window, quantum, now);
        if let Some(index) = from {
            sketch.absorb(&self.sketches[index]);
        }
        self.sketches.push(sketch);
        self.shrink_sketches(shared);
        count
    }

    /// Adds the counts of a sketch from a snapshot.
    pub(super) fn restore_sketch(&mut self, sketch: &mut Sketch, shared: &Shared) {
        self.open_sketches(shared);
        let index = self.open_sketch(sketch.window(), sketch.quantum(), shared);
        self.advance_sketches();
        sketch.advance(self.latest.now);
        self.sketches[index].absorb(sketch);
    }

    /// Copies the units of a key to the sketches.
    pub(super) fn remember(&mut self, fingerprint: u64, window: &W, shared: &Shared) {
        self.open_sketches(shared);
        let longest = shared.longest();
        if longest > shared.limits.longest() {
            // The key may have a tier with a longer window than the policy.
            self.open_sketch(longest, quantum_for(shared.limits.quota(0).limit), shared);
        }
        self.advance_sketches();
        let now = self.latest.now;
        for sketch in &mut self.sketches {
            let oldest = (now + 1).saturating_sub(sketch.window());
            let kept = window.kept_units(&shared.limits, KeptSince { oldest, now });
            sketch.raise(fingerprint, kept);
        }
    }

    /// Adds a key from a snapshot. If it does not fit, moves its units into the sketches and returns
    /// `false`.
    pub(super) fn restore(
        &mut self,
        fingerprint: u64,
        window: W,
        request: &Request<'_>,
        shared: &Shared,
    ) -> bool {
        self.clamp_time(request.moment);
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
        self.remember(fingerprint, &window, shared);
        shared.account.shrink(window.heap_bytes());
        false
    }
}

/// The maximum number of sketches of a shard. Windows differ by more than a factor of two, so that these
/// are enough for windows from a second to half a day.
const SKETCHES_MAX: usize = 16;

/// Returns `true` if estimates permit the cost of a request under each of its quotas.
pub(super) fn permits(request: &Request<'_>, estimates: &[u64; QUOTAS_MAX]) -> bool {
    let quotas = request.limits.quotas().iter().zip(estimates);
    quotas.fold(true, |permits, (quota, estimate)| {
        permits && estimate.saturating_add(request.cost) <= quota.limit
    })
}
