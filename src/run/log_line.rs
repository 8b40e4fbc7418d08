//! How one log event is written: a line of text, or one JSON object.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use opentelemetry::trace::TraceContextExt as _;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::line::{self, Head};
use super::terminal::{Terminal, level_style};
use crate::cli::LogFormat;

/// Writes events in the format that the command line asks for, those of libraries too (L41).
#[derive(Debug, Clone)]
pub struct LogLine {
    format: LogFormat,
    run: Arc<str>,
}

impl LogLine {
    /// Lines as `terminal` takes them.
    #[must_use]
    pub fn new(terminal: &Terminal) -> Self {
        Self { format: terminal.format, run: Arc::clone(&terminal.run) }
    }
}

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        let target = fields.log_target.take().unwrap_or_else(|| event.metadata().target().to_owned());
        match self.format {
            LogFormat::Text => writer.write_str(&fields.text(level, writer.has_ansi_escapes())),
            LogFormat::Json => writer.write_str(&fields.json(level, target, &self.run)),
        }
    }
}

/// The word for a level, in JSON.
fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The fields of an event, taken apart.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    /// Where a line of the `log` crate comes from; its events all bear one target.
    log_target: Option<String>,
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    fn push(&mut self, field: &Field, value: Value) {
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match field.name() {
            "message" => self.message = text(),
            "log.target" => self.log_target = Some(text()),
            // Where in a library's source a line comes from is of no use here.
            name if name.starts_with("log.") => {}
            name => self.rest.push((name.strip_prefix("r#").unwrap_or(name), value)),
        }
    }

    /// `warning: message field=value`.
    fn text(&self, level: Level, color: bool) -> String {
        let style = if color { level_style(level) } else { clap::builder::styling::Style::new() };
        let word = if level == Level::WARN { "warning" } else { level_word(level) };
        let mut body = self.message.clone();
        for (name, value) in &self.rest {
            // Writing to a String cannot fail.
            let _ = match value.as_str() {
                Some(text) if !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"') => {
                    write!(body, " {name}={text}")
                }
                _ => write!(body, " {name}={value}"),
            };
        }
        format!("{style}{word}:{style:#} {}\n", line::printable(&body).replace(['\n', '\t'], " "))
    }

    fn json(mut self, level: Level, target: String, run: &str) -> String {
        let context = tracing::Span::current().context();
        let span = context.span().span_context().clone();
        if span.is_valid() {
            self.rest.insert(0, ("span_id", span.span_id().to_string().into()));
            self.rest.insert(0, ("trace_id", span.trace_id().to_string().into()));
        }
        self.rest.insert(0, ("target", target.into()));
        line::json(Head { level: level_word(level), message: &self.message, run }, &self.rest)
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.push(field, value.to_string().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat, work: impl FnOnce()) -> String {
        let page = Page::default();
        let target = page.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(LogLine { format, run: Arc::from("r1") })
            .with_ansi(false)
            .with_writer(move || target.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let bytes = page.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn text_lines_say_level_message_and_fields() {
        let text = written(LogFormat::Text, || {
            tracing::warn!(host = "lab/h1", duration_ms = 12_u64, error = "two words", "libvirt call");
        });
        assert_eq!(text, "warning: libvirt call host=lab/h1 duration_ms=12 error=\"two words\"\n");
    }

    #[test]
    fn r39_a_remote_text_cannot_steer_the_terminal_or_begin_a_line() {
        let text = written(LogFormat::Text, || {
            tracing::error!(reason = %"\u{1b}[2Jgone\nerror: forged", "it said \u{7}\nso");
        });
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    }

    #[test]
    fn l41_json_lines_keep_types_and_name_the_run() {
        let text = written(LogFormat::Json, || {
            tracing::debug!(host = "lab/h1", calls = 3_u64, ok = true, ratio = 0.5, "libvirt call");
        });
        let value: Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(value["level"], "debug");
        assert_eq!(value["message"], "libvirt call");
        assert_eq!(value["run"], "r1");
        assert_eq!(value["host"], "lab/h1");
        assert_eq!(value["calls"], 3);
        assert_eq!(value["ok"], true);
        assert_eq!(value["ratio"], 0.5);
        assert_eq!(value["target"], "egress_plan::run::log_line::tests");
    }
}
