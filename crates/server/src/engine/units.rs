//! Limits that requests bring along: made when they are asked for.

use std::sync::Arc;

use slidegate::{Error, MonotonicClock, Quota};
use slidegate_tower::Share;

use super::counts::Counts;
use super::limit::Limit;
use super::pool::Pool;
use crate::spec::{Switch, Unit};

/// The state of every unit of a domain's store.
#[derive(Debug)]
pub struct Units {
    pub(super) name: Arc<str>,
    /// In the order of [`Unit::ALL`].
    pub(super) pools: Vec<Pool>,
    pub(super) counts: Arc<Counts>,
    pub(super) timer: Arc<MonotonicClock>,
}

impl Units {
    /// A limit of `requests` in a unit. It shares its state with all others of that unit.
    ///
    /// # Errors
    ///
    /// When `requests` is zero.
    pub fn limit(&self, requests: u32, unit: Unit) -> Result<Limit, Error> {
        let quotas = [Quota::new(u64::from(requests), unit.window())?];
        let pool = self.pools[unit as usize].clone();
        Ok(Limit {
            name: Arc::clone(&self.name),
            own: Some(pool.tier(&quotas)?),
            quotas: quotas.into(),
            pool,
            tiers: Vec::new(),
            switch: Switch::Enforce,
            share: Share::ALL,
            candidate: None,
            secret_keys: false,
            counts: Arc::clone(&self.counts),
            timer: Arc::clone(&self.timer),
        })
    }

    /// What has happened to such limits.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}
