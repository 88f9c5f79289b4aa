//! A connection to Redis that several limiters share.

use napi::Result;
use napi_derive::napi;
use slidegate_bindings::{Place, StoreOptions};

use crate::error::thrown;

/// A store in Redis.
#[napi]
#[derive(Debug)]
pub struct NativeStore(pub(crate) Place);

#[napi]
impl NativeStore {
    /// Prepares the connections of a store. They are opened by the first call.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String) -> Result<Self> {
        let redis = StoreOptions::from_json(&options).and_then(|options| options.connect());
        redis.map(|redis| Self(Place::Redis(redis))).map_err(thrown)
    }
}
