//! The threads of a process that call Redis, and calls that wait for them.

use core::future::Future;
use core::time::Duration;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::{io, process};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::delivery::{self, Delivery};
use crate::error::invalid;

/// How often a waiting call checks for signals such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// Redis needs little time of a processor, and Python runs one thread at a time.
const THREADS: usize = 2;

/// The threads that call Redis and pass on the results.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) runtime: Runtime,
    /// Sends results to event loops.
    pub(crate) results: Sender<Delivery>,
}

impl Threads {
    fn start() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("slidegate").enable_all();
        Ok(Self { runtime: builder.build()?, results: delivery::start()? })
    }
}

/// Returns the threads, which the first call starts. Limiters in memory do not need them unless a
/// request waits.
///
/// A fork copies no threads, so a child process starts its own.
pub(crate) fn threads() -> PyResult<&'static Threads> {
    static THREADS: Mutex<Option<(u32, &'static Threads)>> = Mutex::new(None);
    let mut started = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    match *started {
        Some((id, threads)) if id == process::id() => Ok(threads),
        _ => {
            let threads = Threads::start().map_err(|error| {
                invalid(format!("cannot start the threads that call Redis: {error}"))
            })?;
            // They live as long as the process. Those of a parent process cannot be dropped, because
            // they do not exist here.
            let threads = Box::leak(Box::new(threads));
            *started = Some((process::id(), threads));
            Ok(threads)
        }
    }
}

/// Waits for a future without the GIL. A signal whose handler raises ends the call.
pub(crate) fn block_on<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = &threads()?.runtime;
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
