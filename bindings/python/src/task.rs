//! Runs a call: immediately, without the GIL, or in the runtime.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use std::sync::Arc;

use pyo3::prelude::*;
use slidegate_bindings::run_now;
use slidegate_gate::Sleep;
use tokio::sync::Notify;

use crate::delivery::Delivery;
use crate::error::invalid;
use crate::runtime::{Threads, block_on, threads};

/// How a call runs.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Everything is in memory and nothing waits, so the future is ready when it is polled first.
    Now,
    /// The calling thread waits.
    Blocking,
    /// The result or the exception is passed to an event loop, for the object that awaits it.
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
pub(crate) struct Pending(Arc<Notify>);

#[pymethods]
impl Pending {
    /// Ends the call when it waits for units, so that it leaves the queue. A call in flight to a
    /// server is completed, because the units that it takes have to be refunded.
    fn cancel(&self) {
        self.0.notify_one();
    }
}

tokio::task_local! {
    /// The number of sleeps of the call that runs in a task.
    static SLEEPS: Cell<usize>;
}

/// Returns a sleep during which a call can be canceled.
pub(crate) fn cancelable(sleep: Sleep) -> Sleep {
    Sleep::new(move |time| {
        let sleeping = sleep.sleep(time);
        async move {
            let _asleep = Asleep::new();
            sleeping.await;
        }
    })
}

/// Counts as a sleep until it is dropped.
struct Asleep;

impl Asleep {
    fn new() -> Self {
        // A blocking call has no task, and cannot be canceled.
        let _ = SLEEPS.try_with(|sleeps| sleeps.set(sleeps.get() + 1));
        Self
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let _ = SLEEPS.try_with(|sleeps| sleeps.set(sleeps.get() - 1));
    }
}

/// Runs a call in a task. Returns `None` if it was canceled and then slept.
async fn until_canceled<F: Future>(call: F, cancel: Arc<Notify>) -> Option<F::Output> {
    let mut call = pin!(call);
    let mut canceled = pin!(cancel.notified());
    let mut is_canceled = false;
    let until = poll_fn(|context| {
        if let Poll::Ready(output) = call.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        is_canceled = is_canceled || canceled.as_mut().poll(context).is_ready();
        // A call that sleeps holds no units and has none in flight.
        if is_canceled && SLEEPS.with(Cell::get) > 0 { Poll::Ready(None) } else { Poll::Pending }
    });
    SLEEPS.scope(Cell::new(0), until).await
}

/// Runs a call and returns its result, or a [`Pending`] if the result is passed to an event loop.
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
            let cancel = Arc::new(Notify::new());
            let call = until_canceled(call, Arc::clone(&cancel));
            let Threads { runtime, results } = threads()?;
            runtime.spawn(async move {
                let Some(output) = call.await else { return };
                let delivery: Delivery = Box::new(move |py| match convert(py, output) {
                    Ok(value) => (notify, value, py.None()),
                    Err(error) => (notify, py.None(), error.into_value(py).into_any()),
                });
                // The thread lives as long as the process.
                let _ = results.send(delivery);
            });
            Ok(Py::new(py, Pending(cancel))?.into_any())
        }
    }
}
