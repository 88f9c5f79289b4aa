//! Keys of client addresses.

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use slidegate_bindings::{AddressOptions, client_key};
use slidegate_http::ClientAddress;

use crate::error::raised;

/// How the client's address is found and grouped.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct AddressRules(ClientAddress);

#[pymethods]
impl AddressRules {
    /// Reads the rules from JSON.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let rules = AddressOptions::from_json(options).and_then(|options| options.build());
        rules.map(Self).map_err(raised)
    }

    /// Returns the key of the client: the peer, unless it is a trusted proxy that names the client.
    #[pyo3(signature = (peer, fields = Vec::new()), text_signature = "($self, peer, fields=())")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a Python function are owned")]
    fn key(&self, peer: &str, fields: Vec<(PyBackedStr, PyBackedBytes)>) -> PyResult<String> {
        let fields = fields.iter().map(|(name, value)| (&**name, &**value));
        client_key(&self.0, peer, fields).map_err(raised)
    }
}
