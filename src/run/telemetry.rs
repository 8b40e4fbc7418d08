//! Logs and traces: what goes to stderr, and what goes to a collector.
//!
//! Lines are text or JSON. Traces are sent only when the usual variable names a collector
//! (`OTEL_EXPORTER_OTLP_ENDPOINT`); a collector that does not answer costs a run a warning and at
//! most [`STOP_BUDGET`] at its end.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_otlp::{Protocol, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::log_line::LogLine;
use super::terminal::Terminal;

/// How long one request to the collector may take.
const EXPORT_BUDGET: Duration = Duration::from_secs(3);

/// How long the end of a run waits for the collector, at most.
pub const STOP_BUDGET: Duration = Duration::from_secs(4);

/// The crate's name as `tracing` targets begin with it.
const CRATE: &str = "egress_plan";

/// Logs and traces of this process.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<Traces>,
}

#[derive(Debug)]
struct Traces {
    provider: SdkTracerProvider,
    lost: Arc<AtomicBool>,
}

impl Telemetry {
    /// Sets logs and traces up for the whole process. Call it once, outside of a tokio runtime,
    /// since the exporter brings one of its own. Nothing here can fail a run.
    #[must_use]
    pub fn start(terminal: &Terminal, verbosity: u8) -> Self {
        let wanted = collector_wanted();
        let traces = wanted.then(Traces::start).flatten();
        let lines = tracing_subscriber::fmt::layer()
            .event_format(LogLine::new(terminal))
            .with_ansi(terminal.color_err)
            .with_writer(std::io::stderr)
            .log_internal_errors(false)
            .with_filter(filter(verbosity));
        let spans = traces.as_ref().map(|traces| {
            tracing_opentelemetry::layer()
                .with_tracer(traces.provider.tracer(CRATE))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_tracked_inactivity(false)
                .with_filter(Targets::new().with_target(CRATE, Level::DEBUG))
        });
        // Only a second call could fail here, and then the first one's set-up stands.
        let _ = tracing_subscriber::registry().with(spans).with(lines).try_init();
        if wanted && traces.is_none() {
            // The exporter's own words would repeat the URL, which may hold a password.
            tracing::warn!("No traces are sent: the exporter cannot be set up; look at OTEL_EXPORTER_OTLP_ENDPOINT");
        }
        Self { traces }
    }

    /// The span that everything of a run is under. Its parent is the one that `TRACEPARENT` names.
    #[must_use]
    pub fn root_span(&self, command: &'static str, run: &str) -> tracing::Span {
        let span = tracing::info_span!(target: CRATE, "run", command, run);
        if self.traces.is_some() {
            let parent = remote_parent(|name| std::env::var(name).ok());
            if parent.span().span_context().is_valid() {
                // A span that nobody records has no parent either; nothing is lost.
                let _ = span.set_parent(parent);
            }
        }
        span
    }

    /// Sends what is left, within [`STOP_BUDGET`]. Call it after leaving the tokio runtime.
    pub fn stop(self) {
        let Some(Traces { provider, lost }) = self.traces else { return };
        let stopped = provider.shutdown_with_timeout(STOP_BUDGET);
        if stopped.is_err() || lost.load(Ordering::Relaxed) {
            tracing::warn!("Traces were lost: the collector did not take them; look at OTEL_EXPORTER_OTLP_ENDPOINT");
        }
    }
}

/// Whether the environment names a collector and does not switch the SDK off.
fn collector_wanted() -> bool {
    let value = |name: &str| std::env::var(name).unwrap_or_default();
    let named = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
        .iter()
        .any(|name| !value(name).is_empty());
    named && !value("OTEL_SDK_DISABLED").eq_ignore_ascii_case("true")
}

/// The remote parent that the environment names, or a context without a span.
fn remote_parent(variable: impl Fn(&str) -> Option<String>) -> opentelemetry::Context {
    let carrier: HashMap<String, String> = [("traceparent", "TRACEPARENT"), ("tracestate", "TRACESTATE")]
        .into_iter()
        .filter_map(|(header, name)| Some((header.to_owned(), variable(name)?)))
        .collect();
    TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier)
}

/// Default: warnings. `-v`: this crate's steps, connections and calls. `-vv`: everything of this
/// crate, and what libraries tell. Libraries never get further, since their debug lines hold
/// whole requests.
fn filter(verbosity: u8) -> Targets {
    let (own, others) = match verbosity {
        0 => (LevelFilter::WARN, LevelFilter::WARN),
        1 => (LevelFilter::DEBUG, LevelFilter::WARN),
        _ => (LevelFilter::TRACE, LevelFilter::INFO),
    };
    // The cluster's client would tell of an answer that it cannot read by showing all of it.
    Targets::new().with_default(others).with_target("kube_client", LevelFilter::OFF).with_target(CRATE, own)
}

impl Traces {
    /// Nothing when the environment does not describe an exporter.
    fn start() -> Option<Self> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_BUDGET)
            .build()
            .ok()?;
        let lost = Arc::new(AtomicBool::new(false));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Watched { inner: exporter, lost: Arc::clone(&lost) })
            .with_resource(resource())
            .build();
        Some(Self { provider, lost })
    }
}

/// What the spans are of. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win over our name.
fn resource() -> Resource {
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some()
        || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|attributes| attributes.contains("service.name="));
    let builder =
        Resource::builder().with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if named { builder.build() } else { builder.with_service_name("egress-plan").build() }
}

/// An exporter that remembers whether a batch was lost; the SDK itself keeps that to itself.
struct Watched<E> {
    inner: E,
    lost: Arc<AtomicBool>,
}

impl<E> fmt::Debug for Watched<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.inner.export(batch).await;
        if result.is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_opens_this_crate_before_libraries() {
        for (verbosity, own, others) in [
            (0, Level::WARN, Level::WARN),
            (1, Level::DEBUG, Level::WARN),
            (2, Level::TRACE, Level::INFO),
            (9, Level::TRACE, Level::INFO),
        ] {
            let filter = filter(verbosity);
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                assert_eq!(filter.would_enable("egress_plan::apply", &level), level <= own, "{verbosity} {level}");
                assert_eq!(filter.would_enable("russh::client", &level), level <= others, "{verbosity} {level}");
            }
        }
    }

    #[test]
    fn a_remote_parent_is_taken_from_the_environment_when_it_reads() {
        let parent = |text: &'static str| {
            remote_parent(move |name| (name == "TRACEPARENT").then(|| text.to_owned())).span().span_context().clone()
        };
        let good = parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(good.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert!(good.is_remote());
        assert!(!parent("nonsense").is_valid());
        assert!(!remote_parent(|_| None).span().span_context().is_valid());
    }
}
