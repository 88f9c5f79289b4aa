//! Where the requests of a replay come from.

use core::sync::atomic::Ordering;

use slidegate::Cost;

use crate::keys::Keys;
use crate::number::share;
use crate::read::{Extracted, Filter, KeyTemplate, LogReader, ReadCounts, Record, Timed};
use crate::replay::KeyedCost;
use crate::traffic::Traffic;

/// Requests of logs or of a built-in pattern.
#[derive(Debug)]
pub struct Source {
    kind: Kind,
    /// The key of the current request.
    key: String,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one source per replay")]
enum Kind {
    Logs {
        reader: LogReader<KeyedCost>,
        template: KeyTemplate,
        filter: Filter,
        /// Bytes of all files, if known.
        total: Option<u64>,
    },
    Traffic(Traffic),
}

impl Source {
    /// Requests of logs. `total` is the size of all files, if it is known.
    pub fn logs(
        reader: LogReader<KeyedCost>,
        template: KeyTemplate,
        filter: Filter,
        total: Option<u64>,
    ) -> Self {
        Self { kind: Kind::Logs { reader, template, filter, total }, key: String::new() }
    }

    /// Requests of a built-in pattern.
    pub fn traffic(traffic: Traffic) -> Self {
        Self { kind: Kind::Traffic(traffic), key: String::new() }
    }

    /// Replaces `requests` by up to `count` further ones, in the order of time. Without further requests, the
    /// list is empty.
    pub fn fill(&mut self, requests: &mut Vec<Timed<KeyedCost>>, count: usize, keys: &mut Keys) {
        match &mut self.kind {
            Kind::Logs { reader, template, filter, .. } => {
                let key = &mut self.key;
                reader.fill(requests, count, |record| extract(record, template, filter, key, keys));
            }
            Kind::Traffic(traffic) => {
                requests.clear();
                requests.extend(traffic.take(count).map(|(at_ms, number)| {
                    let name = || format!("client-{number}").into_boxed_str();
                    let slot = keys.intern_number(number, name);
                    Timed { at_ms, item: KeyedCost { slot, cost: Cost::ONE } }
                }));
            }
        }
    }

    /// Returns the share that was read, from 0 to 1. Returns `None` if the size is unknown.
    pub fn progress(&self) -> Option<f64> {
        match &self.kind {
            Kind::Logs { reader, total, .. } => {
                Some(share(reader.bytes_read().load(Ordering::Relaxed), (*total)?))
            }
            Kind::Traffic(traffic) => Some(traffic.progress()),
        }
    }

    /// Returns what was read, and what could not be.
    pub fn counts(&self) -> ReadCounts {
        match &self.kind {
            Kind::Logs { reader, .. } => reader.counts().clone(),
            Kind::Traffic(_) => ReadCounts::default(),
        }
    }
}

fn extract(
    record: &Record<'_>,
    template: &KeyTemplate,
    filter: &Filter,
    key: &mut String,
    keys: &mut Keys,
) -> Extracted<KeyedCost> {
    if !filter.accepts(record) {
        return Extracted::Filtered;
    }
    let cost = match Cost::new(record.cost) {
        Ok(cost) => cost,
        Err(error) => return Extracted::Unreadable(error.to_string()),
    };
    if !template.write(record, key) {
        return Extracted::WithoutKey;
    }
    Extracted::Request(KeyedCost { slot: keys.intern(key), cost })
}
