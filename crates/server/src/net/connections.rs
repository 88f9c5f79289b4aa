//! The connections of a listener: bounded and counted.

use core::future::poll_fn;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use std::panic::catch_unwind;
use std::sync::Arc;

use slidegate_gate::Count;

/// Bounds and counts the connections of one listener.
#[derive(Debug, Default)]
pub struct Connections {
    name: &'static str,
    max: usize,
    open: AtomicUsize,
    /// Connections accepted so far.
    pub accepted: Count,
    /// Connections refused because of the maximum.
    pub refused: Count,
    /// Connections that could not be accepted, for example for lack of file descriptors.
    pub failed: Count,
    /// Connections closed because the client was too slow, or flooded the server.
    pub cut: Count,
    /// Requests whose handler panicked. With the Redis protocol, this ends the connection.
    pub panics: Count,
}

impl Connections {
    /// Creates the state of the listener `name`, with at most `max` connections.
    pub fn new(name: &'static str, max: usize) -> Arc<Self> {
        Arc::new(Self { name, max, ..Self::default() })
    }

    /// Returns the name of the listener.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the maximum number of open connections.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Polls a future to its end. Returns `None` if it panicked, which is counted.
    ///
    /// The future is borrowed: an async function that takes it by value would keep two copies of it.
    pub(crate) async fn catch_panic<F: Future>(
        &self,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        poll_fn(|cx| {
            // After a panic the future is not polled again, so its state does not matter.
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                Ok(polled) => polled.map(Some),
                Err(_) => {
                    self.panics.add(1);
                    Poll::Ready(None)
                }
            }
        })
        .await
    }

    /// Takes a slot. Returns `None` if all are taken.
    pub fn enter(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let one_more = |open| (open < self.max).then_some(open + 1);
        // Only the number matters, so no ordering is needed.
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => {
                self.accepted.add(1);
                Some(ConnectionSlot(Arc::clone(self)))
            }
            Err(_) => {
                self.refused.add(1);
                None
            }
        }
    }
}

/// One of the open connections, until dropped.
#[derive(Debug)]
pub struct ConnectionSlot(Arc<Connections>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_frees_its_slot() {
        let connections = Connections::new("test", 2);
        let first = connections.enter().unwrap();
        let _second = connections.enter().unwrap();
        assert!(connections.enter().is_none());
        drop(first);
        assert!(connections.enter().is_some());
        assert_eq!((connections.accepted.get(), connections.refused.get()), (3, 1));
        assert_eq!(connections.open(), 1);
    }
}
