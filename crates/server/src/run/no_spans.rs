//! A program that was built without a way to send spans.

use core::convert::Infallible;

use crate::admin::Page;
use crate::config::TracingSettings;
use crate::engine::{Seen, Witness};

/// There are none.
#[derive(Debug)]
pub struct Spans(Infallible);

impl Spans {
    /// Refuses: who asks for traces and gets none would look for them for a long time.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(settings: &TracingSettings) -> Result<Self, String> {
        Err(format!(
            "tracing.endpoint is {}, but this program was built without tracing: build it with \
             `--features otlp`, or unset `tracing.endpoint` and OTEL_EXPORTER_OTLP_ENDPOINT",
            settings.endpoint
        ))
    }

    /// Nothing is left to send.
    pub fn end(&self) {
        match self.0 {}
    }

    /// Nothing is counted.
    pub fn tell(&self, _: &mut Page) {
        match self.0 {}
    }
}

impl Witness for Spans {
    fn saw(&self, _: &Seen<'_>) {
        match self.0 {}
    }
}
