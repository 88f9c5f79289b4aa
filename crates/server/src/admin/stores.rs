//! What stores behind a network tell of themselves, asked now and then and never by a scrape.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Weak;

use parking_lot::Mutex;
use slidegate_redis::StoreUsage;
use tokio::time::{sleep, timeout};

use crate::engine::Engine;

/// The latest word of each store.
#[derive(Debug, Default)]
pub struct StoreMemory {
    known: Mutex<BTreeMap<String, StoreUsage>>,
}

/// For one store's answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

impl StoreMemory {
    /// Asks all stores, again and again, for as long as there is the engine.
    pub async fn watch(&self, engine: Weak<Engine>, every: Duration) {
        while let Some(engine) = engine.upgrade() {
            self.refresh(&engine).await;
            drop(engine);
            sleep(every).await;
        }
    }

    /// Asks all stores once. One that gives no answer is not told of until it does.
    pub async fn refresh(&self, engine: &Engine) {
        let mut known = BTreeMap::new();
        for (name, redis) in engine.redises() {
            if let Ok(Ok(usage)) = timeout(ASK_TIMEOUT, redis.usage()).await {
                known.insert(name, usage);
            }
        }
        *self.known.lock() = known;
    }

    /// The latest word of each store that answered.
    pub fn known(&self) -> Vec<(String, StoreUsage)> {
        self.known.lock().iter().map(|(name, usage)| (name.clone(), *usage)).collect()
    }
}
