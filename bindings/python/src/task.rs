//! Runs a call: immediately, without the GIL, or in the runtime.

use core::future::Future;

use pyo3::prelude::*;
use slidegate_bindings::run_now;
use tokio::task::AbortHandle;

use crate::error::invalid;
use crate::runtime::{attach, block_on, runtime};

/// How a call runs.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Everything is in memory and nothing waits, so the future is ready when it is polled first.
    Now,
    /// The calling thread waits.
    Blocking,
    /// A function is called with the result or the exception, from a thread of the runtime.
    Notifying(Py<PyAny>),
}

impl Mode {
    pub(crate) fn new(is_in_memory: bool, notify: Option<Py<PyAny>>) -> Self {
        match notify {
            _ if is_in_memory => Self::Now,
            None => Self::Blocking,
            Some(notify) => Self::Notifying(notify),
        }
    }
}

/// A call that runs in the runtime.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct Pending(AbortHandle);

#[pymethods]
impl Pending {
    /// Cancels the call. A request that waits leaves the queue.
    fn cancel(&self) {
        self.0.abort();
    }
}

/// Runs a call and returns its result, or a [`Pending`] if the result is passed to a function.
pub(crate) fn perform<F, T>(
    py: Python<'_>,
    mode: Mode,
    call: F,
    convert: fn(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    match mode {
        Mode::Now => match run_now(call) {
            Some(output) => convert(py, output),
            None => Err(invalid("a store in memory did not reply immediately")),
        },
        Mode::Blocking => convert(py, block_on(py, call)?),
        Mode::Notifying(notify) => {
            let task = runtime()?.spawn(async move {
                let output = call.await;
                attach(|py| {
                    let arguments = match convert(py, output) {
                        Ok(value) => (value, py.None()),
                        Err(error) => (py.None(), error.into_value(py).into_any()),
                    };
                    // It fails if the event loop is closed.
                    let _ = notify.call1(py, arguments);
                    drop(notify);
                });
            });
            Ok(Py::new(py, Pending(task.abort_handle()))?.into_any())
        }
    }
}
