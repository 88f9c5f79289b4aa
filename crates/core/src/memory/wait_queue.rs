//! The queue of callers that wait for units of a key.
//!
//! The window records the units of each waiter in the future, at the tick at which the waiter is
//! due. So a check counts them without reading the queue. The queue stores which recorded units
//! belong to which waiter.
//!
//! An operation that changes the key's count first removes the waiters' units from the window
//! (`set_aside`) and then records them again at the earliest possible ticks (`place_again`), under
//! the same lock. Refunded units therefore reach the waiters before any other caller.

use core::task::Waker;
use std::collections::{BTreeMap, VecDeque};

use super::decide::{Request, decide, look};
use super::shard::{LockTimer, Shard, Shared};
use crate::decision::Decision;
use crate::receipt::Receipt;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::Moment;
use crate::window::{Limits, NEVER, Place, Window};

/// The result of [`Shard::enqueue`].
#[derive(Debug)]
pub(crate) enum EnqueueResult {
    /// The units were available and are taken.
    Granted(Decision),
    /// The wait would be too long or would never end. Nothing was taken.
    Denied(Decision),
    /// The caller waits for its turn.
    Waiting(Turn),
    /// The queue is full. Nothing was taken.
    Full(QueueFull),
}

/// The result of [`Shard::confirm`].
#[derive(Debug)]
pub(crate) enum Confirm {
    /// The caller has left the queue with its units.
    Granted(Decision),
    /// The caller has left the queue without units, because the table has no room for the key.
    Denied(Decision),
    /// The caller still waits.
    Waiting(Turn),
}

/// When a waiter may take its units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) id: u64,
    pub(crate) due: u64,
    /// The shard's current tick.
    pub(crate) now: u64,
}

/// The bound that was reached, with the number of waiters.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueFull {
    Limiter(usize),
    Key(usize),
}

/// The number of callers that wait, and its bounds.
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

    /// Counts one more caller in a queue of `len`.
    fn enter(&self, len: usize) -> Result<(), QueueFull> {
        if len >= self.per_key_max {
            return Err(QueueFull::Key(len));
        }
        // Counted before it is compared, so that the bound holds under concurrency.
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        if before < self.max {
            return Ok(());
        }
        self.leave();
        Err(QueueFull::Limiter(before))
    }

    fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Wakers that left a queue. Both waking and dropping a waker may run code that takes the lock
/// again, so this must outlive the guard.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    woken: Vec<Waker>,
    retired: Vec<Waker>,
}

impl Wakers {
    /// Wakes the waiters whose turn comes earlier than they were scheduled for.
    pub(crate) fn wake(self) {
        self.woken.into_iter().for_each(Waker::wake);
    }
}

/// The queues of a shard's keys. Takes no memory while no caller waits.
#[derive(Debug, Default)]
pub(super) struct WaitQueues {
    by_key: BTreeMap<u64, WaitQueue>,
    next_id: u64,
}

impl WaitQueues {
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
        if let Some(queue) = self.by_key.get(&fingerprint) {
            let places = queue.waiters.iter().map(|waiter| &waiter.place);
            let recorded = places.filter(|place| place.tick != Place::ASIDE);
            window.withdraw_all(&queue.limits, recorded, now, &shared.account);
        }
    }

    fn find(&mut self, fingerprint: u64, id: u64) -> Option<(&mut WaitQueue, usize)> {
        let queue = self.by_key.get_mut(&fingerprint)?;
        let index = queue.waiters.binary_search_by_key(&id, |waiter| waiter.id).ok()?;
        Some((queue, index))
    }

    fn push(&mut self, fingerprint: u64, limits: &Limits, place: Place) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.by_key.entry(fingerprint).or_default().push(id, limits, place);
        id
    }

    /// Returns the tick from which a waiter may take its units.
    fn due(&mut self, fingerprint: u64, id: u64) -> Option<u64> {
        self.find(fingerprint, id).map(|(queue, index)| queue.waiters[index].place.due)
    }

    fn remove(&mut self, fingerprint: u64, id: u64, shared: &Shared, wakers: &mut Wakers) {
        let Some((queue, index)) = self.find(fingerprint, id) else { return };
        let waiter = queue.remove(index);
        wakers.retired.extend(waiter.and_then(|waiter| waiter.waker));
        if queue.waiters.is_empty() {
            self.by_key.remove(&fingerprint);
        }
        shared.waiters.leave();
    }
}

/// The callers that wait for units of one key.
#[derive(Debug, Default)]
struct WaitQueue {
    /// The different quotas of the waiters. At most one per waiter, because quotas may come with a
    /// request, and a queue of a busy key may never be empty.
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

/// Selects the waiters that are set aside. A waiter that is due keeps its recorded units: if it
/// never takes them, they expire like any others and do not delay the queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaiterSelection {
    NotDue,
    /// Those that are not due, and all from an index on.
    From(usize),
}

impl WaiterSelection {
    pub(super) const ALL: Self = Self::From(0);
}

impl WaitQueue {
    fn push(&mut self, id: u64, limits: &Limits, mut place: Place) {
        let known = self.limits.iter().position(|known| known == limits);
        place.limits = known.unwrap_or(self.limits.len());
        if known.is_none() {
            self.limits.push(*limits);
        }
        self.waiters.push_back(Waiter { id, place, waker: None });
    }

    /// Removes a waiter, and its quotas if no other waiter has them.
    fn remove(&mut self, index: usize) -> Option<Waiter> {
        let removed = self.waiters.remove(index)?;
        let limits = removed.place.limits;
        if self.waiters.iter().all(|waiter| waiter.place.limits != limits) {
            self.limits.swap_remove(limits);
            let moved = self.limits.len();
            for waiter in self.waiters.iter_mut().filter(|waiter| waiter.place.limits == moved) {
                waiter.place.limits = limits;
            }
        }
        Some(removed)
    }

    fn set_aside<W: Window>(
        &mut self,
        which: WaiterSelection,
        window: &mut W,
        now: u64,
        shared: &Shared,
    ) {
        let from = match which {
            WaiterSelection::NotDue => usize::MAX,
            WaiterSelection::From(index) => index,
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
    /// Takes the units if they are available, and otherwise enters the queue.
    pub(super) fn enqueue(
        &mut self,
        request: &Request<'_>,
        within: u64,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> EnqueueResult {
        let request = self.with_clamped_time(request);
        let Request { fingerprint, limits, moment, cost } = request;
        if limits.quotas().iter().any(|quota| cost > quota.limit) {
            return EnqueueResult::Denied(self.peek(&request, shared));
        }
        let found = self.slots.find(fingerprint);
        let Some(at) = found.or_else(|| self.add_key(&request, shared)) else {
            let decision = self.decide_without_slot(&request, shared, true);
            return if decision.is_allowed() {
                EnqueueResult::Granted(decision)
            } else {
                EnqueueResult::Denied(decision)
            };
        };
        let window = self.slots.window(at);
        let wait = look(window, &request, shared, |window| wait_for(window, &request));
        if wait == 0 {
            window.advance(limits, moment.now, &shared.account);
            let decision = decide(window, &request, shared, true);
            // Waiters with smaller quotas may have to wait for longer now.
            self.set_aside(fingerprint, WaiterSelection::NotDue, shared);
            self.place_again(fingerprint, shared, wakers);
            return EnqueueResult::Granted(decision);
        }
        let queue = self.cold.queues.by_key.get(&fingerprint);
        let dues =
            queue.into_iter().flat_map(|queue| &queue.waiters).map(|waiter| waiter.place.due);
        let due = dues.fold(moment.now.saturating_add(wait), u64::max);
        if due - moment.now > within {
            let denial = |window: &mut W| decide(window, &request, shared, false);
            return EnqueueResult::Denied(look(window, &request, shared, denial));
        }
        if let Err(full) = shared.waiters.enter(queue.map_or(0, |queue| queue.waiters.len())) {
            return EnqueueResult::Full(full);
        }
        window.advance(limits, moment.now, &shared.account);
        let ahead = Moment { now: moment.now, date: due.max(moment.date) };
        let tick = window.take_ahead(limits, ahead, cost, &shared.account);
        let id = self.cold.queues.push(fingerprint, limits, Place { limits: 0, cost, due, tick });
        EnqueueResult::Waiting(Turn { id, due, now: moment.now })
    }

    /// Registers the waker of a waiter that is scheduled for `turn`. Returns `true` if it is due
    /// earlier by now, and the waker that was registered before.
    pub(super) fn watch(
        &mut self,
        fingerprint: u64,
        turn: &Turn,
        waker: &Waker,
    ) -> (bool, Option<Waker>) {
        let Some((queue, index)) = self.cold.queues.find(fingerprint, turn.id) else {
            return (true, None);
        };
        let waiter = &mut queue.waiters[index];
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
        let request = self.with_clamped_time(request);
        let now = request.moment.now;
        match self.cold.queues.due(request.fingerprint, id) {
            Some(due) if due > now => return Confirm::Waiting(Turn { id, due, now }),
            _ => {}
        }
        let found = self.slots.find(request.fingerprint);
        if let Some(at) = found.or_else(|| self.add_key(&request, shared)) {
            let timer = LockTimer::start();
            let confirm = self.confirm_at(at, &request, id, shared, wakers);
            self.record_lock_time(timer);
            return confirm;
        }
        self.leave(&request, id, shared, wakers);
        let decision = self.decide_without_slot(&request, shared, true);
        if decision.is_allowed() { Confirm::Granted(decision) } else { Confirm::Denied(decision) }
    }

    /// Takes the units of a waiter that is due, if they are available. They may not be if waiters in
    /// front of it were late or units were charged without a check.
    ///
    /// The units are recorded now instead of at the tick at which they were due, because
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
        if let Some((queue, index)) = self.cold.queues.find(fingerprint, id) {
            queue.set_aside(WaiterSelection::From(index), window, moment.now, shared);
            self.idle.include(0);
        }
        window.advance(limits, moment.now, &shared.account);
        let mut receipt = None;
        if wait_for(window, request) == 0 {
            let tick = window.take(limits, moment, cost, &shared.account);
            receipt = Some(Receipt { fingerprint, tick, units: cost, epoch: window.epoch() });
            self.cold.queues.remove(fingerprint, id, shared, wakers);
        }
        if let Some(queue) = self.cold.queues.by_key.get_mut(&fingerprint) {
            queue.place(window, moment, shared, wakers);
        }
        match (receipt, self.cold.queues.due(fingerprint, id)) {
            (None, Some(due)) => Confirm::Waiting(Turn { id, due, now: moment.now }),
            (None, None) => Confirm::Denied(decide(window, request, shared, false).into_denied()),
            (Some(receipt), _) => {
                let decision = decide(window, request, shared, false);
                Confirm::Granted(decision.into_placed(receipt))
            }
        }
    }

    /// Removes a waiter, and moves up those behind it.
    pub(super) fn leave(
        &mut self,
        request: &Request<'_>,
        id: u64,
        shared: &Shared,
        wakers: &mut Wakers,
    ) {
        let now = self.clamp_time(request.moment).now;
        let fingerprint = request.fingerprint;
        let Some((queue, index)) = self.cold.queues.find(fingerprint, id) else { return };
        let place = queue.waiters[index].place;
        let is_last = place.due > now && index + 1 == queue.waiters.len();
        if let Some(at) = self.slots.find(fingerprint) {
            queue.set_one_aside(index, self.slots.window(at), now, shared);
            // The key may expire earlier than before, at a tick that is not known yet.
            self.idle.include(0);
        }
        self.cold.queues.remove(fingerprint, id, shared, wakers);
        if !is_last {
            self.set_aside(fingerprint, WaiterSelection::NotDue, shared);
            self.place_again(fingerprint, shared, wakers);
        }
    }

    /// Removes the units of a key's waiters from its window, so that only used units are recorded.
    /// Nothing else may run before [`place_again`](Self::place_again).
    pub(super) fn set_aside(&mut self, fingerprint: u64, which: WaiterSelection, shared: &Shared) {
        let now = self.latest.now;
        if let Some(queue) = self.cold.queues.by_key.get_mut(&fingerprint)
            && let Some(at) = self.slots.find(fingerprint)
        {
            queue.set_aside(which, self.slots.window(at), now, shared);
            self.idle.include(0);
        }
    }

    /// Records the units of the waiters that were set aside, in order, at the earliest possible
    /// ticks.
    pub(super) fn place_again(&mut self, fingerprint: u64, shared: &Shared, wakers: &mut Wakers) {
        let moment = self.latest;
        if let Some(queue) = self.cold.queues.by_key.get_mut(&fingerprint)
            && let Some(at) = self.slots.find(fingerprint)
        {
            let timer = LockTimer::start();
            queue.place(self.slots.window(at), moment, shared, wakers);
            self.record_lock_time(timer);
        }
    }

    /// Places all waiters of a key that was just removed.
    pub(super) fn enqueue_again(&mut self, fingerprint: u64, shared: &Shared, wakers: &mut Wakers) {
        let moment = self.latest;
        let Some(queue) = self.cold.queues.by_key.get_mut(&fingerprint) else { return };
        for waiter in &mut queue.waiters {
            waiter.place.tick = Place::ASIDE;
        }
        let Some(limits) = queue.limits.first().copied() else { return };
        let request = Request { fingerprint, limits: &limits, moment, cost: 1 };
        if self.add_key(&request, shared).is_some() {
            return self.place_again(fingerprint, shared, wakers);
        }
        // The key does not fit: the sketches decide for each waiter.
        let Some(queue) = self.cold.queues.by_key.get_mut(&fingerprint) else { return };
        for waiter in &mut queue.waiters {
            waiter.place.due = moment.now;
            wakers.woken.extend(waiter.waker.take());
        }
    }
}

/// The ticks until all quotas have room for a request.
fn wait_for<W: Window>(window: &W, request: &Request<'_>) -> u64 {
    let Request { limits, moment, cost, .. } = *request;
    let quotas = 0..limits.quotas().len();
    quotas.map(|index| window.retry(limits, index, moment.now, cost)).max().unwrap_or(NEVER)
}

#[cfg(test)]
mod tests;
