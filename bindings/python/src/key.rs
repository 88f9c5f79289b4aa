//! Keys and costs of requests.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use slidegate::Cost;

use crate::error::raised;

/// A key: `str` or `bytes`. A string is the same key as its UTF-8.
#[derive(Debug, FromPyObject)]
pub(crate) enum Key {
    #[pyo3(transparent, annotation = "str")]
    Text(PyBackedStr),
    #[pyo3(transparent, annotation = "bytes")]
    Bytes(PyBackedBytes),
}

impl Key {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.clone_ref(py)),
            Self::Bytes(bytes) => Self::Bytes(bytes.clone_ref(py)),
        }
    }
}

/// A number of units that is zero or more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units(pub(crate) u64);

impl Units {
    /// The cost of an ordinary request.
    pub(crate) const ONE: Self = Self(1);

    pub(crate) fn cost(self) -> PyResult<Cost> {
        Cost::new(self.0).map_err(raised)
    }
}

impl<'py> FromPyObject<'_, 'py> for Units {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        value.extract().map(Self).map_err(|error| {
            if !error.is_instance_of::<PyOverflowError>(value.py()) {
                return error;
            }
            let message = format!("{} units are out of range: use 0 to 9007199254740991", *value);
            raised(slidegate::Error::new(slidegate::ErrorKind::Cost, message))
        })
    }
}
