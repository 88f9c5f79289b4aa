//! A gate: one policy with its store.

use std::sync::{Arc, LazyLock};

use napi::bindgen_prelude::{Either, Float64Array, Function, PromiseRaw, ToNapiValue, TypeName};
use napi::{Env, Result};
use napi_derive::napi;
use slidegate::{Cost, DegradedReason, ManualClock};
use slidegate_bindings::{Config, MemoryOptions, PolicyOptions, run_now, sleep};
use slidegate_gate::{Caller, Gate, Metrics, TierId, WaitOptions};
use slidegate_http::QuotaUnit;

use crate::clock::NativeClock;
use crate::decision;
use crate::error::{invalid, thrown};
use crate::fast::GateNumber;
use crate::store::{NativeStore, warning};

/// The metrics of all gates of this process.
static METRICS: LazyLock<Arc<Metrics>> = LazyLock::new(|| Arc::new(Metrics::new()));

/// A policy with its store.
#[napi]
#[derive(Debug)]
pub struct NativeGate {
    pub(crate) gate: Gate,
    pub(crate) unit: QuotaUnit,
    pub(crate) waiting: WaitOptions,
    tiers: Vec<TierId>,
    number: GateNumber,
}

/// A value now if the store is in memory, otherwise a promise.
pub(crate) type NowOrLater<'env, T> = Either<T, PromiseRaw<'env, T>>;

#[napi]
impl NativeGate {
    /// Creates a gate from the options of a policy, in memory.
    #[napi(factory, catch_unwind)]
    pub fn in_memory(
        policy: String,
        memory: String,
        clock: Option<&NativeClock>,
    ) -> Result<NativeGate> {
        let clock = clock.map(|clock| &clock.0);
        let make = || {
            let policy = PolicyOptions::from_json(&policy)?;
            let place = MemoryOptions::from_json(&memory)?.place(&policy)?;
            Ok(Self::new(policy.gate(&place, clock, &METRICS)?, policy.unit()?, clock))
        };
        make().map_err(thrown)
    }

    /// Creates a gate from the options of a policy, in Redis.
    #[napi(factory, catch_unwind)]
    pub fn in_redis(policy: String, store: &NativeStore) -> Result<NativeGate> {
        let make = || {
            let policy = PolicyOptions::from_json(&policy)?;
            Ok(Self::new(policy.gate(&store.0, None, &METRICS)?, policy.unit()?, None))
        };
        make().map_err(thrown)
    }

    /// The name of the policy.
    #[napi(getter, catch_unwind)]
    pub fn name(&self) -> String {
        self.gate.name().to_owned()
    }

    /// The names of the tiers, in the order of their numbers.
    #[napi(getter, catch_unwind)]
    pub fn tiers(&self) -> Vec<String> {
        self.gate.tier_names().map(str::to_owned).collect()
    }

    /// The number of the gate for `check_now`.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// Whether every call returns its result without a promise.
    #[napi(getter, catch_unwind)]
    pub fn is_in_process(&self) -> bool {
        self.gate.is_in_process()
    }

    /// The limit and the window in milliseconds of each quota of a tier.
    #[napi(catch_unwind)]
    pub fn quotas(&self, tier: i32) -> Result<Vec<f64>> {
        let quotas = self.gate.quotas(self.tier(tier)?).iter();
        let pair = |quota: &slidegate::Quota| {
            [decision::number(quota.limit()), crate::clock::millis(quota.window())]
        };
        Ok(quotas.flat_map(pair).collect())
    }

    /// Denies a request without a key. Returns `false` if the policy is not enforced for all keys.
    #[napi(catch_unwind)]
    pub fn deny_without_key(&self) -> bool {
        self.gate.deny_without_key(Caller::IN_PROCESS)
    }

    /// Checks a request in Redis.
    #[napi(catch_unwind)]
    pub fn check_later<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
        cost: f64,
    ) -> Result<PromiseRaw<'env, Float64Array>> {
        let (gate, tier, cost) = (self.gate.clone(), self.tier(tier)?, units(cost)?);
        env.spawn_future(async move {
            let decided = gate.check(key.as_bytes(), tier, cost, Caller::IN_PROCESS).await;
            Ok(Float64Array::new(decision::numbers(&decided)))
        })
    }
}

impl NativeGate {
    fn new(gate: Gate, unit: QuotaUnit, clock: Option<&ManualClock>) -> Self {
        let waiting = WaitOptions::new(core::time::Duration::ZERO, sleep(clock));
        let tiers: Vec<TierId> = gate.tier_names().filter_map(|name| gate.tier(name)).collect();
        let number = GateNumber::new(&gate, &tiers);
        Self { gate, unit, waiting, tiers, number }
    }

    /// Returns the tier of a number, none for a negative one.
    pub(crate) fn tier(&self, number: i32) -> Result<Option<TierId>> {
        find_tier(&self.tiers, number)
    }

    /// Runs a call of the gate: at once in memory, otherwise in the runtime's threads.
    pub(crate) fn run<'env, T, F>(&self, env: &'env Env, call: F) -> Result<NowOrLater<'env, T>>
    where
        T: ToNapiValue + TypeName + Send + 'static,
        F: Future<Output = core::result::Result<T, slidegate::Error>> + Send + 'static,
    {
        if self.gate.is_in_process() {
            let result = run_now(call).ok_or_else(not_in_memory)?;
            return result.map(Either::A).map_err(thrown);
        }
        env.spawn_future(async move { call.await.map_err(thrown) }).map(Either::B)
    }
}

/// Returns the tier of a number, none for a negative one.
pub(crate) fn find_tier(tiers: &[TierId], number: i32) -> Result<Option<TierId>> {
    let Ok(place) = usize::try_from(number) else { return Ok(None) };
    match tiers.get(place) {
        Some(tier) => Ok(Some(*tier)),
        None => Err(invalid(format!("there is no tier {number}"))),
    }
}

/// Creates the gates of a file of the daemon. `warn` receives warnings.
#[napi(catch_unwind)]
pub fn gates_of_yaml(
    yaml: String,
    warn: Function<'_, String, ()>,
    clock: Option<&NativeClock>,
) -> Result<Vec<NativeGate>> {
    let (warn, clock) = (warning(&warn)?, clock.map(|clock| &clock.0));
    let make = || {
        let config = Config::from_yaml(&yaml)?;
        let gates = config.gates(clock, &METRICS, &warn)?.into_iter().zip(&config.policies);
        let make = |(gate, policy): (Gate, &PolicyOptions)| {
            Ok(NativeGate::new(gate, policy.unit()?, clock))
        };
        gates.map(make).collect::<core::result::Result<Vec<_>, _>>()
    };
    make().map_err(thrown)
}

/// Returns the metrics of all gates of this process in the format of Prometheus.
#[napi(catch_unwind)]
pub fn metrics() -> String {
    METRICS.render()
}

/// Returns the names of the reasons why a store did not decide, in the order of their numbers.
#[napi(catch_unwind)]
pub fn degraded_reasons() -> Vec<String> {
    DegradedReason::ALL.iter().map(|reason| reason.name().to_owned()).collect()
}

/// Returns the cost of a number of units.
pub(crate) fn units(units: f64) -> Result<Cost> {
    Cost::new(whole(units)?).map_err(thrown)
}

/// Returns a number of units, which may be zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(crate) fn whole(units: f64) -> Result<u64> {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if units.fract() == 0.0 && (0.0..=MAX).contains(&units) {
        return Ok(units as u64);
    }
    let message = format!("cost {units} is out of range: use an integer of 1 to {MAX}");
    Err(thrown(slidegate::Error::new(slidegate::ErrorKind::Cost, message)))
}

pub(crate) fn not_in_memory() -> napi::Error {
    invalid("the store is not in memory, so this call needs a promise")
}
