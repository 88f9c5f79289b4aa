//! All that is known about one scope.

use core::time::Duration;

use slidegate::Policy;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::error::Error;
use crate::lane::{Lane, Room, Telling};
use crate::line::Line;
use crate::random::Random;
use crate::refusals::Refusals;
use crate::repeat::Repeat;
use crate::settings::Settings;
use crate::ticket::{Sent, Taken, Ticket};
use crate::trips::Trips;

/// All that is known about one scope, which usually is a host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) number: u64,
    pub(crate) used_at: Duration,
    hold: Hold,
    learned: Learned,
    lanes: Vec<Lane>,
    next_lane: u64,
    line: Line,
    trips: Trips,
    budget: Budget,
    refusals: Refusals,
    /// Requests that are out.
    out: u64,
}

/// Until when the server asked to be left alone.
#[derive(Debug, Clone, Copy, Default)]
struct Hold {
    until: Duration,
    /// How far those who wait for it are spread.
    spread: Duration,
}

/// Whether the server has answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Learned {
    Nothing,
    /// One has gone ahead, then.
    Asked(Duration),
    Answered,
}

/// What a request is to do.
#[derive(Debug)]
pub(crate) enum Turn {
    Go,
    At(Duration),
    Refuse(Error),
}

impl Host {
    pub(crate) fn new(number: u64, settings: &Settings, now: Duration) -> Self {
        Self {
            number,
            used_at: now,
            hold: Hold::default(),
            learned: Learned::Nothing,
            lanes: Vec::new(),
            next_lane: 0,
            line: Line::default(),
            trips: Trips::default(),
            budget: Budget::new(settings, now),
            refusals: Refusals::default(),
            out: 0,
        }
    }

    /// Whether nothing would be broken by forgetting it.
    pub(crate) fn is_forgettable(&self, now: Duration) -> bool {
        let is_held = self.hold.until.saturating_add(self.hold.spread) > now;
        let is_stopped = !self.refusals.stop(now).is_zero();
        !is_held && !is_stopped && self.out == 0 && self.line.is_empty()
    }

    /// What a request is to do now. If it is to go, it has taken what it needs.
    pub(crate) fn ask(
        &mut self,
        ticket: &mut Ticket,
        now: Duration,
        random: &mut Random,
        settings: &Settings,
    ) -> Turn {
        self.used_at = now;
        let stop = self.refusals.stop(now);
        if !stop.is_zero() {
            return Turn::Refuse(Error::stopped(settings.refusals_max, stop));
        }
        self.respect_hold(ticket, now, random);
        let turn = match self.turn(ticket, now, settings) {
            Ok(probes) => {
                self.send(ticket, &probes, now, settings);
                Turn::Go
            }
            Err(at) if at <= ticket.deadline => Turn::At(at),
            Err(at) => {
                let (wait, left) = (at.saturating_sub(now), ticket.deadline.saturating_sub(now));
                Turn::Refuse(Error::deadline(wait, left))
            }
        };
        if !matches!(turn, Turn::At(_)) {
            self.line.remove(ticket.number);
        }
        turn
    }

    /// Takes in an answer: whether the request is to be sent again, and whether others that wait
    /// should ask again.
    pub(crate) fn answer(
        &mut self,
        ticket: &mut Ticket,
        answer: &Answer,
        repeat: Repeat,
        now: Duration,
        random: &mut Random,
        settings: &Settings,
    ) -> (bool, bool) {
        self.used_at = now;
        let has_news = self.learn(ticket, answer, now, settings);
        if answer.is_over_quota() {
            self.refusals.note(settings, now);
        }
        let mut again = false;
        if answer.is_refused() {
            self.back_off(ticket, answer, now, random, settings);
            again = self.may_repeat(ticket, answer, repeat, now, settings);
        }
        (again, has_news)
    }

    /// The request is over; whether others that wait should ask again.
    pub(crate) fn end(&mut self, ticket: &mut Ticket) -> bool {
        let mut has_news = self.line.remove(ticket.number);
        let Some(sent) = self.returned(ticket) else { return has_news };
        has_news |= sent.is_first;
        if sent.is_first && self.learned == Learned::Asked(sent.at) {
            self.learned = Learned::Nothing;
        }
        for taken in sent.taken {
            if let Some(lane) = self.lane(taken.lane) {
                has_news |= lane.give_up(taken.is_probe);
            }
        }
        has_news
    }

    /// Draws jitter once for every hold that a request meets.
    fn respect_hold(&self, ticket: &mut Ticket, now: Duration, random: &mut Random) {
        if self.hold.until > now.max(ticket.held_until) {
            let drawn = self.hold.until.saturating_add(random.within(self.hold.spread));
            ticket.not_before = ticket.not_before.max(drawn);
            ticket.held_until = self.hold.until;
        }
    }

    /// Which lanes are probed by going now, or when to ask again.
    fn turn(
        &mut self,
        ticket: &Ticket,
        now: Duration,
        settings: &Settings,
    ) -> Result<Vec<u64>, Duration> {
        if ticket.not_before > now {
            return Err(ticket.not_before);
        }
        if let Learned::Asked(since) = self.learned {
            let until = since.saturating_add(settings.learn_first);
            if until > now {
                return Err(until);
            }
        }
        let in_line = self.line.before(ticket.number, now);
        let probes = self.room(in_line.saturating_add(1), now);
        if let Err(due) = probes {
            self.line.put(ticket.number, due);
        }
        probes
    }

    fn room(&mut self, units: u64, now: Duration) -> Result<Vec<u64>, Duration> {
        self.lanes.retain(|lane| !lane.is_stale(now));
        let (mut probes, mut latest) = (Vec::new(), now);
        for lane in &self.lanes {
            match lane.room(units, now) {
                Room::Free => {}
                Room::Probe => probes.push(lane.number),
                Room::At(time) => latest = latest.max(time),
            }
        }
        if latest > now { Err(latest) } else { Ok(probes) }
    }

    fn send(&mut self, ticket: &mut Ticket, probes: &[u64], now: Duration, settings: &Settings) {
        if ticket.attempts == 0 {
            self.budget.earn(settings, now);
        }
        let is_first = self.learned == Learned::Nothing;
        if is_first {
            self.learned = Learned::Asked(now);
        }
        let lanes = self.lanes.iter_mut();
        let taken = lanes.map(|lane| lane.take(probes.contains(&lane.number), now)).collect();
        self.out += 1;
        ticket.attempts += 1;
        ticket.sent = Some(Sent { at: now, host: self.number, is_first, taken });
    }

    /// Takes in what an answer tells; whether others that wait should ask again.
    fn learn(
        &mut self,
        ticket: &mut Ticket,
        answer: &Answer,
        now: Duration,
        settings: &Settings,
    ) -> bool {
        let mut has_news = self.learned != Learned::Answered;
        self.learned = Learned::Answered;
        let out = self.out.max(1);
        let taken = self.returned(ticket).map_or_else(Vec::new, |sent| {
            self.trips.note(now.saturating_sub(sent.at));
            sent.taken
        });
        if !settings.pacing {
            return has_news;
        }
        let mut told = Vec::new();
        for quota in answer.told().quotas() {
            let lane = self.lanes.iter().position(|lane| lane.is(quota));
            let number = lane.and_then(|lane| self.lanes.get(lane)).map(|lane| lane.number);
            let taken = taken.iter().find(|taken| Some(taken.lane) == number);
            let (trips, is_over_quota) = (&self.trips, answer.is_over_quota());
            let telling = Telling { quota, taken, trips, out, is_over_quota, now };
            match lane.and_then(|lane| self.lanes.get_mut(lane)) {
                Some(lane) => has_news |= lane.tell(&telling, settings),
                None => {
                    let lane = Lane::new(self.next_lane, &telling, settings);
                    self.add(lane);
                }
            }
            told.extend(number);
        }
        self.give_back(taken, &told, answer, now);
        has_news
    }

    /// The request did not go by quotas with a name that the answer, which names some, leaves out.
    fn give_back(&mut self, taken: Vec<Taken>, told: &[u64], answer: &Answer, now: Duration) {
        if !answer.told().quotas().iter().any(|quota| quota.name().is_some()) {
            return;
        }
        for taken in taken.into_iter().filter(|taken| !told.contains(&taken.lane)) {
            if let Some(lane) = self.lane(taken.lane).filter(|lane| lane.is_named()) {
                lane.give_back(taken, now);
            }
        }
    }

    fn add(&mut self, lane: Lane) {
        if self.lanes.len() >= Policy::QUOTAS_MAX {
            let oldest = (0..self.lanes.len()).min_by_key(|index| self.lanes[*index].heard_at());
            self.lanes.remove(oldest.unwrap_or(0));
        }
        self.lanes.push(lane);
        self.next_lane += 1;
    }

    /// Holds the scope for as long as the server asked, or this request for some time.
    fn back_off(
        &mut self,
        ticket: &mut Ticket,
        answer: &Answer,
        now: Duration,
        random: &mut Random,
        settings: &Settings,
    ) {
        if let Some(delay) = answer.delay() {
            let delay = delay.min(settings.hold_max);
            self.hold(now.saturating_add(delay), settings.jitter(delay));
        } else {
            let until = now.saturating_add(random.within(settings.backoff(ticket.attempts)));
            // A hold that it drew its jitter for may be longer.
            ticket.not_before = ticket.not_before.max(until);
            // A 503 without a time may be one bad server of many; a 429 is about the client.
            if answer.is_over_quota() {
                self.hold(until, Duration::ZERO);
            }
        }
        self.respect_hold(ticket, now, random);
    }

    fn hold(&mut self, until: Duration, spread: Duration) {
        if until > self.hold.until {
            self.hold = Hold { until, spread };
        }
    }

    fn may_repeat(
        &mut self,
        ticket: &Ticket,
        answer: &Answer,
        repeat: Repeat,
        now: Duration,
        settings: &Settings,
    ) -> bool {
        repeat.is_allowed(answer, settings)
            && ticket.attempts < settings.attempts_max
            && ticket.not_before <= ticket.deadline
            && self.refusals.stop(now).is_zero()
            && self.budget.spend(settings, now)
    }

    /// What a request had taken, now that it is no longer out.
    fn returned(&mut self, ticket: &mut Ticket) -> Option<Sent> {
        // The scope may have been forgotten meanwhile; then this is another one.
        let sent = ticket.sent.take().filter(|sent| sent.host == self.number)?;
        self.out = self.out.saturating_sub(1);
        Some(sent)
    }

    fn lane(&mut self, number: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.number == number)
    }
}
