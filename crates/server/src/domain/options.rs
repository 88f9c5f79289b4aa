//! How descriptors are answered, for all domains.

use crate::config::{EnvoySettings, Settings};

/// Settings of the reference service that a drop-in has too, and one of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of the service, by their names")]
pub struct Options {
    /// Whether every descriptor is charged by itself, whatever becomes of the others, as the
    /// reference service does. A cost of which only a part fits is then charged whole, and denied.
    /// Otherwise a request that one descriptor denies charges none.
    ///
    /// Whoever charges after the fact (`apply_on_stream_done`) wants this: a charge that came too
    /// late to be denied would otherwise be lost when it crosses the limit.
    pub charge_all: bool,
    /// `SHADOW_MODE`: no request is over the limit, whatever its descriptors say.
    pub shadow_mode: bool,
    /// `QUOTA_MODE`: as if every descriptor had `quota_mode`.
    pub quota_mode: bool,
    /// `LIMIT_RESPONSE_HEADERS_ENABLED`: fields that Envoy is to add to the response.
    pub headers: Option<HeaderNames>,
    /// `RESPONSE_DYNAMIC_METADATA`: whether the request and the metadata of the descriptors that
    /// passed are told.
    pub dynamic_metadata: bool,
    /// `NEAR_LIMIT_RATIO` in thousandths: from which part of a limit on hits are counted as near it.
    pub near_limit_thousandths: u16,
    /// The most descriptors of a request, at most
    /// [`DESCRIPTORS_MAX`](super::DESCRIPTORS_MAX), and the most entries of one,
    /// at most [`ENTRIES_MAX`](super::ENTRIES_MAX).
    pub descriptors_max: usize,
}

/// What the fields are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// The limit.
    pub limit: String,
    /// What is left of it.
    pub remaining: String,
    /// Seconds until there is more.
    pub reset: String,
}

impl Default for Options {
    fn default() -> Self {
        Self::from(&Settings::default())
    }
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Self {
        let envoy = &settings.envoy;
        Self {
            charge_all: envoy.charge_all,
            shadow_mode: envoy.shadow_mode,
            quota_mode: envoy.quota_mode,
            headers: envoy.response_headers.then(|| HeaderNames::from(envoy)),
            dynamic_metadata: envoy.dynamic_metadata,
            near_limit_thousandths: envoy.near_limit_thousandths,
            descriptors_max: settings.limits.descriptors_max,
        }
    }
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self::from(&EnvoySettings::default())
    }
}

impl From<&EnvoySettings> for HeaderNames {
    fn from(envoy: &EnvoySettings) -> Self {
        Self {
            limit: envoy.limit_header.clone(),
            remaining: envoy.remaining_header.clone(),
            reset: envoy.reset_header.clone(),
        }
    }
}
