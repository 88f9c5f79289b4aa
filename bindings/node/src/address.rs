//! Keys of client addresses.

use napi::Result;
use napi_derive::napi;
use slidegate_bindings::{AddressOptions, address_key, client_key};
use slidegate_http::ClientAddress;

use crate::error::thrown;

/// The rules for keys of addresses.
#[napi]
#[derive(Debug)]
pub struct NativeAddress(ClientAddress);

#[napi]
impl NativeAddress {
    /// Reads the options.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String) -> Result<Self> {
        let rules = AddressOptions::from_json(&options).and_then(|options| options.build());
        rules.map(Self).map_err(thrown)
    }

    /// Returns the key of an address.
    #[napi(catch_unwind)]
    pub fn key(&self, address: String) -> Result<String> {
        address_key(&self.0, &address).map_err(thrown)
    }

    /// Returns the key of the client behind a peer. `fields` are names and values in turn.
    #[napi(catch_unwind)]
    pub fn client_key(&self, peer: String, fields: Vec<String>) -> Result<String> {
        let fields = fields.chunks_exact(2).map(|field| (field[0].as_str(), field[1].as_bytes()));
        client_key(&self.0, &peer, fields).map_err(thrown)
    }
}
