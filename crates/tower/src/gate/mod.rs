//! One policy in front of a service.

mod ask;
mod count;
mod share;

use core::fmt;
use std::sync::Arc;

use slidegate::{Cost, Error, ErrorKind, Quota};

pub(crate) use ask::{Ask, Asked};
pub use count::{Count, Served};
pub use share::Share;

use crate::head::Head;
use crate::key::{KeyBy, PARTS_MAX, Part};
use crate::store::{AnyStore, StoreTier};

/// One policy in front of a service: where it counts, by what, how much, and whom not.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
/// use slidegate_tower::{Gate, KeyBy, Missing};
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100)?)?)?;
/// let gate = Gate::new(limiter)
///     .key(KeyBy::header("x-api-key"))
///     .missing(Missing::Peer)
///     .cost(|head| if head.method() == "GET" { Cost::ONE } else { Cost::new(5).unwrap_or(Cost::ONE) })
///     .exempt(|head| head.uri().path() == "/healthz");
/// # let _ = gate;
/// # Ok::<(), slidegate::Error>(())
/// ```
///
/// | setting | default |
/// |---|---|
/// | [`key`](Gate::key) | [`KeyBy::peer`] |
/// | [`missing`](Gate::missing) | [`Missing::Peer`] |
/// | [`cost`](Gate::cost) | one unit |
/// | [`count`](Gate::count) | [`Count::all`] |
/// | [`enforce_percent`](Gate::enforce_percent) | 100 |
///
/// Whether denials deny at all is the policy's [`Mode`](slidegate::Mode); what happens when its
/// store fails is its [`FailureMode`](slidegate::FailureMode). A function given here that panics is
/// answered by the failure mode too.
#[derive(Clone)]
pub struct Gate {
    store: AnyStore,
    key: KeyBy,
    missing: Missing,
    cost: Option<Arc<CostOf>>,
    tiers: Vec<StoreTier>,
    tier_by: Option<Arc<TierOf>>,
    filters: Vec<Filter>,
    count: Count,
    percent: u8,
    candidate: Option<AnyStore>,
}

type CostOf = dyn Fn(&Head<'_>) -> Cost + Send + Sync;
type TierOf = dyn Fn(&Head<'_>) -> Option<TierId> + Send + Sync;

/// Whom a gate is for.
#[derive(Clone)]
struct Filter {
    matches: Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>,
    /// Whether the gate is for those that match, or for the others.
    wanted: bool,
}

/// What happens to a request that has nothing to be counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Missing {
    /// It is counted by the peer's address, apart from all other keys.
    #[default]
    Peer,
    /// It is let through uncounted.
    Skip,
    /// It is turned away with 403: no wait would help.
    Deny,
}

/// Names a tier of one gate: see [`Gate::tier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TierId(pub(crate) usize);

/// The most tiers of a gate.
const TIERS_MAX: usize = 256;

impl Gate {
    /// The policy of a store: a [`Limiter`](slidegate::Limiter), an `Arc` of one, or any
    /// [`AnyStore`].
    pub fn new(store: impl Into<AnyStore>) -> Self {
        Self {
            store: store.into(),
            key: KeyBy::peer(),
            missing: Missing::default(),
            cost: None,
            tiers: Vec::new(),
            tier_by: None,
            filters: Vec::new(),
            count: Count::default(),
            percent: 100,
            candidate: None,
        }
    }

    /// By what requests are counted.
    #[must_use]
    pub fn key(mut self, key: KeyBy) -> Self {
        self.key = key;
        self
    }

    /// What happens to a request without a key.
    ///
    /// That the server does not know its peers is no missing key, but a mistake in how it is
    /// served: it is answered with 500 and a sentence that says what to do.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// How many units a request asks for.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Head<'_>) -> Cost + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Adds other quotas for some requests, to be chosen by [`Gate::tier_by`].
    ///
    /// # Errors
    ///
    /// When they do not fit the policy, there are more than 256, or the store has no tiers.
    pub fn tier(&mut self, quotas: &[Quota]) -> Result<TierId, Error> {
        if self.tiers.len() == TIERS_MAX {
            return Err(refused(format!("more than {TIERS_MAX} tiers: use fewer")));
        }
        self.tiers.push(self.store.tier(quotas)?);
        Ok(TierId(self.tiers.len() - 1))
    }

    /// Chooses the quotas of a request; `None` for the policy's own.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    /// use slidegate_tower::{Gate, KeyBy};
    ///
    /// #[derive(Clone)]
    /// struct Gold;
    ///
    /// let mut gate = Gate::new(Limiter::new(Policy::new("api", Quota::per_minute(10)?)?)?);
    /// let gold = gate.tier(&[Quota::per_minute(1000)?])?;
    /// let gate = gate
    ///     .key(KeyBy::header("x-api-key"))
    ///     // A layer outside of this one has looked the key up.
    ///     .tier_by(move |head| head.extensions().get::<Gold>().map(|_| gold));
    /// # let _ = gate;
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    #[must_use]
    pub fn tier_by(
        mut self,
        tier: impl Fn(&Head<'_>) -> Option<TierId> + Send + Sync + 'static,
    ) -> Self {
        self.tier_by = Some(Arc::new(tier));
        self
    }

    /// Leaves out the requests that match. May be called several times.
    #[must_use]
    pub fn exempt(self, matches: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.filter(matches, false)
    }

    /// Leaves out the requests that do not match. May be called several times.
    #[must_use]
    pub fn only(self, matches: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.filter(matches, true)
    }

    fn filter(
        mut self,
        matches: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static,
        wanted: bool,
    ) -> Self {
        self.filters.push(Filter { matches: Arc::new(matches), wanted });
        self
    }

    /// Which responses count.
    #[must_use]
    pub fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Enforces the policy for so many per cent of the keys; the others are judged as in shadow
    /// mode. Which keys these are hangs on their hash alone: a key that is in stays in.
    #[must_use]
    pub fn enforce_percent(mut self, percent: u8) -> Self {
        self.percent = percent;
        self
    }

    /// Judges every request by another policy too, which never denies. The observer is told what
    /// both would do.
    #[must_use]
    pub fn candidate(mut self, store: impl Into<AnyStore>) -> Self {
        self.candidate = Some(store.into());
        self
    }

    pub(crate) fn store(&self) -> &AnyStore {
        &self.store
    }

    pub(crate) fn candidate_store(&self) -> Option<&AnyStore> {
        self.candidate.as_ref()
    }

    pub(crate) fn counting(&self) -> &Count {
        &self.count
    }

    pub(crate) fn tier_of(&self, id: TierId) -> Option<&StoreTier> {
        self.tiers.get(id.0)
    }

    /// Whether all it asks is in this process.
    pub(crate) fn is_memory(&self) -> bool {
        self.store.is_memory() && self.candidate.as_ref().is_none_or(AnyStore::is_memory)
    }

    /// Whether its keys may leave the process.
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_memory()
    }

    /// Whether it asks for one unit by the peer's address, whatever the request.
    pub(crate) fn is_by_peer(&self) -> bool {
        self.key.is_peer() && !self.is_custom()
    }

    pub(crate) fn share(&self) -> Share {
        Share::new(self.percent).unwrap_or(Share::ALL)
    }

    /// Whether a function of the user's is called for a request.
    pub(crate) fn is_custom(&self) -> bool {
        let custom = |part: &Part| matches!(part, Part::Custom { .. });
        self.cost.is_some()
            || self.tier_by.is_some()
            || !self.filters.is_empty()
            || self.key.parts().iter().any(custom)
    }

    /// Finds what is wrong with it.
    pub(crate) fn check(&self, has_secret: bool) -> Result<(), Error> {
        let name = self.store.policy().name();
        let parts = self.key.parts();
        if parts.len() > PARTS_MAX {
            let count = parts.len();
            return Err(refused(format!(
                "gate {name:?}: a key of {count} parts is out of range: use 1 to {PARTS_MAX}"
            )));
        }
        if let Some(Part::Unusable(field)) =
            parts.iter().find(|part| matches!(part, Part::Unusable(_)))
        {
            return Err(refused(format!("gate {name:?}: {field:?} is no name of a header field")));
        }
        if self.percent > 100 {
            let percent = self.percent;
            return Err(refused(format!(
                "gate {name:?}: enforce_percent {percent} is out of range: use 0 to 100"
            )));
        }
        if self.is_shared() && !has_secret && parts.iter().any(Part::may_be_digest) {
            return Err(refused(format!(
                "gate {name:?} counts by {parts:?} in a shared store: all processes must hash \
                 alike, so give RateLimitLayerBuilder::secret the same 16 bytes in each"
            )));
        }
        Ok(())
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("store", &self.store)
            .field("key", &self.key)
            .field("missing", &self.missing)
            .field("count", &self.count)
            .field("tiers", &self.tiers.len())
            .field("percent", &self.percent)
            .field("candidate", &self.candidate)
            .finish_non_exhaustive()
    }
}
