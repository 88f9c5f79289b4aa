//! All locks and atomics of the crate, so that a concurrency checker can replace them.
//!
//! With `--cfg shuttle`, every lock and atomic of the crate is shuttle's.

#[cfg(not(shuttle))]
mod lock;

#[cfg(not(shuttle))]
pub(crate) use core::sync::atomic;
#[cfg(not(shuttle))]
pub(crate) use lock::{Mutex, MutexGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{MutexGuard, atomic};

/// Shuttle's mutex with the same interface: locking cannot fail.
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(shuttle)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
