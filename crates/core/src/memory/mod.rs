//! The keyed store: sharded, budgeted, swept.

mod decide;
mod evict;
mod full;
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

pub(crate) use store::{AnyStore, LineUp, LockedShard, MemoryStore, StoreSettings};
