//! One part of the table, behind one lock.

use core::time::Duration;

use super::Account;
use super::hold::Hold;
use super::overflow::Sketch;
use super::slots::Slots;
use super::store::LineUp;
use crate::decision::{Decision, Outcome, QuotaDecision};
use crate::policy::QUOTAS_MAX;
use crate::receipt::Receipt;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::{Moment, TickScale};
use crate::window::{Limits, NEVER, Standing, Window};

/// What happens to a key that the table has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnFull {
    /// The overflow sketch judges it. It can only over-count: nobody gets more than the limit, a
    /// few get less. Keys that are in the table stay.
    #[default]
    Overflow,
    /// It takes the place of the key that was last admitted longest ago. What the other had taken
    /// goes into the overflow sketch, and counts when it comes back.
    Lru,
    /// It is denied, with a `retry_after` of the longest window.
    Deny,
}

/// What a shard is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) fingerprint: u64,
    pub(crate) limits: &'a Limits,
    pub(crate) moment: Moment,
    pub(crate) cost: u64,
}

/// The answer for a key that was known, as small as can be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    standing: Standing,
    epoch: u16,
}

impl Known {
    #[inline]
    pub(crate) fn decision(&self, request: &Request<'_>, scale: &TickScale) -> Decision {
        let Standing { used, retry, reset, tick } = self.standing;
        let Request { fingerprint, limits, cost, .. } = *request;
        let limit = limits.quota(0).limit;
        let remaining = limit.saturating_sub(used);
        let reset = scale.nanos(reset);
        if retry != 0 {
            let quota = QuotaDecision::from_nanos(limit, remaining, scale.nanos(retry), reset);
            return Decision::one(Outcome::Deny, quota, None);
        }
        let quota = QuotaDecision::from_nanos(limit, remaining, 0, reset);
        let receipt = Receipt { fingerprint, tick, units: cost, epoch: self.epoch };
        Decision::one(Outcome::Allow, quota, Some(receipt))
    }
}

/// What all shards of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) account: Account,
    pub(super) on_full: OnFull,
    pub(super) scale: TickScale,
    /// Bytes of one shard's sketch of one quota.
    pub(super) sketch_bytes: usize,
    /// The longest window of the policy and its tiers: nothing is let go before it.
    pub(super) longest: AtomicU64,
}

impl Shared {
    // Set before a tier is handed out; who has the tier sees it.
    pub(super) fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }
}

/// Counters of one shard.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) evictions: u64,
    pub(super) overflowed: u64,
    pub(super) swept: u64,
    pub(super) longest_hold: Duration,
}

/// Slots, and whatever else a lock guards.
#[derive(Debug)]
pub(super) struct Shard<W> {
    pub(super) slots: Slots<W>,
    /// The latest tick seen; time never goes back before it.
    latest: u64,
    /// Checks since the start, to sweep now and then.
    checks: u32,
    /// The next slot to be looked at by the sweep, and the slots it kept since it was at the first.
    sweep_at: usize,
    /// What the next new key gets; never the same twice in 65536 keys.
    next_epoch: u16,
    /// One a quota; none before the first key that found no room.
    pub(super) sketches: Vec<Sketch>,
    pub(super) counters: Counters,
}

/// Every so many checks ...
const SWEEP_EVERY: u32 = 64;
/// ... so many slots are looked at,
const SWEEP_SLOTS: usize = 8;
/// and so many for every new key: faster than keys can come, so the dead never pile up.
const SWEEP_FOR_NEW: usize = 4;
/// Keys compared to find one to evict.
const EVICT_FROM: usize = 16;

impl<W: Window> Shard<W> {
    pub(super) fn new() -> Self {
        Self {
            slots: Slots::new(),
            latest: 0,
            checks: 0,
            sweep_at: 0,
            next_epoch: 0,
            sketches: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Decides for a key that is in the table and has one quota, and takes if allowed: the usual
    /// case, kept apart because its answer is small. None, and nothing done, for any other.
    #[inline]
    pub(super) fn check_known(&mut self, request: &Request<'_>, shared: &Shared) -> Option<Known> {
        let at = self.slots.find(request.fingerprint)?;
        let moment = self.see(request.moment);
        let window = self.slots.window(at);
        let standing = window.check(request.limits, moment, request.cost, &shared.account);
        let epoch = window.epoch();
        self.checks = self.checks.wrapping_add(1);
        if self.checks.is_multiple_of(SWEEP_EVERY) {
            self.sweep(SWEEP_SLOTS, shared);
        }
        Some(Known { standing, epoch })
    }

    /// Decides, and takes if allowed.
    pub(super) fn check(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        if request.limits.is_single()
            && let Some(known) = self.check_known(request, shared)
        {
            return known.decision(request, &shared.scale);
        }
        let request = self.enter(request);
        let Some(at) = self.slots.find(request.fingerprint) else {
            return self.check_new(&request, shared);
        };
        let window = self.slots.window(at);
        window.advance(request.limits, request.moment.now, &shared.account);
        decide_many(window, &request, shared, true)
    }

    /// Decides as if asked, and takes nothing.
    pub(super) fn peek(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        let request = self.enter(request);
        match self.slots.find(request.fingerprint) {
            Some(at) => {
                let window = self.slots.window(at);
                window.advance(request.limits, request.moment.now, &shared.account);
                decide(window, &request, shared, false)
            }
            None => {
                let estimates = self.estimates(&request);
                let mut window = W::new(request.limits, 0);
                shared.account.grow(window.heap_bytes());
                seed(&mut window, &request, &estimates, shared);
                let decision = decide(&mut window, &request, shared, false);
                shared.account.shrink(window.heap_bytes());
                decision
            }
        }
    }

    /// Takes without asking: debt. Returns the tick and the epoch for a receipt.
    pub(super) fn take(&mut self, request: &Request<'_>, shared: &Shared) -> Option<(u64, u16)> {
        let request = self.enter(request);
        let at = match self.slots.find(request.fingerprint) {
            Some(at) => at,
            None => self.add_key(&request, shared)?,
        };
        let window = self.slots.window(at);
        window.advance(request.limits, request.moment.now, &shared.account);
        let tick = window.take(request.limits, request.moment, request.cost, &shared.account);
        Some((tick, window.epoch()))
    }

    /// Gives back what a receipt names.
    pub(super) fn give_back(
        &mut self,
        request: &Request<'_>,
        tick: u64,
        epoch: u16,
        shared: &Shared,
    ) -> u64 {
        let request = self.enter(request);
        let now = request.moment.now;
        let Some(at) = self.slots.find(request.fingerprint) else {
            return 0;
        };
        let window = self.slots.window(at);
        if window.epoch() != epoch {
            return 0;
        }
        window.advance(request.limits, now, &shared.account);
        window.give_back(request.limits, now, tick, request.cost, &shared.account)
    }

    /// Takes a place in line: the units are dated at the moment they may be used.
    pub(super) fn line_up(
        &mut self,
        request: &Request<'_>,
        within: u64,
        shared: &Shared,
    ) -> LineUp {
        let request = self.enter(request);
        let found = self.slots.find(request.fingerprint);
        let Some(at) = found.or_else(|| self.add_key(&request, shared)) else {
            let decision = self.check_overflow(&request, shared);
            return if decision.is_allowed() {
                LineUp::Placed(decision, 0)
            } else {
                LineUp::TooLong(decision)
            };
        };
        let Request { fingerprint, limits, moment, cost } = request;
        let window = self.slots.window(at);
        window.advance(limits, moment.now, &shared.account);
        let retries = (0..limits.quotas().len()).map(|i| window.retry(limits, i, moment.now, cost));
        let wait = retries.max().unwrap_or(NEVER);
        if wait == 0 {
            return LineUp::Placed(decide(window, &request, shared, true), 0);
        }
        let decision = decide(window, &request, shared, false);
        if wait > within {
            return LineUp::TooLong(decision);
        }
        let date = moment.date.max(moment.now + wait);
        let tick = window.take(limits, Moment { now: moment.now, date }, cost, &shared.account);
        let receipt = Receipt { fingerprint, tick, units: cost, epoch: window.epoch() };
        LineUp::Placed(decision.into_placed(receipt), tick - moment.now)
    }

    /// Asks whether units that wait in line may be used now. None if they are not there any more.
    pub(super) fn confirm(
        &mut self,
        request: &Request<'_>,
        tick: u64,
        epoch: u16,
        shared: &Shared,
    ) -> Option<(u64, Moment)> {
        let request = self.enter(request);
        let at = self.slots.find(request.fingerprint)?;
        let window = self.slots.window(at);
        if window.epoch() != epoch {
            return None;
        }
        let Request { limits, moment, cost, .. } = request;
        window.advance(limits, moment.now, &shared.account);
        Some((window.confirm(limits, moment, tick, cost, &shared.account), moment))
    }

    /// Runs `look` on a key's window, brought up to now.
    pub(super) fn look<R>(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        look: impl FnOnce(&W, Moment) -> R,
    ) -> Option<R> {
        let request = self.enter(request);
        let at = self.slots.find(request.fingerprint)?;
        let window = self.slots.window(at);
        window.advance(request.limits, request.moment.now, &shared.account);
        Some(look(window, request.moment))
    }

    /// Forgets a key. Receipts that were handed out for it are void.
    pub(super) fn reset(&mut self, fingerprint: u64, shared: &Shared) -> bool {
        let Some(at) = self.slots.find(fingerprint) else {
            return false;
        };
        self.drop_slot(at, shared);
        true
    }

    /// Looks at up to `slots` slots and drops those that can no longer change a decision.
    pub(super) fn sweep(&mut self, slots: usize, shared: &Shared) -> usize {
        let mut dropped = 0;
        let longest = shared.longest();
        for _ in 0..slots.min(self.slots.capacity()) {
            if self.sweep_at >= self.slots.capacity() {
                self.sweep_at = 0;
                self.shrink(shared);
                break;
            }
            match self.slots.get(self.sweep_at) {
                Some((_, window)) if window.idle_at(longest) <= self.latest => {
                    // Another key may have moved up into this place: look at it again.
                    self.drop_slot(self.sweep_at, shared);
                    dropped += 1;
                }
                Some(_) => {
                    self.slots.window(self.sweep_at).trim(&shared.account);
                    self.sweep_at += 1;
                }
                None => self.sweep_at += 1,
            }
        }
        self.counters.swept += dropped as u64;
        dropped
    }

    /// Puts back a key from a snapshot; false if the table has no room for it, and then the
    /// sketch remembers it.
    pub(super) fn restore(
        &mut self,
        fingerprint: u64,
        window: W,
        limits: &Limits,
        shared: &Shared,
    ) -> bool {
        if let Some(at) = self.slots.find(fingerprint) {
            self.drop_slot(at, shared);
        }
        // Decoding has counted the window already, whatever the limit said.
        let fits = shared.account.fits();
        if fits && (!self.slots.is_full() || self.grow(shared)) {
            self.slots.insert(fingerprint, window);
            return true;
        }
        self.open_sketches(limits, shared);
        let now = self.latest;
        for (index, sketch) in self.sketches.iter_mut().enumerate() {
            sketch.advance(shared.longest(), now);
            sketch.raise(fingerprint, window.on_record(limits, index, now));
        }
        shared.account.shrink(window.heap_bytes());
        false
    }

    /// What a new key starts with.
    pub(super) fn new_epoch(&mut self) -> u16 {
        self.next_epoch = self.next_epoch.wrapping_add(1);
        self.next_epoch
    }

    pub(super) fn sketch_bytes(&self) -> usize {
        self.sketches.iter().map(Sketch::bytes).sum()
    }

    pub(super) fn note_hold(&mut self, hold: Hold) {
        self.counters.longest_hold = self.counters.longest_hold.max(hold.elapsed());
    }

    /// Sees to it that time does not go back.
    #[inline]
    fn enter<'a>(&mut self, request: &Request<'a>) -> Request<'a> {
        Request { moment: self.see(request.moment), ..*request }
    }

    #[inline]
    pub(super) fn see(&mut self, moment: Moment) -> Moment {
        self.latest = self.latest.max(moment.now);
        Moment { now: self.latest, date: moment.date.max(self.latest) }
    }

    #[cold]
    fn check_new(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        let possible = request.limits.quotas().iter().all(|quota| request.cost <= quota.limit);
        if !possible {
            return self.peek(request, shared);
        }
        self.sweep(SWEEP_FOR_NEW, shared);
        match self.add_key(request, shared) {
            Some(at) => {
                let decision = decide(self.slots.window(at), request, shared, true);
                // A key that was denied and has nothing on record must cost no memory.
                if self.slots.window(at).idle_at(shared.longest()) <= request.moment.now {
                    self.drop_slot(at, shared);
                }
                decision
            }
            None if shared.on_full == OnFull::Deny => deny_full(request, shared),
            None => self.check_overflow(request, shared),
        }
    }

    /// Adds a key with what the sketch remembers of it; none if there is no room.
    fn add_key(&mut self, request: &Request<'_>, shared: &Shared) -> Option<usize> {
        if self.slots.is_full() && !self.grow(shared) && !self.evict(request, shared) {
            self.counters.overflowed += 1;
            return None;
        }
        let epoch = self.new_epoch();
        let mut window = W::new(request.limits, epoch);
        if !shared.account.try_grow(window.heap_bytes()) {
            self.counters.overflowed += 1;
            return None;
        }
        let estimates = self.estimates(request);
        seed(&mut window, request, &estimates, shared);
        self.slots.insert(request.fingerprint, window);
        self.slots.find(request.fingerprint)
    }

    /// What the sketches remember of a key, by quota; all zero if there are none.
    fn estimates(&mut self, request: &Request<'_>) -> [u64; QUOTAS_MAX] {
        let mut estimates = [0; QUOTAS_MAX];
        let quotas = request.limits.quotas().iter().zip(&mut self.sketches);
        for (estimate, (quota, sketch)) in estimates.iter_mut().zip(quotas) {
            sketch.advance(quota.window, request.moment.now);
            *estimate = sketch.estimate(request.fingerprint);
        }
        estimates
    }

    /// Makes the table larger by an eighth.
    fn grow(&mut self, shared: &Shared) -> bool {
        let hold = Hold::start();
        let capacity = self.slots.next_capacity();
        let more = Slots::<W>::bytes(capacity) - Slots::<W>::bytes(self.slots.capacity());
        if !shared.account.try_grow(more) {
            return false;
        }
        self.slots.resize(capacity);
        self.sweep_at = 0;
        self.note_hold(hold);
        true
    }

    /// Makes a mostly empty table smaller.
    fn shrink(&mut self, shared: &Shared) {
        if let Some(capacity) = self.slots.smaller_capacity() {
            let hold = Hold::start();
            let before = Slots::<W>::bytes(self.slots.capacity());
            self.slots.resize(capacity);
            shared.account.shrink(before - Slots::<W>::bytes(self.slots.capacity()));
            self.note_hold(hold);
        }
    }

    fn drop_slot(&mut self, at: usize, shared: &Shared) {
        let (_, window) = self.slots.remove(at);
        shared.account.shrink(window.heap_bytes());
    }

    /// Under `lru`, makes room by moving the key that was idle longest into the sketch.
    fn evict(&mut self, request: &Request<'_>, shared: &Shared) -> bool {
        if shared.on_full != OnFull::Lru || self.slots.len() == 0 {
            return false;
        }
        let capacity = self.slots.capacity();
        let mut oldest: Option<(u64, usize)> = None;
        let mut seen = 0;
        for step in 0..capacity {
            // The sweep's place moves on, so every key has its turn.
            let at = (self.sweep_at + step) % capacity;
            if let Some((_, window)) = self.slots.get(at) {
                let idle_at = window.idle_at(shared.longest());
                if oldest.is_none_or(|(least, _)| idle_at < least) {
                    oldest = Some((idle_at, at));
                }
                seen += 1;
            }
            if seen == EVICT_FROM {
                self.sweep_at = (at + 1) % capacity;
                break;
            }
        }
        let Some((_, at)) = oldest else { return false };
        self.remember(at, request, shared);
        self.drop_slot(at, shared);
        self.counters.evictions += 1;
        true
    }

    /// Adds what a key has taken to the sketches.
    fn remember(&mut self, at: usize, request: &Request<'_>, shared: &Shared) {
        self.open_sketches(request.limits, shared);
        let now = request.moment.now;
        let Some((fingerprint, _)) = self.slots.get(at) else {
            return;
        };
        let window = self.slots.window(at);
        for (index, sketch) in self.sketches.iter_mut().enumerate() {
            // The key may have had other quotas than the one that pushes it out, so all that is on
            // record counts, for as long as the longest window.
            sketch.advance(shared.longest(), now);
            sketch.raise(fingerprint, window.on_record(request.limits, index, now));
        }
    }

    fn open_sketches(&mut self, limits: &Limits, shared: &Shared) {
        for quota in limits.quotas().iter().skip(self.sketches.len()) {
            self.sketches.push(Sketch::new(shared.sketch_bytes, quota.limit));
        }
    }

    /// Judges a key by the sketches alone.
    fn check_overflow(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        self.open_sketches(request.limits, shared);
        let estimates = self.estimates(request);
        let Request { fingerprint, limits, moment, cost } = *request;
        let quotas = || limits.quotas().iter().zip(estimates);
        let allowed =
            quotas().all(|(quota, estimate)| estimate.saturating_add(cost) <= quota.limit);
        let mut standings = [QuotaDecision::new(0, 0, None, Duration::ZERO); QUOTAS_MAX];
        for (index, (quota, estimate)) in quotas().enumerate() {
            let sketch = &mut self.sketches[index];
            let passes = estimate.saturating_add(cost) <= quota.limit;
            let retry =
                if passes { 0 } else { sketch.retry(fingerprint, quota.limit, cost, moment.now) };
            if allowed {
                sketch.add(fingerprint, cost);
            }
            let taken = estimate.saturating_add(if allowed { cost } else { 0 });
            standings[index] = QuotaDecision::from_nanos(
                quota.limit,
                quota.limit.saturating_sub(taken),
                shared.scale.nanos(retry),
                shared.scale.nanos(sketch.reset(moment.now)),
            );
        }
        let outcome = if allowed { Outcome::Allow } else { Outcome::Deny };
        Decision::new(outcome, &standings[..limits.quotas().len()], None).into_estimated()
    }
}

/// Starts a new key with what the sketch remembers of it.
fn seed<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    estimates: &[u64; QUOTAS_MAX],
    shared: &Shared,
) {
    if estimates.iter().any(|estimate| *estimate > 0) {
        // More than the limit denies no more than the limit does.
        let mut units = *estimates;
        for (units, quota) in units.iter_mut().zip(request.limits.quotas()) {
            *units = (*units).min(quota.limit);
        }
        window.seed(request.limits, request.moment, &units, &shared.account);
    }
    window.advance(request.limits, request.moment.now, &shared.account);
}

/// Judges a window that was brought up to now, and takes if allowed and asked to.
#[inline]
fn decide<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    shared: &Shared,
    take: bool,
) -> Decision {
    if !request.limits.is_single() {
        return decide_many(window, request, shared, take);
    }
    let Request { fingerprint, limits, moment, cost } = *request;
    let retry = window.retry(limits, 0, moment.now, cost);
    let mut receipt = None;
    if retry == 0 && take {
        let tick = window.take(limits, moment, cost, &shared.account);
        receipt = Some(Receipt { fingerprint, tick, units: cost, epoch: window.epoch() });
    }
    let used = window.used(limits, 0, moment.now);
    let limit = limits.quota(0).limit;
    let standing = QuotaDecision::from_nanos(
        limit,
        limit.saturating_sub(used),
        shared.scale.nanos(retry),
        shared.scale.nanos(window.reset(limits, 0, moment.now)),
    );
    let outcome = if retry == 0 { Outcome::Allow } else { Outcome::Deny };
    Decision::one(outcome, standing, receipt)
}

fn decide_many<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    shared: &Shared,
    take: bool,
) -> Decision {
    let Request { fingerprint, limits, moment, cost } = *request;
    let count = limits.quotas().len();
    let mut retries = [0; QUOTAS_MAX];
    for (index, retry) in retries[..count].iter_mut().enumerate() {
        *retry = window.retry(limits, index, moment.now, cost);
    }
    let allowed = retries.iter().all(|retry| *retry == 0);
    let mut receipt = None;
    if allowed && take {
        let tick = window.take(limits, moment, cost, &shared.account);
        receipt = Some(Receipt { fingerprint, tick, units: cost, epoch: window.epoch() });
    }
    let mut standings = [QuotaDecision::new(0, 0, None, Duration::ZERO); QUOTAS_MAX];
    for (index, quota) in limits.quotas().iter().enumerate() {
        let used = window.used(limits, index, moment.now);
        standings[index] = QuotaDecision::from_nanos(
            quota.limit,
            quota.limit.saturating_sub(used),
            shared.scale.nanos(retries[index]),
            shared.scale.nanos(window.reset(limits, index, moment.now)),
        );
    }
    let outcome = if allowed { Outcome::Allow } else { Outcome::Deny };
    Decision::new(outcome, &standings[..count], receipt)
}

/// The answer of `deny` when the table is full.
#[cold]
fn deny_full(request: &Request<'_>, shared: &Shared) -> Decision {
    let wait = shared.scale.nanos(request.limits.longest());
    let mut standings = [QuotaDecision::new(0, 0, None, Duration::ZERO); QUOTAS_MAX];
    for (standing, quota) in standings.iter_mut().zip(request.limits.quotas()) {
        *standing = QuotaDecision::from_nanos(quota.limit, 0, wait.min(NEVER - 1), wait);
    }
    Decision::new(Outcome::Deny, &standings[..request.limits.quotas().len()], None).into_estimated()
}
