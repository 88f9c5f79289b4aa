//! Times between Python and Rust.

use core::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::invalid;

/// A time in seconds, as a number or a `timedelta`, to the microsecond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) Duration);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(seconds) = value.extract::<f64>() {
            return from_seconds(seconds).map(Self);
        }
        match value.extract::<Duration>() {
            Ok(duration) => Ok(Self(duration)),
            Err(_) if value.hasattr("total_seconds")? => Err(out_of_range(&value.str()?)),
            Err(_) => Err(PyTypeError::new_err("a time is a number of seconds or a timedelta")),
        }
    }
}

/// A double has a resolution of 0.24 microseconds at the present time since the epoch, so a time is
/// rounded to microseconds. Whole milliseconds then stay exact.
fn from_seconds(seconds: f64) -> PyResult<Duration> {
    let whole = Duration::try_from_secs_f64(seconds).map_err(|_| out_of_range(&seconds))?;
    let micros = (whole.as_nanos() + 500) / 1000;
    u64::try_from(micros).map(Duration::from_micros).map_err(|_| out_of_range(&seconds))
}

fn out_of_range(value: &impl core::fmt::Display) -> PyErr {
    invalid(format!("time {value} is out of range: use zero or more seconds"))
}
