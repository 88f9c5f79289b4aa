//! What to do with each request, as a function of what was asked and told, and of the time.

use core::time::Duration;
use std::collections::HashMap;

use crate::answer::Answer;
use crate::error::Error;
use crate::host::{Host, Turn};
use crate::random::Random;
use crate::repeat::Repeat;
use crate::scope::Scope;
use crate::settings::Settings;
use crate::ticket::Ticket;

/// What to do with each request: a state machine without clock, lock, runtime or input and output.
///
/// Time is a duration since the epoch, and the caller's to give. [`Pacer`](crate::Pacer) is this
/// with a clock and a lock.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, StatusCode};
/// use slidegate_client::{Answer, Next, Pacing, Random, Repeat, Scope, Settings, Step};
///
/// let mut pacing = Pacing::new(Settings::default());
/// let mut random = Random::from_seed(1);
/// let now = Duration::from_secs(1_700_000_000);
///
/// let mut ticket = pacing.begin(Scope::new("api.example.com"), now);
/// assert_eq!(pacing.ask(&mut ticket, now, &mut random), Step::Go);
///
/// // The server refuses, and asks to wait a minute.
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", "60".parse()?);
/// let answer = Answer::read(StatusCode::TOO_MANY_REQUESTS, &headers, now);
/// let next = pacing.answer(&mut ticket, &answer, Repeat::Always, now, &mut random);
/// assert_eq!(next, Next::Again);
///
/// // A minute and up to five seconds: this one, and all others to that host.
/// let Step::Wait(wait) = pacing.ask(&mut ticket, now, &mut random) else { panic!("no wait") };
/// assert!((60..=65).contains(&wait.as_secs()));
/// assert_eq!(pacing.ask(&mut ticket, now + wait, &mut random), Step::Go);
/// pacing.end(&mut ticket);
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Debug)]
pub struct Pacing {
    settings: Settings,
    hosts: HashMap<Scope, Host>,
    next_ticket: u64,
    next_host: u64,
    waiting: usize,
    has_news: bool,
    stats: Stats,
}

/// What a request is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send it now.
    Go,
    /// Ask again after so long. Never past the request's deadline.
    Wait(Duration),
    /// Do not send it.
    Refuse(Error),
}

/// What to do with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Hand it on.
    Done,
    /// Drop it, and ask when to send the request again.
    Again,
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Scopes that are remembered now.
    pub scopes: usize,
    /// Requests that wait now.
    pub waiting: usize,
    /// Requests sent, retries included.
    pub sent: u64,
    /// Requests sent again.
    pub retries: u64,
    /// Answers 429.
    pub refusals: u64,
    /// Requests that were not sent, with an error.
    pub refused: u64,
}

impl Pacing {
    /// Knows nothing of any server yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            hosts: HashMap::new(),
            next_ticket: 0,
            next_host: 0,
            waiting: 0,
            has_news: false,
            stats: Stats::default(),
        }
    }

    /// A request arrives. From now on its deadline runs.
    pub fn begin(&mut self, scope: Scope, now: Duration) -> Ticket {
        let number = self.next_ticket;
        self.next_ticket += 1;
        Ticket {
            scope,
            number,
            deadline: now.saturating_add(self.settings.deadline),
            attempts: 0,
            not_before: Duration::ZERO,
            held_until: Duration::ZERO,
            is_waiting: false,
            sent: None,
        }
    }

    /// What a request is to do now.
    pub fn ask(&mut self, ticket: &mut Ticket, now: Duration, random: &mut Random) -> Step {
        let step = self.step(ticket, now, random);
        match &step {
            Step::Go => {
                self.stats.sent += 1;
                self.stats.retries += u64::from(ticket.attempts > 1);
            }
            Step::Refuse(_) => self.stats.refused += 1,
            Step::Wait(_) => return step,
        }
        self.stop_waiting(ticket);
        step
    }

    /// Takes in the answer to a request that was sent.
    pub fn answer(
        &mut self,
        ticket: &mut Ticket,
        answer: &Answer,
        repeat: Repeat,
        now: Duration,
        random: &mut Random,
    ) -> Next {
        self.stats.refusals += u64::from(answer.is_over_quota());
        if self.make_room(&ticket.scope, now).is_err() {
            // All others are needed, so this one is remembered nowhere.
            ticket.sent = None;
            return Next::Done;
        }
        let host = self.hosts.get_mut(&ticket.scope);
        let Some(host) = host else { return Next::Done };
        let (again, has_news) = host.answer(ticket, answer, repeat, now, random, &self.settings);
        self.has_news |= has_news;
        if again { Next::Again } else { Next::Done }
    }

    /// The request is over: answered, failed or given up. Its place in line is free.
    pub fn end(&mut self, ticket: &mut Ticket) {
        self.stop_waiting(ticket);
        if let Some(host) = self.hosts.get_mut(&ticket.scope) {
            self.has_news |= host.end(ticket);
        }
    }

    /// Whether something was learned since the last call for which requests that wait should ask
    /// again at once.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.has_news)
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        Stats { scopes: self.hosts.len(), waiting: self.waiting, ..self.stats }
    }

    fn step(&mut self, ticket: &mut Ticket, now: Duration, random: &mut Random) -> Step {
        if let Err(error) = self.make_room(&ticket.scope, now) {
            return Step::Refuse(error);
        }
        let Some(host) = self.hosts.get_mut(&ticket.scope) else { return Step::Go };
        match host.ask(ticket, now, random, &self.settings) {
            Turn::Go => Step::Go,
            Turn::Refuse(error) => Step::Refuse(error),
            Turn::At(_) if !ticket.is_waiting && self.waiting >= self.settings.waiters_max => {
                host.end(ticket);
                Step::Refuse(Error::waiters(self.waiting))
            }
            Turn::At(time) => {
                self.waiting += usize::from(!ticket.is_waiting);
                ticket.is_waiting = true;
                Step::Wait(time.saturating_sub(now))
            }
        }
    }

    fn stop_waiting(&mut self, ticket: &mut Ticket) {
        if core::mem::take(&mut ticket.is_waiting) {
            self.waiting -= 1;
        }
    }

    /// Sees to it that a scope is remembered, if need be by forgetting the one that was used
    /// longest ago.
    fn make_room(&mut self, scope: &Scope, now: Duration) -> Result<(), Error> {
        if self.hosts.contains_key(scope) {
            return Ok(());
        }
        if self.hosts.len() >= self.settings.scopes_max {
            let forgettable = self.hosts.iter().filter(|(_, host)| host.is_forgettable(now));
            let oldest = forgettable.min_by_key(|(_, host)| host.used_at);
            let oldest = oldest.map(|(scope, _)| scope.clone());
            let oldest = oldest.ok_or_else(|| Error::scopes(self.hosts.len()))?;
            self.hosts.remove(&oldest);
        }
        self.hosts.insert(scope.clone(), Host::new(self.next_host, &self.settings, now));
        self.next_host += 1;
        Ok(())
    }
}
