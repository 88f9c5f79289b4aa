//! Parts of a response besides its codes: fields for the client, metadata for other filters.

use core::time::Duration;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::limit_request::{Descriptor, Entry, LimitRequest};
use super::meter::DescriptorMatch;
use super::response::{Code, CurrentLimit, Status};
use crate::config::EnvoySettings;
use crate::wall_clock::wall_clock;

/// Fields of the descriptor that is nearest to its limit, or of the last that is over it.
pub(super) fn headers(
    settings: &EnvoySettings,
    statuses: &[Status],
    is_quota: impl Fn(usize) -> bool,
) -> Vec<(String, String)> {
    let mut nearest: Option<(&Status, &CurrentLimit)> = None;
    let mut least = u32::MAX;
    for (index, status) in statuses.iter().enumerate() {
        let Some(limit) = &status.limit else { continue };
        let is_over = status.code == Code::OverLimit && !is_quota(index);
        if is_over || status.remaining < least {
            nearest = Some((status, limit));
            least = status.remaining;
        }
    }
    let Some((status, limit)) = nearest else { return Vec::new() };
    let until = status.until.unwrap_or_default();
    let seconds = if settings.reset_epoch { since_epoch(until) } else { until.as_secs() };
    vec![
        (settings.limit_header.clone(), limit.requests.to_string()),
        (settings.remaining_header.clone(), status.remaining.to_string()),
        (settings.reset_header.clone(), seconds.to_string()),
    ]
}

/// The end of a wait that begins now, in seconds since the epoch, rounded up.
fn since_epoch(wait: Duration) -> u64 {
    let now = wall_clock().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let end = now.saturating_add(wait);
    end.as_secs().saturating_add(u64::from(end.subsec_nanos() > 0))
}

/// The request, and the metadata of all descriptors that passed.
pub(super) fn metadata(
    request: &LimitRequest<'_>,
    matches: &[DescriptorMatch<'_>],
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("domain".to_owned(), request.domain.into());
    let descriptors: Vec<Value> = request.descriptors.iter().map(descriptor).collect();
    fields.insert("descriptors".to_owned(), descriptors.into());
    if request.hits_addend != 0 {
        fields.insert("hitsAddend".to_owned(), request.hits_addend.into());
    }
    let mut passed = Map::new();
    for descriptor in matches {
        if let DescriptorMatch::Limited(meter) = descriptor
            && !meter.denies()
            && let Some(metadata) = meter.metadata
        {
            merge(&mut passed, metadata);
        }
    }
    if !passed.is_empty() {
        fields.insert("metadata".to_owned(), passed.into());
    }
    fields
}

fn descriptor(descriptor: &Descriptor<'_>) -> Value {
    let entry = |Entry { key, value }: &Entry<'_>| Value::from(format!("{key}={value}"));
    let entries: Vec<Value> = descriptor.entries.iter().map(entry).collect();
    let mut fields = Map::from_iter([("entries".to_owned(), entries.into())]);
    if let Some(limit) = descriptor.limit {
        let unit = limit.unit.name().to_ascii_uppercase();
        let text = format!("requests_per_unit:{} unit:{unit}", limit.requests);
        fields.insert("limit".to_owned(), text.into());
    }
    if let Some(hits) = descriptor.hits_addend {
        fields.insert("hitsAddend".to_owned(), json!(hits));
    }
    fields.into()
}

/// Adds what is not there yet; maps that are in both are merged.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
