//! The export of traces, metrics and logs over OTLP (HTTP, protobuf). It never affects requests:
//! its queues are bounded, and it drops and counts what a collector does not accept.

mod settings;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::settings::ExportOptions;
use crate::Result;
use crate::access::{HttpClient, http_client};
use crate::config::OtlpSettings;
use crate::tasks::AbortOnDrop;
use crate::telemetry::otlp::{encode_logs, encode_metrics, encode_spans};
use crate::telemetry::{FinishedSpan, LogEvent, Recorder, take_logs};

/// The time between two exports of spans and log events.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of spans or log events in one request.
const MAX_BATCH: usize = 512;
/// The maximum time of one export request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time for the last export when the gateway stops.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before a failed export request is repeated once.
const PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of bytes of a collector's answer that are read.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A running export. It ends when it is dropped.
pub struct OtlpExport {
    stop: CancellationToken,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
    _abort: CancelOnDrop,
}

struct CancelOnDrop(CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl OtlpExport {
    /// Starts the export that the settings and the standard environment variables describe. Returns
    /// `None` if they set no endpoint.
    ///
    /// # Errors
    /// [`crate::Error::Setup`] if a value is invalid.
    pub fn start(settings: &OtlpSettings, recorder: &Arc<Recorder>) -> Result<Option<Self>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(options) = ExportOptions::new(settings, &variable)? else { return Ok(None) };
        let spans = options.sampler.and_then(|sampler| recorder.trace_requests(sampler));
        let stop = CancellationToken::new();
        info!("traces, metrics and logs are exported to {}", options.host());
        let exporter = Exporter {
            client: http_client(),
            recorder: Arc::clone(recorder),
            spans,
            logs: take_logs(),
            started: since_1970(),
            is_failing: false,
            options,
        };
        let task = tokio::spawn(exporter.run(stop.clone()));
        let abort = CancelOnDrop(stop.clone());
        Ok(Some(Self { stop, task: Mutex::new(Some(task)), _abort: abort }))
    }

    /// Exports the remaining spans, events and metrics, for at most three seconds.
    pub async fn finish(&self) {
        self.stop.cancel();
        if let Some(task) = self.task.lock().await.take() {
            let task = AbortOnDrop(task);
            let _ = tokio::time::timeout(FINISH_TIMEOUT, task.ended()).await;
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

struct Exporter {
    client: HttpClient,
    recorder: Arc<Recorder>,
    spans: Option<Receiver<FinishedSpan>>,
    logs: Option<Receiver<LogEvent>>,
    started: Duration,
    /// True if the collector did not accept the last request.
    is_failing: bool,
    options: ExportOptions,
}

impl Exporter {
    async fn run(mut self, stop: CancellationToken) {
        let mut next_metrics = Instant::now() + self.options.metric_interval;
        loop {
            let is_stopping = tokio::select! {
                () = stop.cancelled() => true,
                () = tokio::time::sleep(INTERVAL) => false,
            };
            self.export_events().await;
            if is_stopping || Instant::now() >= next_metrics {
                next_metrics = Instant::now() + self.options.metric_interval;
                let text = self.recorder.metrics_text();
                let process = &self.options.process;
                let body = encode_metrics(process, &text, self.started, since_1970());
                self.send("metrics", body).await;
            }
            if is_stopping {
                return;
            }
        }
    }

    /// Exports all spans and log events in the queues.
    async fn export_events(&mut self) {
        loop {
            let spans: Vec<_> =
                self.spans.iter().flat_map(Receiver::try_iter).take(MAX_BATCH).collect();
            let logs: Vec<_> =
                self.logs.iter().flat_map(Receiver::try_iter).take(MAX_BATCH).collect();
            let process = &self.options.process;
            let (traces, events) = (encode_spans(process, &spans), encode_logs(process, &logs));
            for (signal, body, count) in
                [("traces", traces, spans.len()), ("logs", events, logs.len())]
            {
                if count > 0 && !self.send(signal, body).await {
                    self.recorder.metrics.otlp_dropped(count as u64);
                }
            }
            if spans.len().max(logs.len()) < MAX_BATCH {
                return;
            }
        }
    }

    /// Sends a message, and repeats it once if that may help. Returns false if the collector did
    /// not accept it.
    async fn send(&mut self, signal: &str, body: Vec<u8>) -> bool {
        let body = Bytes::from(body);
        let mut result = self.attempt(signal, body.clone()).await;
        // While the collector is away, repetitions would delay what waits.
        if !self.is_failing && result.as_ref().is_err_and(|failure| failure.may_pass) {
            tokio::time::sleep(PAUSE).await;
            result = self.attempt(signal, body).await;
        }
        match &result {
            Ok(()) if self.is_failing => info!("the collector accepts exports again"),
            Err(failure) if !self.is_failing => {
                warn!("{signal} cannot be exported to {}: {}", self.options.host(), failure.reason)
            }
            _ => {}
        }
        self.is_failing = result.is_err();
        result.is_ok()
    }

    async fn attempt(&mut self, signal: &str, body: Bytes) -> Result<(), ExportFailure> {
        let failure = |reason: String, may_pass| ExportFailure { reason, may_pass };
        let mut request = Request::post(format!("{}/v1/{signal}", self.options.endpoint))
            .body(Full::new(body))
            .map_err(|error| failure(error.to_string(), false))?;
        *request.headers_mut() = HeaderMap::clone(&self.options.headers);
        let kind = HeaderValue::from_static("application/x-protobuf");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| error.to_string())?;
            let (head, body) = response.into_parts();
            // The connection is used again only after the whole answer.
            let _ = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            Ok::<_, String>(head.status)
        };
        match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(failure(format!("status {status}"), may_pass(status))),
            Ok(Err(reason)) => Err(failure(reason, true)),
            Err(_) => Err(failure(format!("no answer within {} s", TIMEOUT.as_secs()), true)),
        }
    }
}

/// The reason why a message was not accepted.
struct ExportFailure {
    reason: String,
    /// True if sending the message again may succeed.
    may_pass: bool,
}

/// Returns true if a request with this status may be sent again (OTLP specification, failures).
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502..=504)
}
