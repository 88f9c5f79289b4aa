//! Header fields that become keys.

use napi::Result;
use napi_derive::napi;
use slidegate_bindings::KeyHeader;

use crate::error::thrown;

/// A header field by whose value requests are counted.
#[napi]
#[derive(Debug)]
pub struct NativeKeyHeader(KeyHeader);

#[napi]
impl NativeKeyHeader {
    /// Creates the field from its name and from `deny`, `first` or `last`.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: String, duplicates: String) -> Result<Self> {
        KeyHeader::new(&name, &duplicates).map(Self).map_err(thrown)
    }

    /// Returns the value, which is empty if the field is missing, or `null` if the request has to be
    /// denied.
    #[napi(catch_unwind)]
    pub fn value(&self, lines: Vec<String>) -> Option<String> {
        self.0.value(lines.iter().map(String::as_str))
    }
}
