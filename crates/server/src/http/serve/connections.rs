//! The connections that are open, and what became of others.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// Open connections, at most so many. Several listeners may share one.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    open: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
    panics: AtomicU64,
}

impl Connections {
    /// At most `max` at a time.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        })
    }

    /// The most there may be.
    pub fn max(&self) -> usize {
        self.max
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many there have been.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// How many were turned away because there were too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How many were ended because the client was too slow.
    pub fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Requests whose handling panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// One more, until the entry is dropped; `None` if there are too many.
    pub fn enter(self: &Arc<Self>) -> Option<Entry> {
        let one_more = |open| (open < self.max).then_some(open + 1);
        // Only the number itself matters, so nothing has to be ordered with it.
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => {
                self.accepted.fetch_add(1, Ordering::Relaxed);
                Some(Entry(Arc::clone(self)))
            }
            Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Notes that a slow client was cut off.
    pub fn note_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the handling of a request panicked.
    pub fn note_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}

/// A place among the open connections.
#[derive(Debug)]
pub struct Entry(Arc<Connections>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_holder_goes() {
        let connections = Connections::new(2);
        let first = connections.enter().unwrap();
        let _second = connections.enter().unwrap();
        assert!(connections.enter().is_none());
        drop(first);
        assert!(connections.enter().is_some());
        assert_eq!((connections.accepted(), connections.refused()), (3, 1));
        assert_eq!(connections.open(), 1);
    }
}
