//! Operations of a gate other than checks.

use napi::bindgen_prelude::{Float64Array, PromiseRaw};
use napi::{Env, Result};
use napi_derive::napi;
use slidegate::Target;

use crate::clock::{duration, millis};
use crate::decision::{self, number};
use crate::gate::{NativeGate, NowOrLater, units, whole};

#[napi]
impl NativeGate {
    /// Evaluates a request without taking units.
    #[napi(catch_unwind)]
    pub fn peek<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
        cost: f64,
    ) -> Result<NowOrLater<'env, Float64Array>> {
        let (gate, tier, cost) = (self.gate.clone(), self.tier(tier)?, units(cost)?);
        self.run(env, async move {
            let decision = gate.peek(key.as_bytes(), tier, cost).await?;
            Ok(decision_numbers(&decision, gate.is_enforced(key.as_bytes())))
        })
    }

    /// Takes as many units as fit, at most `cost`. The receipt has their number.
    #[napi(catch_unwind)]
    pub fn check_at_most<'env>(
        &self,
        env: &'env Env,
        key: String,
        cost: f64,
    ) -> Result<NowOrLater<'env, Float64Array>> {
        let (gate, cost) = (self.gate.clone(), units(cost)?);
        self.run(env, async move {
            let target = Target::new(key.as_bytes(), None);
            let decision = gate.store().check_at_most(target, cost).await?;
            Ok(decision_numbers(&decision, gate.is_enforced(key.as_bytes())))
        })
    }

    /// Refunds the units of a receipt. Returns the number that was still counted.
    #[napi(catch_unwind)]
    pub fn refund<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
        receipt: Receipt,
    ) -> Result<NowOrLater<'env, f64>> {
        let (gate, tier, taken) = (self.gate.clone(), self.tier(tier)?, whole(receipt.units)?);
        let tick = whole(receipt.tick)?;
        self.run(env, async move {
            let receipt = gate.receipt(key.as_bytes(), taken, tick, receipt.epoch);
            Ok(number(gate.refund(key.as_bytes(), tier, receipt).await?))
        })
    }

    /// Corrects a reservation to its actual cost. Returns the total number of units charged.
    #[napi(catch_unwind)]
    pub fn settle<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
        receipt: Receipt,
        actual: f64,
    ) -> Result<NowOrLater<'env, f64>> {
        let (gate, tier, taken) = (self.gate.clone(), self.tier(tier)?, whole(receipt.units)?);
        let (tick, actual) = (whole(receipt.tick)?, whole(actual)?);
        self.run(env, async move {
            let receipt = gate.receipt(key.as_bytes(), taken, tick, receipt.epoch);
            Ok(number(gate.settle(key.as_bytes(), tier, receipt, actual).await?))
        })
    }

    /// Records units without a check. Returns their number.
    #[napi(catch_unwind)]
    pub fn charge<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
        units: f64,
    ) -> Result<NowOrLater<'env, f64>> {
        let (gate, tier, units) = (self.gate.clone(), self.tier(tier)?, whole(units)?);
        self.run(env, async move { Ok(number(gate.charge(key.as_bytes(), tier, units).await?)) })
    }

    /// Refunds up to `units` without a receipt. Returns the number of units refunded.
    #[napi(catch_unwind)]
    pub fn forgive<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
        units: f64,
    ) -> Result<NowOrLater<'env, f64>> {
        let (gate, tier, units) = (self.gate.clone(), self.tier(tier)?, whole(units)?);
        self.run(env, async move { Ok(number(gate.forgive(key.as_bytes(), tier, units).await?)) })
    }

    /// Returns the units that count against each quota.
    #[napi(catch_unwind)]
    pub fn usage<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
    ) -> Result<NowOrLater<'env, Float64Array>> {
        let (gate, tier) = (self.gate.clone(), self.tier(tier)?);
        self.run(env, async move {
            let usage = gate.usage(key.as_bytes(), tier).await?;
            let places = 0..gate.quotas(tier).len();
            let used: Vec<f64> = places.map(|place| number(usage.units(place))).collect();
            Ok(Float64Array::new(used))
        })
    }

    /// Returns the admissions that count, oldest first: milliseconds since the epoch, and units.
    #[napi(catch_unwind)]
    pub fn history<'env>(
        &self,
        env: &'env Env,
        key: String,
        tier: i32,
    ) -> Result<NowOrLater<'env, Float64Array>> {
        let (gate, tier) = (self.gate.clone(), self.tier(tier)?);
        self.run(env, async move {
            let events = gate.history(key.as_bytes(), tier).await?;
            let pair = |event: &slidegate::Event| [millis(event.at), number(event.units)];
            Ok(Float64Array::new(events.iter().flat_map(pair).collect::<Vec<f64>>()))
        })
    }

    /// Removes a key and ends its block. Returns `true` if it existed.
    #[napi(catch_unwind)]
    pub fn reset<'env>(&self, env: &'env Env, key: String) -> Result<NowOrLater<'env, bool>> {
        let gate = self.gate.clone();
        self.run(env, async move { gate.reset(key.as_bytes()).await })
    }

    /// Denies a key for a time.
    #[napi(catch_unwind)]
    pub fn block<'env>(
        &self,
        env: &'env Env,
        key: String,
        millis: f64,
    ) -> Result<NowOrLater<'env, bool>> {
        let gate = self.gate.clone();
        self.run(
            env,
            async move { gate.block(key.as_bytes(), duration(millis)).await.map(|()| true) },
        )
    }

    /// Ends the block of a key. Returns `true` if there was one.
    #[napi(catch_unwind)]
    pub fn unblock<'env>(&self, env: &'env Env, key: String) -> Result<NowOrLater<'env, bool>> {
        let gate = self.gate.clone();
        self.run(env, async move { gate.unblock(key.as_bytes()).await })
    }

    /// Returns problems that an operator should fix, such as a server that evicts keys.
    #[napi(catch_unwind)]
    pub fn warnings<'env>(&self, env: &'env Env) -> Result<PromiseRaw<'env, Vec<String>>> {
        let gate = self.gate.clone();
        env.spawn_future(async move { gate.store().warnings().await.map_err(crate::error::thrown) })
    }
}

/// The parts of a receipt.
#[napi(object)]
#[derive(Debug)]
pub struct Receipt {
    /// The units taken.
    pub units: f64,
    /// The tick at which they are recorded.
    pub tick: f64,
    /// The epoch of the key's state.
    pub epoch: u16,
}

fn decision_numbers(decision: &slidegate::Decision, is_enforced: bool) -> Float64Array {
    Float64Array::new(decision::decision_numbers(decision, is_enforced))
}
