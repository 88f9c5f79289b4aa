//! The units of a request whose response decides whether it counts.

use std::mem;
use std::sync::{Mutex, PoisonError};

use napi::bindgen_prelude::PromiseRaw;
use napi::{Env, Result};
use napi_derive::napi;
use slidegate_bindings::run_now;
use slidegate_gate::GateDecision;

use crate::gate::not_in_memory;
use crate::several::Asks;

/// The units of an allowed request.
#[napi]
#[derive(Debug)]
pub struct NativeTaken {
    asks: Asks,
    /// Empty once the units were refunded.
    decided: Mutex<Vec<GateDecision>>,
}

#[napi]
impl NativeTaken {
    /// Refunds a request that does not count, also at the candidates. `is_used` has for each gate
    /// whether its receipt was already refunded or settled.
    #[napi(catch_unwind)]
    pub fn uncount<'env>(
        &self,
        env: &'env Env,
        is_used: Vec<bool>,
    ) -> Result<Option<PromiseRaw<'env, ()>>> {
        let mut decided =
            mem::take(&mut *self.decided.lock().unwrap_or_else(PoisonError::into_inner));
        for (decided, _) in decided.iter_mut().zip(&is_used).filter(|(_, is_used)| **is_used) {
            let _receipt = decided.decision.take_receipt();
        }
        let asks = self.asks.clone();
        let is_in_process = asks.is_in_process();
        let call = async move {
            for (ask, decided) in asks.iter().zip(&mut decided) {
                ask.gate.uncount(ask.key.as_bytes(), ask.tier, decided).await;
            }
        };
        if is_in_process {
            return run_now(call).ok_or_else(not_in_memory).map(|()| None);
        }
        env.spawn_future(async move {
            call.await;
            Ok(())
        })
        .map(Some)
    }
}

impl NativeTaken {
    pub(crate) fn new(asks: Asks, decided: Vec<GateDecision>) -> Self {
        Self { asks, decided: Mutex::new(decided) }
    }
}
