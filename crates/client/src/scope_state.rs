//! The state of one scope.

use core::time::Duration;

use slidegate::Policy;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::error::Error;
use crate::quota_tracker::{Availability, QuotaTracker, QuotaUpdate};
use crate::random::Random;
use crate::refusal_counter::RefusalCounter;
use crate::repeat::Repeat;
use crate::round_trips::RoundTrips;
use crate::settings::Settings;
use crate::ticket::{SentUnits, TakenUnits, Ticket};
use crate::wait_queue::WaitQueue;

/// The state of one scope, which usually is a host.
#[derive(Debug, Default)]
pub(crate) struct ScopeState {
    number: u64,
    pub(crate) used_at: Duration,
    hold: Pause,
    contact: ServerContact,
    trackers: Vec<QuotaTracker>,
    next_tracker: u64,
    queue: WaitQueue,
    trips: RoundTrips,
    budget: Budget,
    refusals: RefusalCounter,
    /// Requests in flight.
    in_flight: u64,
}

/// The time until which the server requested a pause.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    until: Duration,
    /// The maximum jitter of requests that wait for it.
    spread: Duration,
}

/// Whether the server has replied yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ServerContact {
    #[default]
    Nothing,
    /// The first request was sent at this time.
    FirstSent(Duration),
    Replied,
}

/// The time, randomness and settings of one call.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) random: &'a mut Random,
    pub(crate) settings: &'a Settings,
}

impl ScopeState {
    pub(crate) fn new(number: u64, settings: &Settings, now: Duration) -> Self {
        let budget = Budget::new(settings, now);
        Self { number, used_at: now, budget, ..Self::default() }
    }

    /// Returns `true` if the scope can be removed without sending a request too early.
    pub(crate) fn is_forgettable(&self, now: Duration) -> bool {
        let is_held = self.hold.until.saturating_add(self.hold.spread) > now;
        let is_stopped = !self.refusals.stop(now).is_zero();
        !is_held && !is_stopped && self.in_flight == 0 && self.queue.is_empty()
    }

    /// Sends a request if it is allowed now, and takes its units.
    ///
    /// Returns `None` if it is sent, otherwise the time to check again.
    pub(crate) fn ask(
        &mut self,
        ticket: &mut Ticket,
        context: &mut Context<'_>,
    ) -> Result<Option<Duration>, Error> {
        let now = context.now;
        self.used_at = now;
        let stop = self.refusals.stop(now);
        if !stop.is_zero() {
            return Err(Error::stopped(context.settings.refusals_max, stop));
        }
        self.respect_hold(ticket, context);
        let result = match self.probes(ticket, context) {
            Ok(probes) => {
                self.send(ticket, &probes, context);
                Ok(None)
            }
            Err(at) if at <= ticket.deadline => return Ok(Some(at)),
            Err(at) => {
                let left = ticket.deadline.saturating_sub(now);
                Err(Error::deadline(at.saturating_sub(now), left))
            }
        };
        self.queue.remove(ticket.number);
        result
    }

    /// Learns from a response. Returns whether to send the request again, and whether waiting
    /// requests should check again.
    pub(crate) fn answer(
        &mut self,
        ticket: &mut Ticket,
        answer: &Answer,
        repeat: Repeat,
        context: &mut Context<'_>,
    ) -> (bool, bool) {
        self.used_at = context.now;
        let has_news = self.learn(ticket, answer, context);
        if answer.is_over_quota() {
            self.refusals.note(context.settings, context.now);
        }
        if !answer.is_refused() {
            return (false, has_news);
        }
        self.back_off(ticket, answer, context);
        let again = repeat.is_allowed(answer, context.settings)
            && ticket.attempts < context.settings.attempts_max
            && ticket.not_before <= ticket.deadline
            && self.refusals.stop(context.now).is_zero()
            && self.budget.spend(context.settings, context.now);
        (again, has_news)
    }

    /// Ends a request. Returns `true` if waiting requests should check again.
    pub(crate) fn end(&mut self, ticket: &mut Ticket) -> bool {
        let mut has_news = self.queue.remove(ticket.number);
        let Some(sent) = self.returned(ticket) else { return has_news };
        has_news |= sent.is_first;
        if sent.is_first && self.contact == ServerContact::FirstSent(sent.at) {
            self.contact = ServerContact::Nothing;
        }
        for taken in sent.taken {
            if let Some(tracker) = self.tracker(taken.tracker) {
                has_news |= tracker.give_up(taken.is_probe);
            }
        }
        has_news
    }

    /// Draws jitter once for every hold that a request encounters.
    fn respect_hold(&self, ticket: &mut Ticket, context: &mut Context<'_>) {
        if self.hold.until > context.now.max(ticket.held_until) {
            let jitter = context.random.within(self.hold.spread);
            ticket.not_before = ticket.not_before.max(self.hold.until.saturating_add(jitter));
            ticket.held_until = self.hold.until;
        }
    }

    /// Returns the trackers that the request probes if it is sent now, or the time to check again.
    fn probes(&mut self, ticket: &Ticket, context: &Context<'_>) -> Result<Vec<u64>, Duration> {
        let now = context.now;
        if ticket.not_before > now {
            return Err(ticket.not_before);
        }
        if let ServerContact::FirstSent(since) = self.contact {
            let until = since.saturating_add(context.settings.learn_first);
            if until > now {
                return Err(until);
            }
        }
        let units = self.queue.before(ticket.number, now).saturating_add(1);
        self.trackers.retain(|tracker| !tracker.is_stale(now));
        let (mut probes, mut latest) = (Vec::new(), now);
        for tracker in &self.trackers {
            match tracker.room(units, now) {
                Availability::Free => {}
                Availability::Probe => probes.push(tracker.number),
                Availability::At(time) => latest = latest.max(time),
            }
        }
        if latest > now {
            self.queue.put(ticket.number, latest);
            return Err(latest);
        }
        Ok(probes)
    }

    fn send(&mut self, ticket: &mut Ticket, probes: &[u64], context: &Context<'_>) {
        let now = context.now;
        if ticket.attempts == 0 {
            self.budget.earn(context.settings, now);
        }
        let is_first = self.contact == ServerContact::Nothing;
        if is_first {
            self.contact = ServerContact::FirstSent(now);
        }
        let trackers = self.trackers.iter_mut();
        let taken =
            trackers.map(|tracker| tracker.take(probes.contains(&tracker.number), now)).collect();
        self.in_flight += 1;
        ticket.attempts += 1;
        ticket.sent = Some(SentUnits { at: now, scope: self.number, is_first, taken });
    }

    /// Learns the quotas of a response. Returns `true` if waiting requests should check again.
    fn learn(&mut self, ticket: &mut Ticket, answer: &Answer, context: &Context<'_>) -> bool {
        let now = context.now;
        let mut has_news = self.contact != ServerContact::Replied;
        self.contact = ServerContact::Replied;
        let in_flight = self.in_flight.max(1);
        let taken = self.returned(ticket).map_or_else(Vec::new, |sent| {
            self.trips.note(now.saturating_sub(sent.at));
            sent.taken
        });
        if !context.settings.pacing {
            return has_news;
        }
        let mut updated = Vec::new();
        for quota in answer.limits().quotas() {
            let tracker = self.trackers.iter_mut().find(|tracker| tracker.tracks(quota));
            let number = tracker.as_ref().map(|tracker| tracker.number);
            let update = QuotaUpdate {
                quota,
                taken: taken.iter().find(|taken| Some(taken.tracker) == number),
                trips: &self.trips,
                in_flight,
                is_over_quota: answer.is_over_quota(),
                now,
            };
            match tracker {
                Some(tracker) => has_news |= tracker.apply(&update, context.settings),
                None => {
                    let tracker = QuotaTracker::new(self.next_tracker, &update, context.settings);
                    self.add(tracker);
                }
            }
            updated.extend(number);
        }
        self.give_back(taken, &updated, answer, now);
        has_news
    }

    /// Returns the units of named quotas that the response omits although it names others: the
    /// request did not count there. Quotas without a name always count.
    fn give_back(
        &mut self,
        taken: Vec<TakenUnits>,
        updated: &[u64],
        answer: &Answer,
        now: Duration,
    ) {
        if !answer.limits().quotas().iter().any(|quota| quota.name().is_some()) {
            return;
        }
        for taken in taken.into_iter().filter(|taken| !updated.contains(&taken.tracker)) {
            if let Some(tracker) = self.tracker(taken.tracker) {
                tracker.give_back(taken, now);
            }
        }
    }

    fn add(&mut self, tracker: QuotaTracker) {
        if self.trackers.len() >= Policy::QUOTAS_MAX {
            let indexes = 0..self.trackers.len();
            let oldest = indexes.min_by_key(|index| self.trackers[*index].updated_at);
            self.trackers.remove(oldest.unwrap_or(0));
        }
        self.trackers.push(tracker);
        self.next_tracker += 1;
    }

    /// Holds the scope for as long as the server requested, or this request for some time.
    fn back_off(&mut self, ticket: &mut Ticket, answer: &Answer, context: &mut Context<'_>) {
        let (now, settings) = (context.now, context.settings);
        if let Some(delay) = answer.delay() {
            let delay = delay.min(settings.hold_max);
            self.hold(now.saturating_add(delay), settings.jitter(delay));
        } else {
            let backoff = context.random.within(settings.backoff(ticket.attempts));
            let until = now.saturating_add(backoff);
            // A hold for which jitter was drawn may be longer.
            ticket.not_before = ticket.not_before.max(until);
            // A 503 without a time may come from one faulty server of many. A 429 is about the
            // client.
            if answer.is_over_quota() {
                self.hold(until, Duration::ZERO);
            }
        }
        self.respect_hold(ticket, context);
    }

    fn hold(&mut self, until: Duration, spread: Duration) {
        if until > self.hold.until {
            self.hold = Pause { until, spread };
        }
    }

    /// Returns the units of a request that is no longer in flight.
    fn returned(&mut self, ticket: &mut Ticket) -> Option<SentUnits> {
        // If the scope was removed in the meantime, this is another state.
        let sent = ticket.sent.take().filter(|sent| sent.scope == self.number)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        Some(sent)
    }

    fn tracker(&mut self, number: u64) -> Option<&mut QuotaTracker> {
        self.trackers.iter_mut().find(|tracker| tracker.number == number)
    }
}
