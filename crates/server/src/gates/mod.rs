//! Gates made from the configuration, and the stores behind them.

mod factory;
mod memory_share;
mod stores;

pub use self::factory::{DomainStore, GateFactory, GateSettings, UnitGates, throttle_state};
pub use self::memory_share::divide_memory;
pub use self::stores::{NoRestore, Restore, StateId, StoreList, Stores};
