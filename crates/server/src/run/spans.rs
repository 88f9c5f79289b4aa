//! Spans of decisions, sent to a collector with OTLP over gRPC.
//!
//! A decision is reported after it is made, so its span begins in the past. Spans wait in a bounded
//! queue for a dedicated thread; spans that do not fit are dropped. A collector that is down or slow costs
//! spans and nothing else.

use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanData,
    SpanExporter,
};
use slidegate::{Clock, MonotonicClock};
use slidegate_gate::{GateOutcome, Observation, Observer};
use slidegate_http::TraceParent;

use crate::admin::ResultCounts;
use crate::config::TracingSettings;

/// Makes a span of every decision that is sampled. Keys are not in it.
#[derive(Debug)]
pub struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    counts: Arc<ResultCounts>,
    clock: MonotonicClock,
}

/// The maximum time to send the last spans.
const LAST: Duration = Duration::from_secs(2);

impl Spans {
    /// Starts to send spans. Must be called within a tokio runtime. The collector need not be reachable yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the endpoint is not an address.
    pub fn start(settings: &TracingSettings) -> Result<Self, String> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&settings.endpoint)
            .build()
            .map_err(|error| format!("tracing.endpoint {}: {error}", settings.endpoint))?;
        let results = ["made", "sent", "failed"];
        let counts = ResultCounts::new("slidegate_spans_total", "Spans of decisions.", &results);
        let counts = Arc::new(counts);
        let exporter = Counted { exporter, counts: Arc::clone(&counts) };
        let batches = BatchConfigBuilder::default().with_max_queue_size(settings.queue_max).build();
        let root = Sampler::TraceIdRatioBased(settings.sample_ratio);
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(
                BatchSpanProcessor::builder(exporter).with_batch_config(batches).build(),
            )
            // A caller's sampling decision applies to its whole trace; the ratio is for other requests.
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .with_resource(resource(version))
            .build();
        let tracer = provider.tracer("slidegate");
        Ok(Self { provider, tracer, counts, clock: MonotonicClock::new() })
    }

    /// Checks the settings. An endpoint that is not an address was refused when they were read.
    ///
    /// # Errors
    ///
    /// Never, in this build.
    pub fn check(_: &TracingSettings) -> Result<(), String> {
        Ok(())
    }

    /// Sends the spans that wait, and blocks for at most two seconds.
    pub fn end(&self) {
        // A collector that does not accept the last spans in time does not get them.
        let _ = self.provider.shutdown_with_timeout(LAST);
    }

    /// Returns the number of spans by result.
    pub fn counts(&self) -> &Arc<ResultCounts> {
        &self.counts
    }
}

/// Honors `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` if they are set.
fn resource(version: KeyValue) -> Resource {
    let detected = Resource::builder().with_attribute(version).build();
    let name = detected.get(&"service.name".into()).map(|name| name.to_string());
    if name.is_some_and(|name| !name.starts_with("unknown_service")) {
        return detected;
    }
    let attributes = detected.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let attributes: Vec<KeyValue> = attributes.collect();
    Resource::builder_empty().with_attributes(attributes).with_service_name("slidegate").build()
}

impl Observer for Spans {
    fn decided(&self, observation: &Observation<'_>) {
        let Observation { gate, cost, decision, took, caller, outcome, .. } = *observation;
        let Some(decision) = decision.filter(|_| outcome != GateOutcome::Off) else { return };
        let parent = caller.trace().map_or_else(Context::new, |trace| remote(&trace));
        let ended = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.clock.now());
        let builder = SpanBuilder::from_name("rate_limit")
            .with_kind(SpanKind::Internal)
            .with_start_time(ended.checked_sub(took).unwrap_or(ended));
        let mut span = self.tracer.build_with_context(builder, &parent);
        if !span.is_recording() {
            return;
        }
        self.counts.add("made", 1);
        let number = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        span.set_attribute(KeyValue::new("slidegate.listener", caller.listener().name()));
        span.set_attribute(KeyValue::new("slidegate.policy", gate.name().to_owned()));
        span.set_attribute(KeyValue::new("slidegate.outcome", outcome.name()));
        span.set_attribute(KeyValue::new("slidegate.cost", number(cost.get())));
        span.set_attribute(KeyValue::new("slidegate.remaining", number(decision.remaining())));
        if let Some(reason) = decision.degraded_reason() {
            span.set_attribute(KeyValue::new("slidegate.degraded", true));
            span.set_attribute(KeyValue::new("slidegate.degraded_reason", reason.name()));
        }
        span.end_with_timestamp(ended);
    }
}

/// The caller's span, as a parent.
fn remote(trace: &TraceParent<'_>) -> Context {
    // Both are valid hexadecimal numbers: they were checked when they were parsed.
    let trace_id = TraceId::from_hex(trace.trace_id()).unwrap_or(TraceId::INVALID);
    let parent_id = SpanId::from_hex(trace.parent_id()).unwrap_or(SpanId::INVALID);
    let flags = TraceFlags::default().with_sampled(trace.is_sampled());
    let span = SpanContext::new(trace_id, parent_id, flags, true, TraceState::NONE);
    Context::new().with_remote_span_context(span)
}

/// An exporter whose spans are counted.
#[derive(Debug)]
struct Counted<E> {
    exporter: E,
    counts: Arc<ResultCounts>,
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let exported = self.exporter.export(batch).await;
        self.counts.add(if exported.is_ok() { "sent" } else { "failed" }, spans);
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
