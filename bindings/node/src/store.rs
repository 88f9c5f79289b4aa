//! A connection to Redis that several limiters share.

use std::sync::Arc;

use napi::Result;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use slidegate_bindings::{Place, StoreOptions, Warn};

use crate::error::thrown;

/// A store in Redis.
#[napi]
#[derive(Debug)]
pub struct NativeStore(pub(crate) Place);

#[napi]
impl NativeStore {
    /// Prepares the connections of a store. They are opened by the first call. `warn` receives
    /// warnings.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String, warn: Function<'_, String, ()>) -> Result<Self> {
        let warn = warning(&warn)?;
        let redis = StoreOptions::from_json(&options).and_then(|options| options.connect(&warn));
        redis.map(|redis| Self(Place::Redis(redis))).map_err(thrown)
    }
}

/// Returns what calls a function of JavaScript from any thread. It does not keep the process alive.
pub(crate) fn warning(warn: &Function<'_, String, ()>) -> Result<Warn> {
    let warn = warn.build_threadsafe_function().weak::<true>().build()?;
    Ok(Arc::new(move |message| {
        // It fails when the environment ends.
        let _ = warn.call(message, ThreadsafeFunctionCallMode::NonBlocking);
    }))
}
