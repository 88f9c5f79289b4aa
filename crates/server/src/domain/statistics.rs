//! Statistics of descriptors, under the names of the reference service.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use slidegate_gate::{Count, Histogram};

/// Statistics of descriptors, under every configuration so far.
#[derive(Debug, Default)]
pub struct Statistics {
    domains: Mutex<HashMap<Box<str>, Arc<DomainStatistics>>>,
    /// Requests for a domain that is not configured.
    pub domain_not_found: Count,
    /// Requests that were invalid.
    pub service_error: Count,
    /// Requests for which a store did not reply, for any failure mode.
    pub store_error: Count,
    /// Requests over the limit that were allowed because all limits are in shadow mode.
    pub global_shadow_mode: Count,
    /// Calls of `ShouldRateLimit`, by duration.
    pub calls: Histogram,
}

/// The series of one domain, each name once.
#[derive(Debug)]
pub struct DomainStatistics {
    /// The name of the series for all others.
    other: Box<str>,
    configured: RwLock<HashMap<Box<str>, Arc<HitCounts>>>,
    seen: RwLock<HashMap<Box<str>, Arc<HitCounts>>>,
}

/// The counts of one limit, in hits.
#[derive(Debug, Default)]
pub struct HitCounts {
    /// All hits.
    pub total_hits: Count,
    /// Hits above the limit.
    pub over_limit: Count,
    /// Hits close to it.
    pub near_limit: Count,
    /// Hits of allowed requests.
    pub within_limit: Count,
    /// Hits above the limit that were allowed because it is in shadow mode.
    pub shadow_mode: Count,
    /// Hits that were refunded.
    pub total_negative_hits: Count,
}

/// The maximum number of series of a domain whose names contain values of requests.
pub const SEEN_MAX: usize = 1000;
/// The maximum length of such a name, in bytes.
const SEEN_LEN_MAX: usize = 256;
/// The series that counts all further ones.
pub const OTHER: &str = "other";
/// The maximum number of configured series, and domains, that are kept after they are removed.
const REMEMBERED: usize = 10_000;

impl Statistics {
    /// Returns all domains so far, by name.
    pub fn domains(&self) -> Vec<(String, Arc<DomainStatistics>)> {
        let mut domains: Vec<_> = self
            .domains
            .lock()
            .iter()
            .map(|(name, statistics)| (name.to_string(), statistics.clone()))
            .collect();
        domains.sort_by(|one, other| one.0.cmp(&other.0));
        domains
    }

    pub(super) fn domain(&self, domain: &str) -> Arc<DomainStatistics> {
        entry(&mut self.domains.lock(), domain, || Arc::new(DomainStatistics::new(domain)))
    }
}

impl DomainStatistics {
    fn new(domain: &str) -> Self {
        let other = format!("{domain}.{OTHER}").into();
        Self { other, configured: RwLock::default(), seen: RwLock::default() }
    }

    /// Returns all series, by name: those of the configuration, those with values of requests, and
    /// `<domain>.other` once it has counts.
    pub fn series(&self) -> Vec<(String, Arc<HitCounts>)> {
        let mut all = Vec::new();
        for series in [&self.configured, &self.seen] {
            let series = series.read();
            all.extend(series.iter().map(|(name, counts)| (name.to_string(), counts.clone())));
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// Returns a series of the configuration.
    pub(super) fn configured(&self, name: &str) -> Arc<HitCounts> {
        let mut configured = self.configured.write();
        // Counts of requests so far continue under the same name.
        let made_up = self.seen.write().remove(name);
        entry(&mut configured, name, || made_up.unwrap_or_default())
    }

    /// Returns a series whose name contains values of a request.
    pub(super) fn seen(&self, name: &str) -> Arc<HitCounts> {
        if let Some(counts) = self.find(name) {
            return counts;
        }
        if name.len() > SEEN_LEN_MAX || self.seen.read().len() >= SEEN_MAX {
            return self.other();
        }
        let configured = self.configured.read();
        let mut seen = self.seen.write();
        // Another thread may have added it.
        if let Some(counts) = configured.get(name).or_else(|| seen.get(name)) {
            return Arc::clone(counts);
        }
        if seen.len() >= SEEN_MAX {
            drop((configured, seen));
            return self.other();
        }
        Arc::clone(seen.entry(name.into()).or_default())
    }

    fn find(&self, name: &str) -> Option<Arc<HitCounts>> {
        let found = self.configured.read().get(name).cloned();
        found.or_else(|| self.seen.read().get(name).cloned())
    }

    fn other(&self) -> Arc<HitCounts> {
        let found = self.find(&self.other);
        found.unwrap_or_else(|| self.configured(&self.other))
    }
}

/// Returns the entry of a name, and creates it if necessary.
fn entry<T>(
    map: &mut HashMap<Box<str>, Arc<T>>,
    name: &str,
    make: impl FnOnce() -> Arc<T>,
) -> Arc<T> {
    if map.len() >= REMEMBERED {
        map.retain(|_, value| Arc::strong_count(value) > 1);
    }
    Arc::clone(map.entry(name.into()).or_insert_with(make))
}

impl HitCounts {
    /// Counts a request of `hits` that found `used` of `limit` taken. Returns the number above it.
    ///
    /// If a request crosses a threshold, only the part above it is counted there.
    pub(super) fn note(&self, used: u64, hits: u64, limit: u64, near: u64, is_over: bool) -> u64 {
        self.total_hits.add(hits);
        let after = used.saturating_add(hits);
        if !is_over {
            self.within_limit.add(hits);
            self.near_limit.add(after.saturating_sub(near.max(used)).min(hits));
            return 0;
        }
        if used >= limit {
            self.over_limit.add(hits);
            return hits;
        }
        self.near_limit.add(limit.saturating_sub(near.max(used)));
        let over = after.saturating_sub(limit);
        self.over_limit.add(over);
        over
    }
}

#[cfg(test)]
mod tests;
