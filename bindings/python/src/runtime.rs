//! The tokio runtime of a process, and calls that wait for it.

use core::future::Future;
use core::time::Duration;
use std::process;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::invalid;

/// How often a waiting call checks for signals such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// Redis needs little time of a processor, and Python runs one thread at a time.
const THREADS: usize = 2;

/// Returns the runtime, which the first call starts. Limiters in memory do not need it unless a
/// request waits.
///
/// A fork copies no threads, so a child process starts a runtime of its own.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);
    let mut started = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    match *started {
        Some((id, runtime)) if id == process::id() => Ok(runtime),
        _ => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(THREADS).thread_name("slidegate").enable_all();
            let runtime = builder.build().map_err(|error| {
                invalid(format!("cannot start the threads that call Redis: {error}"))
            })?;
            // It lives as long as the process. That of a parent process cannot be dropped, because
            // its threads do not exist here.
            let runtime = Box::leak(Box::new(runtime));
            *started = Some((process::id(), runtime));
            Ok(runtime)
        }
    }
}

/// Waits for a future without the GIL. A signal whose handler raises ends the call.
pub(crate) fn block_on<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime()?;
    let mut future = Box::pin(future);
    loop {
        let next = future.as_mut();
        let ended = py.detach(|| runtime.block_on(async { timeout(SIGNALS, next).await.ok() }));
        if let Some(output) = ended {
            return Ok(output);
        }
        py.check_signals()?;
    }
}

/// The threads of the runtime that run Python code, and whether the interpreter ends.
static NOTIFYING: Mutex<(usize, bool)> = Mutex::new((0, false));
static NOTIFIED: Condvar = Condvar::new();

/// How long the end of the interpreter waits for a notification. It is a function of this package
/// that only calls an event loop.
const NOTIFICATION_MAX: Duration = Duration::from_secs(5);

/// Runs Python code in a thread of the runtime. After the interpreter has begun to end, does
/// nothing: a thread that is attached at that time would crash the process.
pub(crate) fn attach(work: impl FnOnce(Python<'_>)) {
    {
        let mut state = notifying();
        if state.1 {
            return;
        }
        state.0 += 1;
    }
    Python::attach(work);
    notifying().0 -= 1;
    NOTIFIED.notify_all();
}

/// Waits for threads that run Python code, and prevents others. The module registers it with
/// `atexit`.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) {
    py.detach(|| {
        let mut state = notifying();
        state.1 = true;
        let busy = |state: &mut (usize, bool)| state.0 > 0;
        // After a fork, threads of the parent process may be counted, so the time is bounded.
        drop(NOTIFIED.wait_timeout_while(state, NOTIFICATION_MAX, busy));
    });
}

fn notifying() -> MutexGuard<'static, (usize, bool)> {
    NOTIFYING.lock().unwrap_or_else(PoisonError::into_inner)
}
