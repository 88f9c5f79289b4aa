//! How many connections there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Connections open now, over all listeners that share it, and how many there may be.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: AtomicUsize,
    most: usize,
    refused: AtomicU64,
}

/// The place of one connection; dropped with it.
#[derive(Debug)]
pub struct Place(Arc<Inner>);

impl Connections {
    /// Room for `most`.
    pub fn new(most: usize) -> Self {
        let inner = Inner { open: AtomicUsize::new(0), most, refused: AtomicU64::new(0) };
        Self(Arc::new(inner))
    }

    /// A place, if there is one.
    pub fn enter(&self) -> Option<Place> {
        if self.0.open.fetch_add(1, Ordering::Relaxed) >= self.0.most {
            self.0.open.fetch_sub(1, Ordering::Relaxed);
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Place(Arc::clone(&self.0)))
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// How many found no place.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_connection_ends() {
        let connections = Connections::new(2);
        let first = connections.enter();
        let second = connections.enter();
        assert!(first.is_some() && second.is_some() && connections.enter().is_none());
        drop(first);
        assert_eq!((connections.open(), connections.refused()), (1, 1));
        assert!(connections.enter().is_some());
    }
}
