//! The log: lines for people or JSON on standard error, and the export of its events.

use std::fmt;
use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use context_guard::telemetry::{LogEvent, export_log, exports_logs};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as Clock};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The format of the lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging to standard error, because standard output belongs to the protocol.
pub(super) fn start(filter: EnvFilter, format: LogFormat) {
    let registry = tracing_subscriber::registry().with(filter).with(LogExport);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            let colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
            registry.with(layer.with_ansi(colours).with_target(false)).init();
        }
        LogFormat::Json => registry.with(layer.event_format(JsonLines)).init(),
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn of_event(event: &Event<'_>) -> Self {
        let mut fields = Self::default();
        event.record(&mut fields);
        fields
    }

    fn add(&mut self, field: &Field, value: Value) {
        // Events of the crate `log` carry their origin in such fields.
        if !field.name().starts_with("log.") {
            self.0.push((field.name(), value));
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// Writes an event as one JSON object: `timestamp`, `level`, `target`, `message`, and its fields.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        Clock.format_time(&mut Writer::new(&mut time))?;
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), time.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        for (name, value) in Fields::of_event(event).0 {
            // No field replaces a member above.
            let name = if line.contains_key(name) { format!("field_{name}") } else { name.into() };
            line.insert(name, value);
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Queues log events for the OTLP export, if there is one.
struct LogExport;

impl<S: Subscriber> Layer<S> for LogExport {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if !exports_logs() {
            return;
        }
        let mut message = String::new();
        let mut fields = Vec::new();
        for (name, value) in Fields::of_event(event).0 {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match name {
                "message" => message = text,
                name => fields.push((name, text)),
            }
        }
        export_log(LogEvent {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            severity: event.metadata().level().as_str(),
            message,
            fields,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn events_are_json_lines() {
        let written = Written::default();
        let copy = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || copy.clone());
        let subscriber = tracing_subscriber::registry().with(layer.event_format(JsonLines));
        tracing::subscriber::with_default(subscriber, || {
            let (count, level) = (3_u64, "own");
            tracing::warn!(target: "a::b", count, level, state = ?Some("x\n"), "two\nlines \"{}\"", 1);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "two\nlines \"1\"");
        assert_eq!((&line["level"], &line["field_level"]), (&"WARN".into(), &"own".into()));
        assert_eq!((&line["count"], &line["target"]), (&3.into(), &"a::b".into()));
        assert_eq!(line["state"], "Some(\"x\\n\")");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{text}");
    }
}
