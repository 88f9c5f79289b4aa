//! Observers of gates and their events.

use core::fmt;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::HeaderMap;
use slidegate::{Cost, Decision};
use slidegate_http::TraceParent;

use crate::gate::{Gate, TierId};

/// Observes every decision, for audits, traces and custom metrics.
///
/// It is called on the path of the request, so it must be fast and must not block. A panic is
/// caught and changes nothing.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use slidegate_gate::{Observation, Observer};
///
/// #[derive(Debug, Default)]
/// struct Denials(AtomicU64);
///
/// impl Observer for Denials {
///     fn decided(&self, observation: &Observation<'_>) {
///         if observation.outcome.is_rejected() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Called after a gate has decided about a request.
    fn decided(&self, observation: &Observation<'_>);

    /// Returns `false` while decisions must not be made because they could not be recorded. Gates then
    /// deny every request that they enforce, with the outcome [`GateOutcome::Unrecorded`].
    fn can_record(&self) -> bool {
        true
    }

    /// Called after an overload guard has admitted or rejected a request.
    fn guarded(&self, event: &GuardEvent<'_>) {
        let _ = event;
    }
}

/// Calls every observer, in order.
impl Observer for Vec<Arc<dyn Observer>> {
    fn decided(&self, observation: &Observation<'_>) {
        for observer in self {
            observer.decided(observation);
        }
    }

    fn can_record(&self) -> bool {
        self.iter().all(|observer| observer.can_record())
    }

    fn guarded(&self, event: &GuardEvent<'_>) {
        for observer in self {
            observer.guarded(event);
        }
    }
}

/// A decision of one gate, with its request.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// The gate that decided.
    pub gate: &'a Gate,
    /// The key, or an empty slice if the request had none. It may be a secret: see
    /// [`Gate::has_secret_keys`].
    pub key: &'a [u8],
    /// The tier whose quotas applied.
    pub tier: Option<TierId>,
    /// The units requested.
    pub cost: Cost,
    /// The decision, or `None` if the request was rejected before the store was called.
    pub decision: Option<&'a Decision>,
    /// The outcome of the request at this gate.
    pub outcome: GateOutcome,
    /// Whether the failure mode decided.
    pub is_degraded: bool,
    /// Whether the request waited for units.
    pub has_waited: bool,
    /// Whether the candidate would have denied the request, or `None` without a candidate.
    pub candidate_denies: Option<bool>,
    /// The time to decide, for all gates of the request together, including waiting.
    pub took: Duration,
    /// The origin of the request.
    pub caller: Caller<'a>,
}

/// Omits the key, which may be a secret.
impl fmt::Debug for Observation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("policy", &self.gate.name())
            .field("outcome", &self.outcome)
            .field("took", &self.took)
            .finish_non_exhaustive()
    }
}

/// The outcome of a request at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateOutcome {
    /// The request was allowed.
    Allowed,
    /// A quota was used up.
    Denied,
    /// This gate would have allowed the request, but another gate denied it, so nothing was taken.
    DeniedByOther,
    /// The request would have been denied if the policy were enforced for its key.
    ShadowDenied,
    /// The store failed, and the failure mode is to deny.
    StoreFailed,
    /// The request had no key, and the gate denies such requests.
    NoKey,
    /// The server does not pass on peer addresses, which is an error in its setup.
    NoPeer,
    /// The gate is switched off.
    Off,
    /// The observer could not record the decision, so the request was denied without one.
    Unrecorded,
    /// The request had a tier of another gate, which is an error in the program. It was denied.
    ForeignTier,
}

impl GateOutcome {
    /// All outcomes, in the order of the variants.
    pub const ALL: [Self; 10] = [
        Self::Allowed,
        Self::Denied,
        Self::DeniedByOther,
        Self::ShadowDenied,
        Self::StoreFailed,
        Self::NoKey,
        Self::NoPeer,
        Self::Off,
        Self::Unrecorded,
        Self::ForeignTier,
    ];

    /// Returns whether this gate rejected the request.
    pub fn is_rejected(self) -> bool {
        match self {
            Self::Denied
            | Self::StoreFailed
            | Self::NoKey
            | Self::NoPeer
            | Self::Unrecorded
            | Self::ForeignTier => true,
            Self::Allowed | Self::DeniedByOther | Self::ShadowDenied | Self::Off => false,
        }
    }

    /// Returns the value of the label `outcome`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::DeniedByOther => "denied_by_other",
            Self::ShadowDenied => "shadow_denied",
            Self::StoreFailed => "store_failed",
            Self::NoKey => "no_key",
            Self::NoPeer => "no_peer",
            Self::Off => "off",
            Self::Unrecorded => "unrecorded",
            Self::ForeignTier => "foreign_tier",
        }
    }
}

/// A request that an overload guard admitted or rejected.
#[derive(Debug, Clone, Copy)]
pub struct GuardEvent<'a> {
    /// The name of the guard.
    pub guard: &'a str,
    /// Whether the request was rejected.
    pub is_shed: bool,
    /// The time the request spent in the queue.
    pub queued: Duration,
}

/// The origin of a request.
///
/// It has two words, so that every call can carry it. The header fields are read only when an
/// observer needs them.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    listener: Listener,
    fields: Option<&'a HeaderMap>,
}

/// The kind of listener that a request came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// None: called within the process.
    InProcess,
    /// HTTP.
    Http,
    /// gRPC.
    Grpc,
    /// The Redis protocol.
    Resp,
}

impl Caller<'static> {
    /// A call within the process.
    pub const IN_PROCESS: Self = Self { listener: Listener::InProcess, fields: None };
    /// A command of the Redis protocol, which has no header fields.
    pub const RESP: Self = Self { listener: Listener::Resp, fields: None };
}

impl<'a> Caller<'a> {
    /// An HTTP request with these header fields.
    pub fn http(fields: &'a HeaderMap) -> Self {
        Self { listener: Listener::Http, fields: Some(fields) }
    }

    /// A gRPC call with this metadata.
    pub fn grpc(metadata: &'a HeaderMap) -> Self {
        Self { listener: Listener::Grpc, fields: Some(metadata) }
    }

    /// Returns the kind of listener.
    pub fn listener(&self) -> Listener {
        self.listener
    }

    /// Returns the trace that the request belongs to.
    pub fn trace(&self) -> Option<TraceParent<'a>> {
        self.fields.and_then(TraceParent::of)
    }
}

impl Listener {
    /// Returns the name, as in the daemon's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProcess => "inside",
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
        }
    }
}

/// Omits the header fields, which may contain secrets.
impl fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Calls a user's function and ignores a panic.
pub fn catch_panic(call: impl FnOnce()) {
    // The call does not access state of this crate, so a panic cannot leave it inconsistent.
    let _ = catch_unwind(AssertUnwindSafe(call));
}
