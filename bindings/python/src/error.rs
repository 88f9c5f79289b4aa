//! Errors as exceptions.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use slidegate::ErrorKind;

/// Returns the exception of an error: the class for its code, in `slidegate/_errors.py`.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
pub(crate) fn raised(error: slidegate::Error) -> PyErr {
    Python::attach(|py| with_code(py, slidegate_bindings::code(error.kind()), &error.to_string()))
}

/// Returns the exception for an invalid argument.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    raised(slidegate::Error::new(ErrorKind::Setting, message))
}

/// Returns an exception whose class is registered under `code`.
pub(crate) fn with_code(py: Python<'_>, code: &str, message: &str) -> PyErr {
    static BY_CODE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let classes = BY_CODE.import(py, "slidegate._errors", "BY_CODE")?;
        let class = classes.as_any().get_item(code)?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    make().unwrap_or_else(|error| error)
}
