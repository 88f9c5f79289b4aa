//! What the requests of a program share: pacing with a clock and a lock.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Clock, MonotonicClock};
use tokio::sync::Notify;

use crate::pacing::{Pacing, Stats};
use crate::random::Random;
use crate::scope::{Scope, Target};
use crate::settings::Settings;
use crate::turn::Turn;

/// What the requests of a program share: [`Pacing`] with a clock and a lock.
///
/// Cheap to clone; clones share everything. Give clones to all clients that call the same
/// servers, so that they learn from each other's answers.
///
/// ```
/// use slidegate_client::Pacer;
///
/// let pacer = Pacer::builder()
///     // Two groups of paths of one host, with quotas of their own.
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

pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    /// Wakes those who wait when something was learned for which they should ask again.
    pub(crate) news: Notify,
    clock: Box<dyn Clock>,
    scope: Box<ScopeOf>,
}

/// How the scope of a request is found.
type ScopeOf = dyn Fn(&Target<'_>) -> Scope + Send + Sync;

pub(crate) struct State {
    pub(crate) pacing: Pacing,
    pub(crate) random: Random,
}

impl Pacer {
    /// With everything by default.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts with everything by default.
    pub fn builder() -> PacerBuilder {
        PacerBuilder { settings: Settings::default(), clock: None, random: None, scope: None }
    }

    /// The scope of a request.
    pub fn scope(&self, target: &Target<'_>) -> Scope {
        (self.shared.scope)(target)
    }

    /// A request arrives: its turn is to be waited for.
    pub fn turn(&self, scope: Scope) -> Turn {
        Turn::new(Arc::clone(&self.shared), scope)
    }

    /// What has happened so far.
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
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// Builds a [`Pacer`].
#[must_use = "call `build` to get a pacer"]
pub struct PacerBuilder {
    settings: Settings,
    clock: Option<Box<dyn Clock>>,
    random: Option<Random>,
    scope: Option<Box<ScopeOf>>,
}

impl PacerBuilder {
    /// Other settings than the defaults.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Takes time from `clock`, for tests; [`MonotonicClock`] unless told.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Takes jitter from `random`, for tests; seeded by the system unless told.
    pub fn random(mut self, random: Random) -> Self {
        self.random = Some(random);
        self
    }

    /// Chooses what shares quotas; [`Target::scope`] unless told, which is a host with its port.
    pub fn scope(mut self, scope: impl Fn(&Target<'_>) -> Scope + Send + Sync + 'static) -> Self {
        self.scope = Some(Box::new(scope));
        self
    }

    /// Makes the pacer.
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
                scope: self.scope.unwrap_or_else(|| Box::new(usual_scope)),
            }),
        }
    }
}

impl fmt::Debug for PacerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacerBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn usual_scope(target: &Target<'_>) -> Scope {
    target.scope()
}
