//! Decides a list of descriptors.

use core::fmt;

use slidegate_gate::Caller;

use super::decide::{Failures, LimitChecks};
use super::limit_request::{Invalid, LimitRequest};
use super::meter::DescriptorMatch;
use super::response::{Code, Response, Status};
use super::{Domain, Domains, response_extras};
use crate::config::{EnvoySettings, LimitSettings, Settings};
use crate::spec::HitsUsage;

/// Settings for all domains.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The settings of the reference service, and extensions.
    pub envoy: EnvoySettings,
    /// The maximum number of descriptors in a request, at most
    /// [`DESCRIPTORS_MAX`](super::DESCRIPTORS_MAX).
    pub descriptors_max: usize,
    /// The maximum length of a text in a key, in bytes. Longer ones are counted by their digest.
    pub key_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self::from(&Settings::default())
    }
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Self {
        let LimitSettings { descriptors_max, key_max, .. } = settings.limits;
        Self { envoy: settings.envoy.clone(), descriptors_max, key_max }
    }
}

/// The error of a request that gets no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerError {
    /// The request is empty or exceeds a bound.
    Invalid(Invalid),
    /// A store did not reply, and the failure mode is an error.
    StoreFailed,
}

impl From<Invalid> for AnswerError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(formatter),
            Self::StoreFailed => formatter.write_str("the store did not reply: retry later"),
        }
    }
}

impl core::error::Error for AnswerError {}

/// Decides a list of descriptors: checks every limit that they match. In memory it never waits.
///
/// # Errors
///
/// Returns an error if the request is empty or exceeds a bound, or if a store fails whose failure
/// mode is an error.
pub async fn answer(
    domains: &Domains,
    request: &LimitRequest<'_>,
    options: &Options,
    caller: Caller<'_>,
) -> Result<Response, AnswerError> {
    let statistics = domains.statistics();
    if let Err(invalid) = request.check(options.descriptors_max) {
        statistics.service_error.add(1);
        return Err(invalid.into());
    }
    let mut matches = match domains.get(request.domain) {
        Some(domain) => match_descriptors(domain, request, options),
        None => {
            statistics.domain_not_found.add(1);
            request.descriptors.iter().map(|_| DescriptorMatch::Free).collect()
        }
    };
    let free_quotas = if options.envoy.quota_mode { quotas_only(&mut matches) } else { 0 };
    let meters = matches.iter_mut().filter_map(|descriptor| match descriptor {
        DescriptorMatch::Limited(meter) => Some(&mut **meter),
        DescriptorMatch::Free | DescriptorMatch::Unlimited => None,
    });
    let mut checks = LimitChecks {
        meters: meters.collect(),
        free_quotas,
        options,
        failures: Failures::default(),
        caller,
    };
    let is_over = checks.check().await;
    if checks.failures.any {
        statistics.store_error.add(1);
    }
    if checks.failures.errors {
        return Err(AnswerError::StoreFailed);
    }
    for meter in &checks.meters {
        meter.count(options.envoy.near_limit_thousandths);
    }
    if is_over && options.envoy.shadow_mode {
        statistics.global_shadow_mode.add(1);
    }
    let overall = if is_over && !options.envoy.shadow_mode { Code::OverLimit } else { Code::Ok };
    Ok(respond(overall, request, &matches, options))
}

/// Returns the match of each descriptor, without limits that another one replaces.
fn match_descriptors<'d>(
    domain: &'d Domain,
    request: &LimitRequest<'_>,
    options: &Options,
) -> Vec<DescriptorMatch<'d>> {
    let mut replaced: Vec<&str> = Vec::new();
    let mut matches = Vec::with_capacity(request.descriptors.len());
    for descriptor in &request.descriptors {
        let hits = |usage: Option<HitsUsage>| {
            request.hits(descriptor, usage.unwrap_or(options.envoy.usage))
        };
        let (one, replaces) = domain.match_descriptor(descriptor, hits, options.key_max);
        replaced.extend(replaces.iter().map(|name| &**name));
        matches.push(one);
    }
    if !replaced.is_empty() {
        for one in &mut matches {
            let DescriptorMatch::Limited(meter) = &*one else { continue };
            if meter.name.is_some_and(|name| replaced.contains(&&**name)) {
                *one = DescriptorMatch::Free;
            }
        }
    }
    matches
}

/// Puts all limits in quota mode. Returns the number of descriptors without a limit, which are
/// allowed.
fn quotas_only(matches: &mut [DescriptorMatch<'_>]) -> usize {
    let mut free = 0;
    for descriptor in matches {
        match descriptor {
            DescriptorMatch::Limited(meter) => meter.quota_mode = true,
            DescriptorMatch::Free => free += 1,
            DescriptorMatch::Unlimited => {}
        }
    }
    free
}

fn respond(
    overall: Code,
    request: &LimitRequest<'_>,
    matches: &[DescriptorMatch<'_>],
    options: &Options,
) -> Response {
    let statuses: Vec<Status> = matches
        .iter()
        .map(|descriptor| match descriptor {
            DescriptorMatch::Free => Status::FREE,
            DescriptorMatch::Unlimited => Status::UNLIMITED,
            DescriptorMatch::Limited(meter) => meter.status(),
        })
        .collect();
    let is_quota = |index: usize| matches!(&matches[index], DescriptorMatch::Limited(meter) if meter.quota_mode);
    let envoy = &options.envoy;
    let headers = if envoy.response_headers {
        response_extras::headers(envoy, &statuses, is_quota)
    } else {
        Vec::new()
    };
    let metadata = envoy.dynamic_metadata.then(|| response_extras::metadata(request, matches));
    Response { overall, statuses, headers, metadata }
}
