//! Builds a gate.

use std::sync::{Arc, OnceLock};

use slidegate::{
    Clock, Error, ErrorKind, FailureMode, IntoStore, Limiter, Mode, MonotonicClock, Quota, Store,
    StoreId, Tier, WithQuotas,
};

use crate::gate::{Candidate, Gate, TierId};
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::rollout::{Rollout, Share};

/// Builds a [`Gate`].
///
/// | setting | default |
/// |---|---|
/// | [`name`](Self::name) | the policy's |
/// | [`quotas`](Self::quotas) | the policy's |
/// | [`tier`](Self::tier) | none |
/// | [`rollout`](Self::rollout) | by the policy's [`Mode`](slidegate::Mode) |
/// | [`enforce_percent`](Self::enforce_percent) | 100 |
/// | [`candidate`](Self::candidate) | none |
/// | [`observer`](Self::observer), [`metrics`](Self::metrics) | none: nothing is counted |
#[derive(Debug)]
#[must_use = "call `build` to get a gate"]
pub struct GateBuilder {
    gate: Gate,
    quotas: Option<Vec<Quota>>,
    tiers: Vec<(String, Vec<Quota>)>,
    percent: u8,
    candidate: Option<CandidateSettings>,
    metrics: Option<Arc<Metrics>>,
}

#[derive(Debug)]
struct CandidateSettings {
    store: Arc<dyn Store>,
    quotas: Option<Vec<Quota>>,
}

/// The maximum number of tiers of a gate.
pub const TIERS_MAX: usize = 1024;

/// The memory limit of the limiter for [`FailureMode::Local`], for a store that leaves the failure
/// mode to the gate. It is enough for 600,000 keys; beyond that, the limiter over-counts.
const LOCAL_BYTES: usize = 64 << 20;

impl GateBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            gate: Gate::unconfigured(store),
            quotas: None,
            tiers: Vec::new(),
            percent: 100,
            candidate: None,
            metrics: None,
        }
    }

    /// Sets the name in metrics and audits. It also selects the keys of a percentage rollout.
    pub fn name(mut self, name: &str) -> Self {
        self.gate.name = name.into();
        self
    }

    /// Sets quotas that replace the policy's over the same state.
    pub fn quotas(mut self, quotas: impl Into<Vec<Quota>>) -> Self {
        self.quotas = Some(quotas.into());
        self
    }

    /// Adds quotas for some keys, under a name.
    pub fn tier(mut self, name: &str, quotas: impl Into<Vec<Quota>>) -> Self {
        self.tiers.push((name.to_owned(), quotas.into()));
        self
    }

    /// Sets whether denials are enforced.
    pub fn rollout(mut self, rollout: Rollout) -> Self {
        self.gate.rollout = rollout;
        self
    }

    /// Enforces denials for this percentage of the keys. The other keys are in shadow mode. A key
    /// that is enforced stays enforced when the percentage grows.
    pub fn enforce_percent(mut self, percent: u8) -> Self {
        self.percent = percent;
        self
    }

    /// Evaluates another policy for every request, without ever enforcing it.
    pub fn candidate(mut self, store: impl IntoStore) -> Self {
        let store = store.into_store();
        self.candidate = Some(CandidateSettings { store, quotas: None });
        self
    }

    /// Like [`candidate`](Self::candidate), with quotas that replace those of the store's policy.
    pub fn candidate_quotas(mut self, store: impl IntoStore, quotas: &[Quota]) -> Self {
        let (store, quotas) = (store.into_store(), Some(quotas.to_vec()));
        self.candidate = Some(CandidateSettings { store, quotas });
        self
    }

    /// Sets whether keys are secrets that must not be shown or logged.
    pub fn secret_keys(mut self, secret: bool) -> Self {
        self.gate.secret_keys = secret;
        self
    }

    /// Reports every decision to an observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.gate.observer = Some(observer);
        self
    }

    /// Counts every decision.
    pub fn metrics(mut self, metrics: &Arc<Metrics>) -> Self {
        self.metrics = Some(Arc::clone(metrics));
        self
    }

    /// Measures the time of decisions with `clock`. The default is the monotonic clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.gate.clock = clock;
        self
    }

    /// Checks the settings and builds the gate.
    ///
    /// # Errors
    ///
    /// Returns an error if quotas do not fit their policy, there are more than [`TIERS_MAX`] tiers,
    /// or the percentage is above 100.
    pub fn build(self) -> Result<Gate, Error> {
        let Self { mut gate, quotas, tiers, percent, candidate, metrics } = self;
        if tiers.len() > TIERS_MAX {
            let count = tiers.len();
            return Err(refused(format!("{count} tiers are too many: use at most {TIERS_MAX}")));
        }
        gate.share = Share::new(percent).ok_or_else(|| {
            let name = gate.name();
            refused(format!("gate {name:?}: {percent} percent is out of range: use 0 to 100"))
        })?;
        gate.own = own(&gate.store, quotas.as_deref())?;
        let tier =
            |(name, quotas): &(String, Vec<Quota>)| Ok((name.clone(), gate.store.tier(quotas)?));
        gate.tiers = tiers.iter().map(tier).collect::<Result<_, Error>>()?;
        gate.candidate = match candidate {
            Some(CandidateSettings { store, quotas }) => {
                let own = own(&store, quotas.as_deref())?;
                Some(Arc::new(Candidate { store, own }))
            }
            None => None,
        };
        let policy = gate.store.policy();
        if !gate.store.applies_failure_mode() && policy.failure_mode() == FailureMode::Local {
            gate.local = Some(Arc::new(LocalFallback::new(&gate)?));
        }
        gate.counters = metrics.map(|metrics| metrics.register(&gate));
        Ok(gate)
    }
}

/// Returns the quotas as a tier, unless they are those of the store's policy.
fn own(store: &Arc<dyn Store>, quotas: Option<&[Quota]>) -> Result<Option<Tier>, Error> {
    match quotas {
        Some(quotas) if quotas != store.policy().quotas() => store.tier(quotas).map(Some),
        _ => Ok(None),
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}

/// The limiter that decides in this process while a store fails.
#[derive(Debug)]
pub(crate) struct LocalFallback {
    pub(crate) limiter: Arc<Limiter>,
    own: Option<Tier>,
    /// In the order of the gate's tiers.
    tiers: Vec<Tier>,
}

impl LocalFallback {
    fn new(gate: &Gate) -> Result<Self, Error> {
        let policy = gate.store.policy().clone();
        let limiter = Limiter::builder(policy).memory_limit(LOCAL_BYTES).build()?;
        let tier = |tier: &Tier| limiter.tier(tier.quotas());
        let own = gate.own.as_ref().map(tier).transpose()?;
        let tiers = gate.tiers.iter().map(|(_, named)| tier(named)).collect::<Result<_, _>>()?;
        Ok(Self { limiter: Arc::new(limiter), own, tiers })
    }

    /// Returns the same fallback with other quotas over the same state.
    pub(crate) fn with_quotas(&self, quotas: &[Quota]) -> Result<Self, Error> {
        let own = Some(self.limiter.tier(quotas)?);
        Ok(Self { limiter: Arc::clone(&self.limiter), own, tiers: Vec::new() })
    }

    /// Returns the limiter with the quotas of a tier of the gate.
    pub(crate) fn with(&self, tier: Option<TierId>) -> WithQuotas<'_> {
        let tier = tier.and_then(|tier| self.tiers.get(tier.place)).or(self.own.as_ref());
        // The tiers were created by this limiter, so it accepts them.
        self.limiter.with(tier).unwrap_or_else(|_| WithQuotas::from(&self.limiter))
    }
}

/// Creates a gate in front of a limiter in memory.
impl From<Limiter> for Gate {
    fn from(limiter: Limiter) -> Self {
        Self::from(Arc::new(limiter))
    }
}

impl From<Arc<Limiter>> for Gate {
    fn from(limiter: Arc<Limiter>) -> Self {
        Self::unconfigured(limiter)
    }
}

#[cfg(feature = "redis")]
impl From<slidegate_redis::RedisLimiter> for Gate {
    fn from(limiter: slidegate_redis::RedisLimiter) -> Self {
        Self::from(Arc::new(limiter))
    }
}

#[cfg(feature = "redis")]
impl From<Arc<slidegate_redis::RedisLimiter>> for Gate {
    fn from(limiter: Arc<slidegate_redis::RedisLimiter>) -> Self {
        Self::unconfigured(limiter)
    }
}

impl Gate {
    /// Creates a gate with the defaults, in front of a store that applies the failure mode itself.
    pub(crate) fn unconfigured(store: Arc<dyn Store>) -> Self {
        let rollout = match store.policy().mode() {
            Mode::Shadow => Rollout::Shadow,
            Mode::Enforce => Rollout::Enforce,
        };
        Self {
            name: store.policy().name().into(),
            store,
            own: None,
            id: StoreId::unique(),
            tiers: Arc::from([]),
            rollout,
            share: Share::ALL,
            candidate: None,
            local: None,
            secret_keys: false,
            counters: None,
            observer: None,
            clock: default_clock(),
        }
    }
}

/// Returns the default clock, which all gates share.
fn default_clock() -> Arc<dyn Clock> {
    static CLOCK: OnceLock<Arc<MonotonicClock>> = OnceLock::new();
    Arc::clone(CLOCK.get_or_init(|| Arc::new(MonotonicClock::new()))) as Arc<dyn Clock>
}
