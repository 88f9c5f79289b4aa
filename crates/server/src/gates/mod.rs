//! Gates made from the configuration, and the stores behind them.

mod factory;
mod stores;

pub use self::factory::{DomainStore, GateFactory, GateSettings, UnitGates};
pub use self::stores::{NoRestore, Restore, StateId, StoreList, Stores};
