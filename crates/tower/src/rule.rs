//! A gate with the requests that it applies to.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use slidegate::{Cost, Error, ErrorKind};
use slidegate_gate::{Gate, TierId};
use slidegate_http::{PathPattern, QuotaUnit, RequestPath};

use crate::count::Count;
use crate::head::Head;
use crate::key::{Absent, Digest, KeyBy, KeyBytes, PARTS_MAX, Part, fallback};
use crate::partition_key::PartitionKey;

/// A gate with the requests that it applies to, the key that they are counted by, and
/// their cost.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
/// use slidegate_tower::{KeyBy, Missing, Rule};
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100))?)?;
/// let rule = Rule::new(limiter)
///     .key(KeyBy::header("x-api-key"))
///     .missing(Missing::Peer)
///     .cost(|head| if head.method() == "GET" { Cost::ONE } else { Cost::new(5).unwrap_or(Cost::ONE) })
///     .exempt(|head| head.uri().path() == "/healthz");
/// # let _ = rule;
/// # Ok::<(), slidegate::Error>(())
/// ```
///
/// | setting | default |
/// |---|---|
/// | [`key`](Rule::key) | [`KeyBy::peer`] |
/// | [`missing`](Rule::missing) | [`Missing::Peer`] |
/// | [`cost`](Rule::cost) | one unit |
/// | [`tier_by`](Rule::tier_by) | the policy's own quotas |
/// | [`count`](Rule::count) | [`Count::all`] |
/// | [`unit`](Rule::unit) | [`QuotaUnit::REQUESTS`] |
/// | [`partition_key`](Rule::partition_key) | none |
///
/// Tiers, rollout, candidates and custom stores are settings of the [`Gate`]: see
/// [`Gate::builder`]. If a function given here panics, the policy's
/// [`FailureMode`](slidegate::FailureMode) decides.
#[derive(Clone)]
pub struct Rule {
    pub(crate) gate: Gate,
    key: KeyBy,
    missing: Missing,
    cost: Option<Arc<CostOf>>,
    tier_by: Option<Arc<TierOf>>,
    filters: Vec<Filter>,
    pub(crate) count: Count,
    pub(crate) unit: QuotaUnit,
    partition_key: Option<PartitionKey>,
    /// Whether a user's function is called for each request. Set when the layer is built.
    is_custom: bool,
    /// Whether keys leave the process. Set when the layer is built.
    is_shared: bool,
}

type CostOf = dyn Fn(&Head<'_>) -> Cost + Send + Sync;
type TierOf = dyn Fn(&Head<'_>) -> Option<TierId> + Send + Sync;

/// Selects the requests that a rule applies to.
#[derive(Clone)]
struct Filter {
    matches: Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>,
    /// Whether the rule applies to the matching requests or to the others.
    wanted: bool,
}

/// The treatment of a request without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Missing {
    /// The request is counted by the peer's address, separately from all other keys.
    #[default]
    Peer,
    /// The request is allowed without being counted.
    Skip,
    /// The request is rejected with 403, because no wait would help.
    Deny,
}

/// A check of one rule.
#[derive(Clone)]
pub(crate) struct RuleAsk {
    pub(crate) key: KeyBytes,
    pub(crate) cost: Cost,
    pub(crate) tier: Option<TierId>,
    /// The partition key of the response.
    pub(crate) partition_key: Option<Box<[u8]>>,
}

/// The reason why the gate does not check a request.
#[derive(Clone, Copy)]
pub(crate) enum SkipReason {
    /// The rule does not apply to this request.
    Skip,
    /// The request has no key, and the rule denies such requests, or has several.
    NoKey,
    /// The server does not pass on peer addresses.
    NoPeer,
    /// A user's function panicked.
    Panicked,
    /// The tier belongs to another gate.
    ForeignTier,
}

impl Rule {
    /// Creates a rule for a [`Gate`], or for a limiter with the defaults of a gate.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self {
            gate: gate.into(),
            key: KeyBy::peer(),
            missing: Missing::default(),
            cost: None,
            tier_by: None,
            filters: Vec::new(),
            count: Count::default(),
            unit: QuotaUnit::REQUESTS,
            partition_key: None,
            is_custom: true,
            is_shared: true,
        }
    }

    /// Sets the key that requests are counted by.
    #[must_use]
    pub fn key(mut self, key: KeyBy) -> Self {
        self.key = key;
        self
    }

    /// Sets the treatment of a request without a key.
    ///
    /// If the server does not provide peer addresses, its setup is wrong, and the key is not just
    /// missing: the response is a 500 that describes the fix.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Sets the number of units that a request costs.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Head<'_>) -> Cost + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Sets a function that returns the tier of a request, or `None` for the quotas of the policy.
    /// With a tier of another gate, an enforced gate denies: 503.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    /// use slidegate_tower::{Gate, KeyBy, Rule};
    ///
    /// #[derive(Clone)]
    /// struct Gold;
    ///
    /// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10))?)?;
    /// let gate = Gate::builder(limiter).tier("gold", [Quota::per_minute(1000)]).build()?;
    /// let gold = gate.tier("gold");
    /// let rule = Rule::new(gate)
    ///     .key(KeyBy::header("x-api-key"))
    ///     // An outer layer has looked the key up.
    ///     .tier_by(move |head| head.extensions().get::<Gold>().and(gold));
    /// # let _ = rule;
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

    /// Excludes the requests that match. May be called several times.
    ///
    /// A client chooses the notation of a path: exclude by comparing the whole path, never its
    /// start, which `/static/../login` has too.
    #[must_use]
    pub fn exempt(self, matches: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.filter(matches, false)
    }

    /// Excludes the requests that do not match. May be called several times.
    #[must_use]
    pub fn only(self, matches: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.filter(matches, true)
    }

    /// Excludes the requests whose paths match none of the patterns. May be called several times.
    ///
    /// Unlike a comparison of `head.uri().path()`, a pattern also matches `/login/`, `//login` and
    /// other notations with which a client could get around the rule: see [`RequestPath`].
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    /// use slidegate_tower::{PathPattern, Rule};
    ///
    /// let limiter = Limiter::new(Policy::new("login", Quota::per_minute(5))?)?;
    /// let rule = Rule::new(limiter).paths([PathPattern::new("/login"), PathPattern::new("/otp/*")]);
    /// # let _ = rule;
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    #[must_use]
    pub fn paths(self, patterns: impl IntoIterator<Item = PathPattern<'static>>) -> Self {
        let patterns: Vec<_> = patterns.into_iter().collect();
        self.only(move |head| {
            let path = RequestPath::new(head.uri().path());
            patterns.iter().any(|pattern| pattern.matches(&path))
        })
    }

    fn filter(
        mut self,
        matches: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static,
        wanted: bool,
    ) -> Self {
        self.filters.push(Filter { matches: Arc::new(matches), wanted });
        self
    }

    /// Sets which responses count.
    #[must_use]
    pub fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Sets the unit that clients see: `qu` in `RateLimit-Policy`. The default is requests.
    ///
    /// It does not change what is counted. [`cost`](Rule::cost) does that.
    #[must_use]
    pub fn unit(mut self, unit: QuotaUnit) -> Self {
        self.unit = unit;
        self
    }

    /// Adds the partition key `pk` to `RateLimit` and `RateLimit-Policy`. There is none by default.
    ///
    /// A client that sends requests for several keys, for example on behalf of several users, can
    /// then keep their quotas separate.
    #[must_use]
    pub fn partition_key(mut self, key: PartitionKey) -> Self {
        self.partition_key = Some(key);
        self
    }

    /// Prepares the rule when its settings are final.
    pub(crate) fn prepare(&mut self) {
        let custom = |part: &Part| matches!(part, Part::Custom { .. });
        self.is_custom = self.cost.is_some()
            || self.tier_by.is_some()
            || !self.filters.is_empty()
            || self.partition_key.is_some()
            || self.key.parts().iter().any(custom);
        self.is_shared = !self.gate.is_in_process();
    }

    /// Returns `true` if more of a decision than its numbers is needed after the response.
    pub(crate) fn keeps_decision(&self) -> bool {
        self.may_uncount() || self.partition_key.is_some()
    }

    /// Returns `true` if the units of a request may have to be refunded after its response.
    pub(crate) fn may_uncount(&self) -> bool {
        !self.count.is_all()
    }

    /// Translates a request.
    #[inline]
    pub(crate) fn translate(
        &self,
        head: &Head<'_>,
        digest: &Digest,
    ) -> Result<RuleAsk, SkipReason> {
        if !self.is_custom {
            return self.translate_plainly(head, digest);
        }
        // The rule is only read, so a panic cannot leave it inconsistent.
        catch_unwind(AssertUnwindSafe(|| self.translate_filtered(head, digest)))
            .unwrap_or(Err(SkipReason::Panicked))
    }

    fn translate_filtered(&self, head: &Head<'_>, digest: &Digest) -> Result<RuleAsk, SkipReason> {
        if self.filters.iter().any(|filter| (filter.matches)(head) != filter.wanted) {
            return Err(SkipReason::Skip);
        }
        let mut ask = self.translate_plainly(head, digest)?;
        ask.cost = self.cost.as_ref().map_or(Cost::ONE, |cost| cost(head));
        ask.tier = self.tier_by.as_ref().and_then(|tier| tier(head));
        if ask.tier.is_some_and(|tier| self.gate.tier_name(tier).is_none()) {
            return Err(SkipReason::ForeignTier);
        }
        if let Some(partition_key) = &self.partition_key {
            ask.partition_key = partition_key.of(head, ask.key.as_slice(), digest);
        }
        Ok(ask)
    }

    #[inline]
    fn translate_plainly(&self, head: &Head<'_>, digest: &Digest) -> Result<RuleAsk, SkipReason> {
        let key = match self.key.of(head, digest, self.is_shared) {
            Ok(key) => key,
            Err(Absent::Peer) => return Err(SkipReason::NoPeer),
            Err(Absent::Several) => return Err(SkipReason::NoKey),
            Err(Absent::Part) => match self.missing {
                Missing::Skip => return Err(SkipReason::Skip),
                Missing::Deny => return Err(SkipReason::NoKey),
                Missing::Peer => fallback(head).map_err(|_| SkipReason::NoPeer)?,
            },
        };
        Ok(RuleAsk { key, cost: Cost::ONE, tier: None, partition_key: None })
    }

    /// Returns an error if a setting is invalid.
    pub(crate) fn validate(&self, has_secret: bool) -> Result<(), Error> {
        let name = self.gate.name();
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
            return Err(refused(format!("gate {name:?}: {field:?} is not a header field name")));
        }
        let is_shared = !self.gate.is_in_process();
        if is_shared && !has_secret && parts.iter().any(Part::may_be_digest) {
            return Err(refused(format!(
                "gate {name:?} counts by {parts:?} in a shared store: all processes must use the same hash, so set RateLimitLayerBuilder::secret to the same 16 bytes in each"
            )));
        }
        Ok(())
    }
}

pub(crate) fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("gate", &self.gate)
            .field("key", &self.key)
            .field("missing", &self.missing)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
