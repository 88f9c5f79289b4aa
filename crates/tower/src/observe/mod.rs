//! Who is told what gates and guards do.

#[cfg(feature = "tracing")]
mod events;
mod metrics;

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "tracing")]
pub(crate) use events::Events;
pub use metrics::Metrics;

/// Is told what gates and guards do, for metrics and audits.
///
/// It is called while a request waits, so it should be quick. A panic of its is caught and
/// changes nothing. Nothing that a client sends is among what it is told: labels made of it are as
/// few as the configuration has names.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use slidegate_tower::{Judgement, Observer};
///
/// #[derive(Default)]
/// struct Denials(AtomicU64);
///
/// impl Observer for Denials {
///     fn judged(&self, judgement: &Judgement<'_>) {
///         if judgement.happened().is_rejected() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// A gate has judged a request.
    fn judged(&self, judgement: &Judgement<'_>);

    /// An overload guard has let a request go, or sent it away.
    fn guarded(&self, guarded: &Guarded<'_>) {
        let _ = guarded;
    }
}

/// What one gate made of one request.
#[derive(Debug, Clone, Copy)]
pub struct Judgement<'a> {
    pub(crate) policy: &'a str,
    pub(crate) happened: Happened,
    pub(crate) enforcement: Enforcement,
    pub(crate) degraded: bool,
    pub(crate) waited: bool,
    pub(crate) candidate: Option<(&'a str, Happened)>,
    pub(crate) took: Duration,
}

/// What happened to a request at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happened {
    /// It was let through.
    Allowed,
    /// A quota was used up.
    Denied,
    /// There was room, but another gate turned the request away: nothing was taken.
    DeniedByOther,
    /// It would have been denied, were the policy enforced for it.
    ShadowDenied,
    /// The store failed, and the policy denies then.
    StoreFailed,
    /// There was nothing to count it by, and the gate denies then.
    NoKey,
    /// The server does not know its peers, a mistake in how it is served.
    NoPeer,
}

/// Whether a gate's denials deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Enforcement {
    /// They do.
    Enforce,
    /// They do for some per cent of the keys.
    Canary,
    /// They do not.
    Shadow,
}

/// What an overload guard made of one request.
#[derive(Debug, Clone, Copy)]
pub struct Guarded<'a> {
    pub(crate) guard: &'a str,
    pub(crate) shed: bool,
    pub(crate) queued: Duration,
}

impl<'a> Judgement<'a> {
    /// The name of the policy.
    pub fn policy(&self) -> &'a str {
        self.policy
    }

    /// What happened.
    pub fn happened(&self) -> Happened {
        self.happened
    }

    /// Whether the gate's denials deny.
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    /// Whether the store failed or a function panicked, so that the failure mode answered.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether the request waited for units.
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    /// The name of the candidate policy and what would have happened by it.
    pub fn candidate(&self) -> Option<(&'a str, Happened)> {
        self.candidate
    }

    /// How long all gates of the layer took to decide, waiting for units included.
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl Happened {
    /// Whether the request was turned away at this gate.
    pub fn is_rejected(self) -> bool {
        !matches!(self, Self::Allowed | Self::DeniedByOther | Self::ShadowDenied)
    }

    /// One word, for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::DeniedByOther => "denied_by_other",
            Self::ShadowDenied => "shadow_denied",
            Self::StoreFailed => "store_failed",
            Self::NoKey => "no_key",
            Self::NoPeer => "no_peer",
        }
    }

    pub(crate) const ALL: [Self; 7] = [
        Self::Allowed,
        Self::Denied,
        Self::DeniedByOther,
        Self::ShadowDenied,
        Self::StoreFailed,
        Self::NoKey,
        Self::NoPeer,
    ];
}

impl Enforcement {
    /// One word, for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Canary => "canary",
            Self::Shadow => "shadow",
        }
    }
}

impl<'a> Guarded<'a> {
    /// The name of the guard.
    pub fn guard(&self) -> &'a str {
        self.guard
    }

    /// Whether the request was sent away.
    pub fn is_shed(&self) -> bool {
        self.shed
    }

    /// How long it was queued.
    pub fn queued(&self) -> Duration {
        self.queued
    }
}

/// Calls a function of the user's whose failure must change nothing.
pub(crate) fn tell(call: impl FnOnce()) {
    // What an observer leaves half done is its own.
    let _ = catch_unwind(AssertUnwindSafe(call));
}
