//! A build without span export.

use std::sync::Arc;

use slidegate_gate::{Observation, Observer};

use crate::admin::ResultCounts;
use crate::config::TracingSettings;

/// Cannot be created.
#[derive(Debug)]
pub enum Spans {}

impl Spans {
    /// Fails, because a configured endpoint that never receives spans is hard to diagnose.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(settings: &TracingSettings) -> Result<Self, String> {
        Err(Self::check(settings).err().unwrap_or_default())
    }

    /// Fails as [`start`](Spans::start) does.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn check(settings: &TracingSettings) -> Result<(), String> {
        Err(format!(
            "tracing.endpoint is {}, but this program was built without tracing: build it with \
             `--features otlp`, or unset `tracing.endpoint` and OTEL_EXPORTER_OTLP_ENDPOINT",
            settings.endpoint
        ))
    }

    /// Never called.
    pub fn end(&self) {
        match *self {}
    }

    /// Never called.
    pub fn counts(&self) -> &Arc<ResultCounts> {
        match *self {}
    }
}

impl Observer for Spans {
    fn decided(&self, _: &Observation<'_>) {
        match *self {}
    }
}
