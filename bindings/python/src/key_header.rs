//! Header fields that become keys.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::error::raised;

/// A header field by whose value requests are counted.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct KeyHeader(slidegate_bindings::KeyHeader);

#[pymethods]
impl KeyHeader {
    /// Creates the field from its name and from `deny`, `first` or `last`.
    #[new]
    fn new(name: &str, duplicates: &str) -> PyResult<Self> {
        slidegate_bindings::KeyHeader::new(name, duplicates).map(Self).map_err(raised)
    }

    /// Returns the value, which is empty if the field is missing, or `None` if the request has to be
    /// denied.
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a Python function are owned")]
    fn value(&self, lines: Vec<PyBackedStr>) -> Option<String> {
        self.0.value(lines.iter().map(|line| &**line))
    }
}
