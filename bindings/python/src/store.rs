//! A connection to Redis that several limiters share.

use core::sync::atomic::{AtomicU32, Ordering};
use std::process;
use std::sync::Arc;

use pyo3::prelude::*;
use slidegate_bindings::{Place, StoreOptions};

use crate::delivery::warn;
use crate::error::{invalid, raised};

/// Redis as a store. Limiters on one store decide together in one atomic step.
#[pyclass(frozen, subclass, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) place: Place,
    pub(crate) user: Arc<User>,
}

#[pymethods]
impl Store {
    /// Prepares the connections, which the first call opens. `options` is JSON: an address, or a map
    /// as under `stores` in a file of the daemon.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let redis = StoreOptions::from_json(options).and_then(|options| options.connect(&warn()));
        Ok(Self { place: Place::Redis(redis.map_err(raised)?), user: Arc::default() })
    }
}

/// The process that uses a connection, zero before the first call.
///
/// A fork copies an open connection but not the threads that serve it, so a child process must not
/// use it.
#[derive(Debug, Default)]
pub(crate) struct User(AtomicU32);

impl User {
    pub(crate) fn check(&self) -> PyResult<()> {
        let own = process::id();
        // Only this number is shared, so no ordering with other memory is needed.
        match self.0.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
            Err(user) if user != own => Err(invalid(format!(
                "process {user} called Redis before it forked process {own}: make the first call \
                 after the fork, or create the limiter there"
            ))),
            _ => Ok(()),
        }
    }
}
