//! Pacing with a clock and a lock, shared by the requests of a program.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Clock, MonotonicClock};
use tokio::sync::Notify;

use crate::paced_request::PacedRequest;
use crate::pacing::{Pacing, Stats};
use crate::random::Random;
use crate::scope::{Scope, Target};
use crate::settings::Settings;

/// [`Pacing`] with a clock and a lock, shared by the requests of a program.
///
/// It is cheap to clone, and clones share all state. Pass clones to all clients that call the same
/// servers, so that they learn from each other's responses.
///
/// ```
/// use slidegate_client::Pacer;
///
/// let pacer = Pacer::builder()
///     // Two groups of paths of one host, with separate quotas.
///     .scope(|target| match target.path().starts_with("/search") {
///         true => target.scope().and("search"),
///         false => target.scope(),
///     })
///     .build();
/// assert_eq!(pacer.stats().sent, 0);
/// ```
#[derive(Debug, Clone)]
pub struct Pacer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes waiting requests when they should check again.
    pub(crate) news: Notify,
    clock: Box<dyn Clock>,
    scope: ScopeOf,
}

/// Returns the scope of a request.
struct ScopeOf(Box<dyn Fn(&Target<'_>) -> Scope + Send + Sync>);

impl fmt::Debug for ScopeOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeOf")
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) pacing: Pacing,
    pub(crate) random: Random,
}

impl Pacer {
    /// Creates a pacer with the default settings.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> PacerBuilder {
        let scope = ScopeOf(Box::new(|target: &Target<'_>| target.scope()));
        PacerBuilder { settings: Settings::default(), clock: None, random: None, scope }
    }

    /// Returns the scope of a request.
    pub fn scope(&self, target: &Target<'_>) -> Scope {
        (self.shared.scope.0)(target)
    }

    /// Starts a request, which waits until it may be sent.
    pub fn request(&self, scope: Scope) -> PacedRequest {
        PacedRequest::new(Arc::clone(&self.shared), scope)
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        self.shared.state.lock().pacing.stats()
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }

    /// Runs `work` on the state, and wakes waiting requests if they should check again.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = work(&mut state);
        let has_news = state.pacing.take_news();
        drop(state);
        if has_news {
            self.news.notify_waiters();
        }
        result
    }
}

/// Builds a [`Pacer`].
#[derive(Debug)]
#[must_use = "call `build` to get a pacer"]
pub struct PacerBuilder {
    settings: Settings,
    clock: Option<Box<dyn Clock>>,
    random: Option<Random>,
    scope: ScopeOf,
}

impl PacerBuilder {
    /// Sets the settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the clock. The default is a [`MonotonicClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets the source of jitter. The default is seeded by the system.
    pub fn random(mut self, random: Random) -> Self {
        self.random = Some(random);
        self
    }

    /// Sets a function that returns the scope of a request. The default is [`Target::scope`], a
    /// host with its port.
    pub fn scope(mut self, scope: impl Fn(&Target<'_>) -> Scope + Send + Sync + 'static) -> Self {
        self.scope = ScopeOf(Box::new(scope));
        self
    }

    /// Builds the pacer.
    pub fn build(self) -> Pacer {
        let state = State {
            pacing: Pacing::new(self.settings),
            random: self.random.unwrap_or_else(Random::from_system),
        };
        Pacer {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                news: Notify::new(),
                clock: self.clock.unwrap_or_else(|| Box::new(MonotonicClock::new())),
                scope: self.scope,
            }),
        }
    }
}
