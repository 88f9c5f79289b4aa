//! Dropping keys that can no longer change a decision.

use core::time::Duration;

use super::listener::Stop;
use crate::engine::{Engine, Pool};

/// Slots looked at before other tasks get a turn.
const STEP: usize = 4096;

/// Looks at every key in memory once in `every`, a little at a time, until told to stop. Checks
/// sweep as they go; this is for keys that nobody asks for any more.
pub async fn sweep(engine: &Engine, every: Duration, stop: Stop) {
    while !stop.is_over() {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.clone().wait() => return,
        }
        let pools: Vec<Pool> = engine.plan().pools().iter().map(|(_, pool)| pool.clone()).collect();
        for pool in pools {
            let Pool::Memory(limiter) = pool else { continue };
            let keys = usize::try_from(limiter.stats().keys).unwrap_or(usize::MAX);
            // Tables are at most half empty for long.
            for _ in 0..=keys.saturating_mul(2) / STEP {
                limiter.sweep(STEP);
                tokio::task::yield_now().await;
            }
        }
    }
}
