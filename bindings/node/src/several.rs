//! Several gates, all or nothing, and waiting.

use std::sync::Arc;

use napi::bindgen_prelude::{ClassInstance, Either, Float64Array, PromiseRaw};
use napi::{Env, Result};
use napi_derive::napi;
use slidegate::Cost;
use slidegate_bindings::run_now;
use slidegate_gate::{Ask, Caller, Gate, GateDecision, TierId, WaitOptions, check_all};
use slidegate_http::QuotaUnit;
use tokio::sync::Notify;

use crate::clock::duration;
use crate::decision::numbers;
use crate::error::{invalid, thrown};
use crate::gate::{NativeGate, not_in_memory, units};

/// Cancels one wait.
#[napi]
#[derive(Debug, Default)]
pub struct NativeCancel(Arc<Notify>);

#[napi]
impl NativeCancel {
    /// Creates a token that is not canceled.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the wait that has this token, or the next one.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.0.notify_one();
    }
}

/// Checks several gates, all or nothing. Returns the numbers of all decisions.
#[napi(catch_unwind)]
pub fn check_several<'env>(
    env: &'env Env,
    gates: Vec<ClassInstance<'env, NativeGate>>,
    keys: Vec<String>,
    tiers: Vec<i32>,
    costs: Vec<f64>,
) -> Result<Either<Vec<Float64Array>, PromiseRaw<'env, Vec<Float64Array>>>> {
    let asks = Asks::new(&gates, keys, &tiers, &costs)?;
    let is_in_process = asks.is_in_process();
    let call = async move { Ok(arrays(&asks.check(None).await?)) };
    if is_in_process {
        return run_now(call).ok_or_else(not_in_memory)?.map(Either::A);
    }
    env.spawn_future(call).map(Either::B)
}

/// Waits for units instead of denying a request. A canceled wait returns nothing and takes nothing.
#[napi(catch_unwind)]
pub fn wait_several<'env>(
    env: &'env Env,
    gates: Vec<ClassInstance<'env, NativeGate>>,
    keys: Vec<String>,
    tiers: Vec<i32>,
    costs: Vec<f64>,
    timeout: f64,
    cancel: &NativeCancel,
) -> Result<PromiseRaw<'env, Option<Vec<Float64Array>>>> {
    let Some(first) = gates.first() else { return Err(invalid("nothing to wait for")) };
    let waiting = first.waiting.within(duration(timeout));
    let asks = Asks::new(&gates, keys, &tiers, &costs)?;
    let canceled = Arc::clone(&cancel.0);
    env.spawn_future(async move {
        tokio::select! {
            // A request that has its units is not canceled: they would be lost.
            biased;
            all = asks.check(Some(&waiting)) => Ok(Some(arrays(&all?))),
            () = canceled.notified() => Ok(None),
        }
    })
}

fn arrays(all: &[GateDecision]) -> Vec<Float64Array> {
    all.iter().map(|decided| Float64Array::new(numbers(decided))).collect()
}

/// Several checks that own what they refer to.
#[derive(Debug, Clone)]
pub(crate) struct Asks(Vec<OwnedAsk>);

#[derive(Debug, Clone)]
pub(crate) struct OwnedAsk {
    pub(crate) gate: Gate,
    pub(crate) unit: QuotaUnit,
    pub(crate) tier: Option<TierId>,
    pub(crate) key: String,
    cost: Cost,
}

impl Asks {
    /// Collects the arguments. All lists have the same length.
    pub(crate) fn new(
        gates: &[ClassInstance<'_, NativeGate>],
        keys: Vec<String>,
        tiers: &[i32],
        costs: &[f64],
    ) -> Result<Self> {
        let count = gates.len();
        if [keys.len(), tiers.len(), costs.len()].iter().any(|length| *length != count) {
            return Err(invalid("the lists differ in length"));
        }
        let mut asks = Vec::with_capacity(count);
        for (((gate, key), tier), cost) in gates.iter().zip(keys).zip(tiers).zip(costs) {
            asks.push(OwnedAsk {
                gate: gate.gate.clone(),
                unit: gate.unit.clone(),
                tier: gate.tier(*tier)?,
                key,
                cost: units(*cost)?,
            });
        }
        Ok(Self(asks))
    }

    pub(crate) fn is_in_process(&self) -> bool {
        self.0.iter().all(|ask| ask.gate.is_in_process())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OwnedAsk> {
        self.0.iter()
    }

    pub(crate) async fn check(&self, waiting: Option<&WaitOptions>) -> Result<Vec<GateDecision>> {
        let mut asks = Vec::with_capacity(self.0.len());
        for OwnedAsk { gate, key, tier, cost, .. } in &self.0 {
            asks.push(Ask { gate, key: key.as_bytes(), tier: *tier, cost: *cost });
        }
        check_all(&asks, waiting, Caller::IN_PROCESS).await.map_err(thrown)
    }
}
