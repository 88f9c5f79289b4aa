//! Callers that wait for units of a key, in order.
//!
//! The window records a waiter's units ahead of time, so checks need not know that there is a
//! line. The line knows which of the recorded units are whose. Whatever changes the key's count
//! sets the line aside first and places it again afterwards, under the same lock: so units that
//! come back move the line up before any other caller can take them.

use core::task::Waker;
use std::collections::{BTreeMap, VecDeque};

use super::decide::{Request, decide, deny_full};
use super::shard::{Hold, OnFull, Shard, Shared};
use crate::decision::Decision;
use crate::receipt::Receipt;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::Moment;
use crate::window::{Limits, NEVER, Place, Window};

/// The outcome of asking for a place in line.
#[derive(Debug)]
pub(crate) enum LineUp {
    /// The units were available and are taken.
    Granted(Decision),
    /// The wait would be too long or would never end. Nothing was taken.
    Denied(Decision),
    /// The caller waits for its turn.
    Waiting(Turn),
    /// As many callers wait already as may.
    Full(LineFull),
}

/// The outcome of asking whether a waiter's turn has come.
#[derive(Debug)]
pub(crate) enum Confirm {
    /// The caller has left the line with its units.
    Granted(Decision),
    /// The caller has left the line without units, because the table has no room for the key.
    Denied(Decision),
    /// The caller still waits.
    Waiting(Turn),
}

/// When a waiter may take its units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) id: u64,
    pub(crate) due: u64,
    /// The present, as the shard sees it.
    pub(crate) now: u64,
}

/// The bound that a caller found reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineFull {
    Limiter(usize),
    Key(usize),
}

/// How many callers wait, and how many may.
#[derive(Debug)]
pub(crate) struct WaiterCount {
    pub(super) waiting: AtomicUsize,
    pub(super) max: usize,
    pub(super) per_key_max: usize,
}

impl WaiterCount {
    pub(super) fn new(max: usize, per_key_max: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), max, per_key_max }
    }

    /// Counts one more caller in a line of `len`.
    fn enter(&self, len: usize) -> Result<(), LineFull> {
        if len >= self.per_key_max {
            return Err(LineFull::Key(len));
        }
        // Counted before it is compared, so that the bound holds under concurrency.
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        if before < self.max {
            return Ok(());
        }
        self.leave();
        Err(LineFull::Limiter(before))
    }

    fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Wakers that left a line. Both waking and dropping a waker may run code that takes the lock
/// again, so this must outlive the guard.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    woken: Vec<Waker>,
    retired: Vec<Waker>,
}

impl Wakers {
    /// Wakes the callers whose turn comes earlier than they know.
    pub(crate) fn wake(self) {
        self.woken.into_iter().for_each(Waker::wake);
    }
}

/// The lines of a shard's keys. Takes no memory while no caller waits.
#[derive(Debug, Default)]
pub(super) struct Lines {
    by_key: BTreeMap<u64, Line>,
    next_id: u64,
}

impl Lines {
    /// Returns `true` if callers wait for units of a key.
    pub(super) fn has(&self, fingerprint: u64) -> bool {
        self.by_key.contains_key(&fingerprint)
    }

    /// Removes the units of waiting callers from a copy of a key's window.
    pub(super) fn withdraw<W: Window>(
        &self,
        fingerprint: u64,
        window: &mut W,
        now: u64,
        shared: &Shared,
    ) {
        if let Some(line) = self.by_key.get(&fingerprint) {
            let places = line.waiters.iter().map(|waiter| &waiter.place);
            let recorded = places.filter(|place| place.tick != Place::ASIDE);
            window.withdraw_all(&line.limits, recorded, now, &shared.account);
        }
    }

    fn find(&mut self, fingerprint: u64, id: u64) -> Option<(&mut Line, usize)> {
        let line = self.by_key.get_mut(&fingerprint)?;
        let index = line.waiters.binary_search_by_key(&id, |waiter| waiter.id).ok()?;
        Some((line, index))
    }

    fn push(&mut self, fingerprint: u64, limits: &Limits, mut place: Place) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let line = self.by_key.entry(fingerprint).or_default();
        let known = line.limits.iter().position(|known| known == limits);
        place.limits = known.unwrap_or(line.limits.len());
        if known.is_none() {
            line.limits.push(*limits);
        }
        line.waiters.push_back(Waiter { id, place, waker: None });
        id
    }

    /// Returns the tick from which on a waiter may take its units.
    fn due(&mut self, fingerprint: u64, id: u64) -> Option<u64> {
        self.find(fingerprint, id).map(|(line, index)| line.waiters[index].place.due)
    }

    fn remove(&mut self, fingerprint: u64, id: u64, shared: &Shared, wakers: &mut Wakers) {
        let Some((line, index)) = self.find(fingerprint, id) else { return };
        let waiter = line.waiters.remove(index);
        wakers.retired.extend(waiter.and_then(|waiter| waiter.waker));
        if line.waiters.is_empty() {
            self.by_key.remove(&fingerprint);
        }
        shared.waiters.leave();
    }
}

/// The callers that wait for units of one key.
#[derive(Debug, Default)]
struct Line {
    /// The different quotas that the waiters have.
    limits: Vec<Limits>,
    /// In order of arrival, so ids increase. The ticks of those that are not due do not decrease.
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    place: Place,
    waker: Option<Waker>,
}

/// Which waiters are set aside. One that is due keeps its recorded units where they are: if it
/// never comes for them, they expire like any others and do not hold up the line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aside {
    NotDue,
    /// Those that are not due, and all from an index on.
    From(usize),
}

impl Aside {
    pub(super) const ALL: Self = Self::From(0);
}

impl Line {
    fn set_aside<W: Window>(&mut self, which: Aside, window: &mut W, now: u64, shared: &Shared) {
        let from = match which {
            Aside::NotDue => usize::MAX,
            Aside::From(index) => index,
        };
        let is_chosen = |index: usize, place: &Place| {
            place.tick != Place::ASIDE && (index >= from || place.due > now)
        };
        let places = self.waiters.iter().map(|waiter| &waiter.place).enumerate();
        let places = places.filter(|(index, place)| is_chosen(*index, place));
        let places = places.map(|(_, place)| place);
        window.withdraw_all(&self.limits, places, now, &shared.account);
        for (index, waiter) in self.waiters.iter_mut().enumerate() {
            if is_chosen(index, &waiter.place) {
                waiter.place.tick = Place::ASIDE;
            }
        }
    }

    fn set_one_aside<W: Window>(
        &mut self,
        index: usize,
        window: &mut W,
        now: u64,
        shared: &Shared,
    ) {
        let place = &mut self.waiters[index].place;
        if place.tick != Place::ASIDE {
            let one = core::iter::once(&*place);
            window.withdraw_all(&self.limits, one, now, &shared.account);
            place.tick = Place::ASIDE;
        }
    }

    /// Places all waiters that were set aside, and takes the wakers of those that move up.
    fn place<W: Window>(
        &mut self,
        window: &mut W,
        moment: Moment,
        shared: &Shared,
        wakers: &mut Wakers,
    ) {
        let before: Vec<u64> = self.waiters.iter().map(|waiter| waiter.place.due).collect();
        let places = self.waiters.iter_mut().map(|waiter| &mut waiter.place);
        let aside = places.filter(|place| place.tick == Place::ASIDE);
        window.place_all(&self.limits, aside, moment, &shared.account);
        for (waiter, before) in self.waiters.iter_mut().zip(before) {
            if waiter.place.due < before {
                wakers.woken.extend(waiter.waker.take());
            }
        }
    }
}

impl<W: Window> Shard<W> {
    /// Takes units if they are available, and a place in line if not.
    pub(super) fn line_up(
        &mut self,
        request: &Request<'_>,
        within: u64,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> LineUp {
        let request = self.enter(request);
        let Request { fingerprint, limits, moment, cost } = request;
        if limits.quotas().iter().any(|quota| cost > quota.limit) {
            return LineUp::Denied(self.peek(&request, shared));
        }
        let found = self.slots.find(fingerprint);
        let Some(at) = found.or_else(|| self.add_key(&request, shared)) else {
            let decision = self.decide_without_slot(&request, shared);
            return if decision.is_allowed() {
                LineUp::Granted(decision)
            } else {
                LineUp::Denied(decision)
            };
        };
        let window = self.slots.window(at);
        window.advance(limits, moment.now, &shared.account);
        let wait = wait_for(window, &request);
        if wait == 0 {
            let decision = decide(window, &request, shared, true);
            // Waiters with smaller quotas may have to wait for longer now.
            self.set_aside(fingerprint, Aside::NotDue, shared);
            self.place_again(fingerprint, shared, wakers);
            return LineUp::Granted(decision);
        }
        let line = self.rare.lines.by_key.get(&fingerprint);
        let dues = line.into_iter().flat_map(|line| &line.waiters).map(|waiter| waiter.place.due);
        let due = dues.fold(moment.now.saturating_add(wait), u64::max);
        if due - moment.now > within {
            return LineUp::Denied(decide(window, &request, shared, false));
        }
        if let Err(full) = shared.waiters.enter(line.map_or(0, |line| line.waiters.len())) {
            return LineUp::Full(full);
        }
        let ahead = Moment { now: moment.now, date: due.max(moment.date) };
        let tick = window.take_ahead(limits, ahead, cost, &shared.account);
        let id = self.rare.lines.push(fingerprint, limits, Place { limits: 0, cost, due, tick });
        LineUp::Waiting(Turn { id, due, now: moment.now })
    }

    /// Registers the waker of a caller that believes it is due at `due`. Returns `true` if its
    /// turn comes earlier, and the waker that was registered before.
    pub(super) fn watch(
        &mut self,
        fingerprint: u64,
        turn: &Turn,
        waker: &Waker,
    ) -> (bool, Option<Waker>) {
        let Some((line, index)) = self.rare.lines.find(fingerprint, turn.id) else {
            return (true, None);
        };
        let waiter = &mut line.waiters[index];
        if waiter.place.due < turn.due {
            return (true, None);
        }
        let is_known = waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        (false, if is_known { None } else { waiter.waker.replace(waker.clone()) })
    }

    /// Takes the units of a waiter if its turn has come.
    pub(super) fn confirm(
        &mut self,
        request: &Request<'_>,
        id: u64,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> Confirm {
        let request = self.enter(request);
        let now = request.moment.now;
        match self.rare.lines.due(request.fingerprint, id) {
            Some(due) if due > now => return Confirm::Waiting(Turn { id, due, now }),
            _ => {}
        }
        let found = self.slots.find(request.fingerprint);
        if let Some(at) = found.or_else(|| self.add_key(&request, shared)) {
            let hold = Hold::start();
            let confirm = self.confirm_at(at, &request, id, shared, wakers);
            self.note_hold(hold);
            return confirm;
        }
        self.leave(&request, id, shared, wakers);
        let decision = self.decide_without_slot(&request, shared);
        if decision.is_allowed() { Confirm::Granted(decision) } else { Confirm::Denied(decision) }
    }

    /// Takes the units of a waiter that is due, if they are there. They may not be when callers in
    /// front of it came late or units were charged without a check.
    ///
    /// The units are recorded at the present instead of at the tick at which they were due, because
    /// they count for a whole window from the moment they are used.
    fn confirm_at(
        &mut self,
        at: usize,
        request: &Request<'_>,
        id: u64,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> Confirm {
        let Request { fingerprint, limits, moment, cost } = *request;
        let window = self.slots.window(at);
        if let Some((line, index)) = self.rare.lines.find(fingerprint, id) {
            line.set_aside(Aside::From(index), window, moment.now, shared);
            self.idle.include(0);
        }
        window.advance(limits, moment.now, &shared.account);
        let mut receipt = None;
        if wait_for(window, request) == 0 {
            let tick = window.take(limits, moment, cost, &shared.account);
            receipt = Some(Receipt { fingerprint, tick, units: cost, epoch: window.epoch() });
            self.rare.lines.remove(fingerprint, id, shared, wakers);
        }
        if let Some(line) = self.rare.lines.by_key.get_mut(&fingerprint) {
            line.place(window, moment, shared, wakers);
        }
        match (receipt, self.rare.lines.due(fingerprint, id)) {
            (None, Some(due)) => Confirm::Waiting(Turn { id, due, now: moment.now }),
            (None, None) => Confirm::Denied(decide(window, request, shared, false).into_denied()),
            (Some(receipt), _) => {
                let decision = decide(window, request, shared, false);
                Confirm::Granted(decision.into_placed(receipt))
            }
        }
    }

    /// Gives up a place in line.
    pub(super) fn leave(
        &mut self,
        request: &Request<'_>,
        id: u64,
        shared: &Shared,
        wakers: &mut Wakers,
    ) {
        let now = self.see(request.moment).now;
        let fingerprint = request.fingerprint;
        let Some((line, index)) = self.rare.lines.find(fingerprint, id) else { return };
        let place = line.waiters[index].place;
        let is_last = place.due > now && index + 1 == line.waiters.len();
        if let Some(at) = self.slots.find(fingerprint) {
            line.set_one_aside(index, self.slots.window(at), now, shared);
            // The key may expire earlier than before. When is not known yet.
            self.idle.include(0);
        }
        self.rare.lines.remove(fingerprint, id, shared, wakers);
        if !is_last {
            self.set_aside(fingerprint, Aside::NotDue, shared);
            self.place_again(fingerprint, shared, wakers);
        }
    }

    /// Takes the units of a key's line off the record, so that only used units are on it. Nothing
    /// else may run before [`place_again`](Self::place_again).
    pub(super) fn set_aside(&mut self, fingerprint: u64, which: Aside, shared: &Shared) {
        let now = self.latest.now;
        if let Some(line) = self.rare.lines.by_key.get_mut(&fingerprint)
            && let Some(at) = self.slots.find(fingerprint)
        {
            line.set_aside(which, self.slots.window(at), now, shared);
            self.idle.include(0);
        }
    }

    /// Places the waiters that were set aside, in order, at the earliest ticks that are possible
    /// now.
    pub(super) fn place_again(&mut self, fingerprint: u64, shared: &Shared, wakers: &mut Wakers) {
        let moment = self.latest;
        if let Some(line) = self.rare.lines.by_key.get_mut(&fingerprint)
            && let Some(at) = self.slots.find(fingerprint)
        {
            let hold = Hold::start();
            line.place(self.slots.window(at), moment, shared, wakers);
            self.note_hold(hold);
        }
    }

    /// Places all waiters of a key that has just been forgotten.
    pub(super) fn line_up_again(&mut self, fingerprint: u64, shared: &Shared, wakers: &mut Wakers) {
        let moment = self.latest;
        let Some(line) = self.rare.lines.by_key.get_mut(&fingerprint) else { return };
        for waiter in &mut line.waiters {
            waiter.place.tick = Place::ASIDE;
        }
        let Some(limits) = line.limits.first().copied() else { return };
        let request = Request { fingerprint, limits: &limits, moment, cost: 1 };
        if self.add_key(&request, shared).is_some() {
            return self.place_again(fingerprint, shared, wakers);
        }
        // No room for the key: each waiter asks the sketches.
        let Some(line) = self.rare.lines.by_key.get_mut(&fingerprint) else { return };
        for waiter in &mut line.waiters {
            waiter.place.due = moment.now;
            wakers.woken.extend(waiter.waker.take());
        }
    }

    fn decide_without_slot(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        if shared.on_full.get() == OnFull::Deny {
            deny_full(request, shared)
        } else {
            self.check_overflow(request, shared)
        }
    }
}

/// The ticks until all quotas have room for a request.
fn wait_for<W: Window>(window: &W, request: &Request<'_>) -> u64 {
    let Request { limits, moment, cost, .. } = *request;
    let quotas = 0..limits.quotas().len();
    quotas.map(|index| window.retry(limits, index, moment.now, cost)).max().unwrap_or(NEVER)
}
