//! The keyed store: sharded, budgeted, swept.

mod any;
mod blocks;
mod contention;
mod decide;
mod evict;
mod full;
mod line;
mod longest;
mod overflow;
mod resets;
mod shard;
mod slots;
mod snapshot;
mod store;

pub(crate) use decide::Request;
pub(crate) use longest::KeptWindows;
pub use shard::OnFull;

pub(crate) use any::AnyStore;
pub(crate) use line::{Confirm, LineFull, LineUp, Turn, Wakers};
pub(crate) use store::{LockedShard, MemoryStore, StoreSettings};
