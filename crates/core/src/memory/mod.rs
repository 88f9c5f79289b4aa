//! The keyed store: sharded, budgeted, swept.

mod any;
mod blocks;
mod contention;
mod decide;
mod evict;
mod longest;
mod overflow;
mod resets;
mod shard;
mod sketch;
mod slots;
mod snapshot;
mod store;
mod wait_queue;

pub(crate) use decide::Request;
pub(crate) use longest::KeptWindows;
pub use shard::OnFull;

pub(crate) use any::AnyStore;
pub(crate) use store::{LockedShard, MemoryStore, StoreSettings};
pub(crate) use wait_queue::{Confirm, EnqueueResult, QueueFull, Turn, Wakers};
