//! The store of a limiter, by algorithm.

use super::store::{KeyedStore, MemoryStore};
use crate::window::{Counter, Log};

/// The store of a limiter.
#[derive(Debug)]
pub(crate) enum AnyStore {
    /// A log under one quota that is enforced, which is the default: without a virtual call.
    Log(MemoryStore<Log>),
    /// A counter under one quota that is enforced.
    Counter(MemoryStore<Counter>),
    Other(Box<dyn KeyedStore>),
}

impl core::ops::Deref for AnyStore {
    type Target = dyn KeyedStore;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Log(store) => store,
            Self::Counter(store) => store,
            Self::Other(store) => &**store,
        }
    }
}
