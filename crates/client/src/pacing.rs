//! The state machine that decides when each request is sent.

use core::time::Duration;
use std::collections::HashMap;

use crate::answer::Answer;
use crate::error::Error;
use crate::random::Random;
use crate::repeat::Repeat;
use crate::scope::Scope;
use crate::scope_state::{Context, ScopeState};
use crate::settings::Settings;
use crate::ticket::Ticket;

/// Decides when each request is sent: a state machine without clock, lock, runtime or I/O.
///
/// Time is a duration since the epoch that the caller passes. [`Pacer`](crate::Pacer) adds a clock
/// and a lock.
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
#[derive(Debug, Default)]
pub struct Pacing {
    settings: Settings,
    scopes: HashMap<Scope, ScopeState>,
    next_ticket: u64,
    next_scope: u64,
    waiting: usize,
    has_news: bool,
    stats: Stats,
}

/// The next step of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send the request now.
    Go,
    /// Check again after this time, which is never past the request's deadline.
    Wait(Duration),
    /// Do not send the request.
    Refuse(Error),
}

/// What to do with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Return it.
    Done,
    /// Drop it, and check when to send the request again.
    Again,
}

/// Counters of a pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Scopes in memory now.
    pub scopes: usize,
    /// Requests that wait now.
    pub waiting: usize,
    /// Requests sent, including retries.
    pub sent: u64,
    /// Retries.
    pub retries: u64,
    /// Responses with status 429.
    pub refusals: u64,
    /// Requests that were not sent, with an error.
    pub refused: u64,
}

impl Pacing {
    /// Creates a state machine without knowledge of any server.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Starts a request and its deadline.
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

    /// Returns the next step of a request.
    pub fn ask(&mut self, ticket: &mut Ticket, now: Duration, random: &mut Random) -> Step {
        let step = match self.ask_scope(ticket, now, random) {
            Ok(Some(at)) => return Step::Wait(at.saturating_sub(now)),
            Ok(None) => {
                self.stats.sent += 1;
                self.stats.retries += u64::from(ticket.attempts > 1);
                Step::Go
            }
            Err(error) => {
                self.stats.refused += 1;
                Step::Refuse(error)
            }
        };
        self.stop_waiting(ticket);
        step
    }

    /// Learns from the response to a request that was sent.
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
            // All other scopes are needed, so this one is not stored.
            ticket.sent = None;
            return Next::Done;
        }
        let Some(scope) = self.scopes.get_mut(&ticket.scope) else { return Next::Done };
        let mut context = Context { now, random, settings: &self.settings };
        let (again, has_news) = scope.answer(ticket, answer, repeat, &mut context);
        self.has_news |= has_news;
        if again { Next::Again } else { Next::Done }
    }

    /// Ends a request that was answered, failed or cancelled. Its position in the queue becomes
    /// free.
    pub fn end(&mut self, ticket: &mut Ticket) {
        self.stop_waiting(ticket);
        if let Some(scope) = self.scopes.get_mut(&ticket.scope) {
            self.has_news |= scope.end(ticket);
        }
    }

    /// Returns `true` if waiting requests should check again because of changes since the last
    /// call.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.has_news)
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        Stats { scopes: self.scopes.len(), waiting: self.waiting, ..self.stats }
    }

    /// Returns `None` if the request is sent, otherwise the time to check again.
    fn ask_scope(
        &mut self,
        ticket: &mut Ticket,
        now: Duration,
        random: &mut Random,
    ) -> Result<Option<Duration>, Error> {
        self.make_room(&ticket.scope, now)?;
        let Some(scope) = self.scopes.get_mut(&ticket.scope) else { return Ok(None) };
        let at = scope.ask(ticket, &mut Context { now, random, settings: &self.settings })?;
        if at.is_some() && !ticket.is_waiting {
            if self.waiting >= self.settings.waiters_max {
                scope.end(ticket);
                return Err(Error::waiters(self.waiting));
            }
            self.waiting += 1;
            ticket.is_waiting = true;
        }
        Ok(at)
    }

    fn stop_waiting(&mut self, ticket: &mut Ticket) {
        if core::mem::take(&mut ticket.is_waiting) {
            self.waiting -= 1;
        }
    }

    /// Stores a scope, and removes the least recently used one if necessary.
    fn make_room(&mut self, scope: &Scope, now: Duration) -> Result<(), Error> {
        if self.scopes.contains_key(scope) {
            return Ok(());
        }
        if self.scopes.len() >= self.settings.scopes_max {
            let forgettable = self.scopes.iter().filter(|(_, state)| state.is_forgettable(now));
            let oldest = forgettable.min_by_key(|(_, state)| state.used_at);
            let oldest = oldest.map(|(scope, _)| scope.clone());
            let oldest = oldest.ok_or_else(|| Error::scopes(self.scopes.len()))?;
            self.scopes.remove(&oldest);
        }
        self.scopes.insert(scope.clone(), ScopeState::new(self.next_scope, &self.settings, now));
        self.next_scope += 1;
        Ok(())
    }
}
