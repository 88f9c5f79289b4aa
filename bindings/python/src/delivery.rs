//! The thread that passes results to event loops.
//!
//! A result becomes a Python object, which needs the GIL, and Python code may hold it for longer than
//! the deadline of a call. So the threads of the runtime never wait for it: they send each result
//! to this thread, which passes on all that are there at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use core::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use slidegate_bindings::Warn;

use crate::runtime::threads;

/// A result that is ready: the object that awaits it, the value and the exception. A warning has no
/// such object, and its text is the value.
pub(crate) type Delivered = (Py<PyAny>, Py<PyAny>, Py<PyAny>);

/// A result that becomes a Python object in the thread.
pub(crate) type Delivery = Box<dyn FnOnce(Python<'_>) -> Delivered + Send>;

/// The maximum number of results that are passed on without giving other Python threads a turn.
const BATCH_MAX: usize = 512;

/// Returns what passes warnings to the logger of the package.
pub(crate) fn warn() -> Warn {
    Arc::new(|message| {
        // Without the threads, there are no calls that could fail.
        if let Ok(threads) = threads() {
            let delivery: Delivery = Box::new(move |py| {
                let text = PyString::new(py, &message).into_any().unbind();
                (py.None(), text, py.None())
            });
            let _ = threads.results.send(delivery);
        }
    })
}

/// Starts the thread. It ends when the sender is dropped.
pub(crate) fn start() -> io::Result<Sender<Delivery>> {
    let (sender, results) = channel();
    let thread = thread::Builder::new().name("slidegate-results".to_owned());
    thread.spawn(move || deliver(&results))?;
    Ok(sender)
}

fn deliver(results: &Receiver<Delivery>) {
    while let Ok(first) = results.recv() {
        attach(|py| {
            let rest = results.try_iter().take(BATCH_MAX - 1);
            let batch = core::iter::once(first).chain(rest).map(|convert| convert(py));
            let batch: Vec<Delivered> = batch.collect();
            if let Err(error) = pass_on(py, batch) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// Calls the function of the package that wakes event loops.
fn pass_on(py: Python<'_>, batch: Vec<Delivered>) -> PyResult<()> {
    static DELIVER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let deliver = DELIVER.import(py, "slidegate._limiter", "_deliver")?;
    deliver.call1((batch,)).map(drop)
}

/// Whether the thread runs Python code, and whether the interpreter ends.
static STATE: Mutex<State> = Mutex::new(State { is_attached: false, is_closed: false });
static DETACHED: Condvar = Condvar::new();

#[derive(Debug)]
struct State {
    is_attached: bool,
    is_closed: bool,
}

/// How long the end of the interpreter waits for the thread, which calls nothing but functions of this
/// package and of event loops.
const DETACH_MAX: Duration = Duration::from_secs(5);

/// Runs Python code. After the interpreter has begun to end, does nothing: a thread that is attached
/// at that time would crash the process.
fn attach(work: impl FnOnce(Python<'_>)) {
    {
        let mut state = state();
        if state.is_closed {
            return;
        }
        state.is_attached = true;
    }
    Python::attach(work);
    state().is_attached = false;
    DETACHED.notify_all();
}

/// Waits for the thread, and prevents it from running Python code again. The module registers it with
/// `atexit`.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) {
    py.detach(|| {
        let mut state = state();
        state.is_closed = true;
        let is_attached = |state: &mut State| state.is_attached;
        // After a fork, the thread may be that of the parent process, so the time is bounded.
        drop(DETACHED.wait_timeout_while(state, DETACH_MAX, is_attached));
    });
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
