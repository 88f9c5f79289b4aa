//! The connections of a listener: bounded and counted.

use core::future::poll_fn;
use core::net::IpAddr;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::Poll;
use std::collections::{BTreeMap, HashMap};
use std::panic::catch_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate_gate::Count;
use slidegate_http::{AddressKey, ClientAddress};
use tokio::task::AbortHandle;

use super::timeouts::Activity;

/// Bounds and counts the connections of one listener.
#[derive(Debug, Default)]
pub struct Connections {
    name: &'static str,
    max: usize,
    addresses: Option<AddressLimit>,
    table: Mutex<Table>,
    /// Connections accepted so far.
    pub accepted: Count,
    /// Connections refused because of a maximum.
    pub refused: Count,
    /// Idle connections closed to accept a new one.
    pub evicted: Count,
    /// Connections that could not be accepted, for example for lack of file descriptors.
    pub failed: Count,
    /// Connections closed because the client was too slow, or flooded the server.
    pub cut: Count,
    /// Requests whose handler panicked. With the Redis protocol, this ends the connection.
    pub panics: Count,
}

/// The maximum number of connections of one client.
#[derive(Debug, Clone)]
pub struct AddressLimit {
    /// The number.
    pub max: usize,
    /// The bits of an address that count. Trusted proxies have no maximum, because many clients share
    /// their addresses. Neither has loopback.
    pub address: ClientAddress,
}

/// The reason why a connection has no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// All are taken.
    Full,
    /// The client has its maximum.
    FullForAddress,
}

#[derive(Debug, Default)]
struct Table {
    /// The id of the next connection.
    next: u64,
    /// Clients without a completed request, in the order in which they connected.
    strangers: BTreeMap<u64, Entry>,
    /// Other clients, in the same order.
    known: BTreeMap<u64, Entry>,
    /// Where the search among known clients goes on.
    hand: u64,
    by_address: HashMap<AddressKey, usize>,
}

#[derive(Debug)]
struct Entry {
    activity: Arc<Activity>,
    /// The events of the activity when the entry was last looked at.
    seen: u64,
    /// `None` before the task is spawned and after it was ended.
    task: Option<AbortHandle>,
    address: Option<AddressKey>,
}

impl Connections {
    /// Creates the state of the listener `name`, with at most `max` connections.
    pub fn new(name: &'static str, max: usize) -> Arc<Self> {
        Self::with_address_limit(name, max, None)
    }

    /// Creates the state of the listener `name`, with at most `max` connections and a bound on those of
    /// one client.
    pub fn with_address_limit(
        name: &'static str,
        max: usize,
        addresses: Option<AddressLimit>,
    ) -> Arc<Self> {
        Arc::new(Self { name, max, addresses, ..Self::default() })
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
        self.table.lock().open()
    }

    /// Returns the number of connections with a request that the server works on.
    pub fn busy(&self) -> usize {
        let table = self.table.lock();
        let entries = table.strangers.values().chain(table.known.values());
        entries.filter(|entry| !entry.activity.is_idle()).count()
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

    /// Takes a slot for a client.
    ///
    /// # Errors
    ///
    /// Returns an error if all are taken, or the client has its maximum.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Result<ConnectionSlot, NoSlot> {
        let limited = |limit: &&AddressLimit| {
            let client = client.to_canonical();
            !client.is_loopback() && !limit.address.is_trusted(client)
        };
        let limit = self.addresses.as_ref().filter(limited);
        let address = limit.map(|limit| limit.address.key_of(client));
        let mut table = self.table.lock();
        if let (Some(limit), Some(address)) = (limit, &address)
            && table.by_address.get(address).is_some_and(|open| *open >= limit.max)
        {
            return Err(NoSlot::FullForAddress);
        }
        if table.open() >= self.max {
            return Err(NoSlot::Full);
        }
        if let Some(address) = address {
            *table.by_address.entry(address).or_default() += 1;
        }
        let (id, activity) = (table.next, Arc::new(Activity::default()));
        table.next += 1;
        let entry = Entry { activity: Arc::clone(&activity), seen: 0, task: None, address };
        table.strangers.insert(id, entry);
        drop(table);
        self.accepted.add(1);
        Ok(ConnectionSlot { connections: Arc::clone(self), id, activity })
    }

    /// Sets the task of a connection, which ends it. Does nothing if the connection has ended.
    pub(crate) fn spawned(&self, id: u64, task: AbortHandle) {
        // It cannot be known yet: clients become known in a search for a new connection.
        if let Some(entry) = self.table.lock().strangers.get_mut(&id) {
            entry.task = Some(task);
        }
    }

    /// Ends the connection that has been idle longest, of a client without a completed request if there
    /// is one. Returns `false` if the server works on requests of all of them.
    pub(crate) fn evict(&self) -> bool {
        let task = self.table.lock().longest_idle();
        if let Some(task) = &task {
            task.abort();
            self.evicted.add(1);
        }
        task.is_some()
    }
}

impl Connections {
    /// A warning for the operator.
    pub(super) fn describe_evictions(&self) -> String {
        format!(
            "listener {}: all {} connections are in use, the longest idle ones are closed for new \
             ones ({} so far); `limits.connections` sets the maximum",
            self.name,
            self.max,
            self.evicted.get()
        )
    }

    /// A warning for the operator.
    pub(super) fn describe_refusals(&self, reason: NoSlot, client: IpAddr) -> String {
        let (name, refused) = (self.name, self.refused.get());
        match (reason, &self.addresses) {
            (NoSlot::FullForAddress, Some(AddressLimit { max, .. })) => format!(
                "listener {name}: {client} has {max} connections, more are refused ({refused} so far); \
                 `limits.connections_per_address` sets the maximum, which `trusted_proxies` do not have"
            ),
            _ => format!(
                "listener {name}: all {} connections are in use and none is idle, new ones are refused \
                 ({refused} so far); `limits.connections` sets the maximum",
                self.max
            ),
        }
    }
}

impl Table {
    fn open(&self) -> usize {
        self.strangers.len() + self.known.len()
    }

    fn longest_idle(&mut self) -> Option<AbortHandle> {
        let found =
            |(_, entry): &(&u64, &mut Entry)| !entry.activity.is_stranger() || entry.is_idle();
        while let Some((&id, entry)) = self.strangers.iter_mut().find(found) {
            if entry.activity.is_stranger() {
                return entry.task.take();
            }
            self.known.extend(self.strangers.remove_entry(&id));
        }
        // Each is passed once after a request, so the search takes two rounds at most, with the steps
        // from the end to the start.
        for _ in 0..2 * self.known.len() + 2 {
            let next = self.known.range_mut(self.hand..).next();
            let Some((id, entry)) = next else {
                self.hand = 0;
                continue;
            };
            self.hand = id + 1;
            let events = entry.activity.events();
            if core::mem::replace(&mut entry.seen, events) == events && entry.is_idle() {
                return entry.task.take();
            }
        }
        None
    }

    fn leave(&mut self, id: u64) {
        let entry = self.strangers.remove(&id).or_else(|| self.known.remove(&id));
        let Some(address) = entry.and_then(|entry| entry.address) else { return };
        if let Some(open) = self.by_address.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.task.is_some() && self.activity.is_idle()
    }
}

/// One of the open connections, until dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
    activity: Arc<Activity>,
}

impl ConnectionSlot {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The activity of the connection.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.table.lock().leave(self.id);
    }
}

#[cfg(test)]
mod tests;
