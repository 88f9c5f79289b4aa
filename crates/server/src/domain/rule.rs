//! The compiled limit of a level.

use std::sync::Arc;

use serde_json::{Map, Value};
use slidegate::{Error, ErrorKind};
use slidegate_gate::{Gate, Rollout};

use super::statistics::HitCounts;
use super::tree::{Builder, Inherited};
use crate::spec::{DescriptorSpec, EnvoyFailureMode, HitsUsage, LimitSpec, Unit};

/// The limit of a level.
#[derive(Debug)]
pub(super) struct Rule {
    /// `None` if unlimited.
    pub(super) rate: Option<Rate>,
    pub(super) name: Option<Arc<str>>,
    pub(super) replaces: Box<[Box<str>]>,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) failure_mode: EnvoyFailureMode,
    /// What `hits_addend` means, if it is configured.
    pub(super) usage: Option<HitsUsage>,
    pub(super) metadata: Option<Map<String, Value>>,
    /// The counts under its configured name.
    pub(super) counts: Arc<HitCounts>,
    /// The domain, and key and value of every level.
    pub(super) label: Box<str>,
}

/// A number of requests in a time unit.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    /// `None` if every request is denied.
    pub(super) gate: Option<Arc<Gate>>,
}

impl Rule {
    pub(super) fn new(
        spec: &DescriptorSpec,
        limit: &LimitSpec,
        label: &str,
        inherited: Inherited<'_>,
        builder: &mut Builder<'_, '_>,
    ) -> Result<Self, Error> {
        check_names(limit, label)?;
        let Inherited { usage, store, .. } = inherited;
        let rollout = if spec.shadow_mode { Rollout::Shadow } else { Rollout::Enforce };
        let rate = match &limit.rate {
            Some(rate) => {
                let gate = match rate.requests {
                    0 => None,
                    _ => Some(builder.factory.descriptor(store, label, rate, rollout)?),
                };
                Some(Rate { requests: rate.requests, unit: rate.unit, gate })
            }
            None => None,
        };
        Ok(Self {
            rate,
            name: limit.name.as_deref().map(Arc::from),
            replaces: limit.replaces.iter().map(|name| name.as_str().into()).collect(),
            shadow_mode: spec.shadow_mode,
            quota_mode: spec.quota_mode,
            failure_mode: store.failure_mode,
            usage,
            metadata: metadata(spec, label)?,
            counts: builder.statistics.configured(label),
            label: label.into(),
        })
    }
}

fn check_names(limit: &LimitSpec, label: &str) -> Result<(), Error> {
    if limit.replaces.iter().any(String::is_empty) {
        return Err(wrong(format!(
            "{label}: `replaces` contains an empty name: use the name of a limit"
        )));
    }
    match &limit.name {
        Some(name) if limit.replaces.contains(name) => Err(wrong(format!(
            "{label}: `replaces` contains its own name {name:?}: use another limit"
        ))),
        _ => Ok(()),
    }
}

fn metadata(spec: &DescriptorSpec, label: &str) -> Result<Option<Map<String, Value>>, Error> {
    match &spec.metadata {
        Some(Value::Object(map)) if !map.is_empty() => Ok(Some(map.clone())),
        None | Some(Value::Null | Value::Object(_)) => Ok(None),
        Some(other) => Err(wrong(format!("{label}: metadata must be a map, but is {other}"))),
    }
}

pub(super) fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}
