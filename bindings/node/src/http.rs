//! Checks whose results are header fields and, for a denial, a response.

use std::time::SystemTime;

use napi::bindgen_prelude::{ClassInstance, Either, Float64Array, PromiseRaw};
use napi::{Env, Result};
use napi_derive::napi;
use slidegate_bindings::{HttpAnswer, HttpOptions, HttpPart, run_now};
use slidegate_gate::GateDecision;

use crate::decision::numbers;
use crate::error::thrown;
use crate::gate::{NativeGate, not_in_memory};
use crate::several::Asks;
use crate::taken::NativeTaken;

/// The checks of a middleware.
#[napi]
#[derive(Debug)]
pub struct NativeHttp {
    options: HttpOptions,
    may_refund: bool,
}

/// The response to a request.
#[napi(object, object_from_js = false)]
#[expect(missing_debug_implementations, reason = "arrays of JavaScript have none")]
pub struct NativeAnswer {
    /// The decisions of all gates.
    pub decisions: Vec<Float64Array>,
    /// Names and values in turn.
    pub headers: Vec<String>,
    /// The status of a denial.
    pub status: Option<u16>,
    /// Its content type.
    pub content_type: Option<String>,
    /// Its body.
    pub body: Option<String>,
    /// The units of an allowed request, if they may have to be refunded.
    pub taken: Option<NativeTaken>,
}

#[napi]
impl NativeHttp {
    /// Reads the form of header fields and bodies. With `may_refund`, the answer to an allowed
    /// request has its units.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String, may_refund: bool) -> Result<Self> {
        let options = HttpOptions::from_json(&options).map_err(thrown)?;
        Ok(Self { options, may_refund })
    }

    /// Checks several gates, all or nothing, and describes the result.
    #[napi(catch_unwind)]
    pub fn check<'env>(
        &self,
        env: &'env Env,
        gates: Vec<ClassInstance<'env, NativeGate>>,
        keys: Vec<String>,
        tiers: Vec<i32>,
        costs: Vec<f64>,
        trace_id: Option<String>,
    ) -> Result<Either<NativeAnswer, PromiseRaw<'env, NativeAnswer>>> {
        let asks = Asks::new(&gates, keys, &tiers, &costs)?;
        let is_in_process = asks.is_in_process();
        let (options, may_refund) = (self.options, self.may_refund);
        let call = async move {
            let all = asks.check(None).await?;
            let mut answer = answer(&asks, &all, options, trace_id.as_deref());
            if may_refund && answer.status.is_none() {
                answer.taken = Some(NativeTaken::new(asks, all));
            }
            Ok(answer)
        };
        if is_in_process {
            return run_now(call).ok_or_else(not_in_memory)?.map(Either::A);
        }
        env.spawn_future(call).map(Either::B)
    }
}

#[expect(clippy::disallowed_methods, reason = "resets since the epoch are for the client's clock")]
fn answer(
    asks: &Asks,
    all: &[GateDecision],
    options: HttpOptions,
    trace_id: Option<&str>,
) -> NativeAnswer {
    let parts = asks.iter().zip(all).map(|(ask, decided)| HttpPart {
        gate: &ask.gate,
        tier: ask.tier,
        unit: &ask.unit,
        decided,
    });
    let parts: Vec<HttpPart<'_>> = parts.collect();
    let HttpAnswer { headers, denial } =
        HttpAnswer::new(&parts, &options, SystemTime::now(), trace_id);
    let (status, content_type, body) = match denial {
        Some((status, content_type, body)) => {
            (Some(status), Some(content_type.to_owned()), Some(body))
        }
        None => (None, None, None),
    };
    NativeAnswer {
        decisions: all.iter().map(|decided| Float64Array::new(numbers(decided))).collect(),
        headers: headers.into_iter().flat_map(|(name, value)| [name, value]).collect(),
        status,
        content_type,
        body,
        taken: None,
    }
}
