//! Recorded traffic for replays: one JSON line per answer, without secrets.
//!
//! A separate thread writes the file. If the disk is too slow, answers are skipped.

use std::borrow::Cow;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use context_guard_cursor_store::Clock;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use crate::config::{self, RecordingOptions};
use crate::engine::digest;
use crate::engine::{CallContext, Decision};
use crate::secret_text::{self, REDACTED};
use crate::{Error, Result};

/// The maximum number of exchanges in the queue of the writer.
const MAX_QUEUED: usize = 64;
/// The maximum size of the messages in the queue of the writer, in bytes.
const MAX_QUEUED_BYTES: usize = 64 << 20;
/// Words in the names of secrets. The value of a JSON member is redacted if its name contains one
/// of them.
const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "secret", "token", "apikey", "authorization", "credential", "cookie"];

/// A recorded exchange, which is one line of the recording file.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// The time of the upstream's answer, in milliseconds since 1970.
    pub timestamp: u64,
    /// A digest of the principal, which distinguishes principals without naming them.
    pub principal: String,
    /// The name of the upstream.
    pub upstream: String,
    /// The MCP protocol version of the exchange.
    #[serde(default)]
    pub protocol_version: String,
    /// The endpoint as `upstream::tool`, the form that policy rules use.
    pub endpoint: String,
    /// The client's request as the guard received it, including the arguments for the guard.
    pub request: Value,
    /// The answer of the upstream, before shaping.
    pub response: Value,
}

impl Exchange {
    /// Reads all exchanges of a recording file.
    ///
    /// # Errors
    /// [`Error::Config`] if the file cannot be read, or a line is invalid.
    pub fn read(path: &Path) -> Result<Vec<Self>> {
        let file = |source| config::Error::File { path: path.to_owned(), source };
        let lines = std::io::BufReader::new(std::fs::File::open(path).map_err(file)?).lines();
        let mut exchanges = Vec::new();
        for (at, line) in lines.enumerate() {
            let line = line.map_err(file)?;
            if line.trim().is_empty() {
                continue;
            }
            exchanges.push(serde_json::from_str(&line).map_err(|error| config::Error::Format {
                path: path.to_owned(),
                reason: format!("line {}: not a recorded exchange: {error}", at + 1),
            })?);
        }
        Ok(exchanges)
    }
}

struct Seen {
    cx: CallContext,
    endpoint: String,
    request: Vec<u8>,
    response: Vec<u8>,
    timestamp: u64,
    _queued: QueuedBytes,
}

/// The exchanges that wait for the writer.
#[derive(Default)]
struct QueueState {
    bytes: AtomicUsize,
    /// The number of sampled exchanges that were not queued.
    dropped: AtomicU64,
    /// True if the log has already reported that exchanges were dropped.
    is_reported: AtomicBool,
}

/// The bytes of one exchange in the queue. They count until this value is dropped.
struct QueuedBytes {
    state: Arc<QueueState>,
    bytes: usize,
}

impl QueuedBytes {
    /// Counts `bytes` more bytes. Returns `None` if the queue would exceed `max` bytes.
    fn reserve(state: &Arc<QueueState>, bytes: usize, max: usize) -> Option<Self> {
        let sum = |queued: usize| queued.checked_add(bytes).filter(|sum| *sum <= max);
        state.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok()?;
        Some(Self { state: Arc::clone(state), bytes })
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.state.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A running recording.
pub struct Recording {
    every: u64,
    seen: AtomicU64,
    queue: SyncSender<Seen>,
    queued: Arc<QueueState>,
    clock: Arc<dyn Clock>,
}

impl Recording {
    /// Opens the recording file, relative to `folder`, and starts the thread that writes it.
    /// Returns `None` if the share of recorded answers is 0.
    ///
    /// # Errors
    /// [`Error::Config`]; [`Error::Setup`] if a pattern is not a regular expression.
    pub fn start(
        options: &RecordingOptions,
        folder: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Self>> {
        if options.share <= 0.0 {
            return Ok(None);
        }
        let redactor = Redactor::new(options)?;
        let path = folder.join(&options.file);
        let error = |source| config::Error::File { path: path.clone(), source };
        let mut open = std::fs::OpenOptions::new();
        open.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
        let file = open.open(&path).map_err(error)?;
        let room = options.bytes.saturating_sub(file.metadata().map_err(error)?.len());
        let (queue, seen) = sync_channel(MAX_QUEUED);
        std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || write(file, room, &redactor, &seen))?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 at least")]
        let every = (1.0 / options.share.min(1.0)).round() as u64;
        let (seen, queued) = (AtomicU64::new(0), Arc::default());
        Ok(Some(Self { every, seen, queue, queued, clock }))
    }

    /// Returns the number of sampled exchanges that are not recorded, because the file is written
    /// too slowly or the recording has stopped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queued.dropped.load(Ordering::Relaxed)
    }

    /// Records an exchange if it is sampled. Only then are the messages copied. `response` is the
    /// upstream's answer.
    pub fn offer(&self, cx: &CallContext, request: &[u8], response: &[u8], decision: &Decision) {
        if !self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every) {
            return;
        }
        let bytes = request.len().saturating_add(response.len());
        let queued = QueuedBytes::reserve(&self.queued, bytes, MAX_QUEUED_BYTES);
        let sent = queued.is_some_and(|queued| {
            let seen = Seen {
                cx: cx.clone(),
                endpoint: decision.endpoint.clone(),
                request: request.to_vec(),
                response: response.to_vec(),
                timestamp: u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX),
                _queued: queued,
            };
            self.queue.try_send(seen).is_ok()
        });
        if !sent {
            self.count_dropped();
        }
    }

    fn count_dropped(&self) {
        self.queued.dropped.fetch_add(1, Ordering::Relaxed);
        if !self.queued.is_reported.swap(true, Ordering::Relaxed) {
            warn!("the recording lacks exchanges: its file is written too slowly, or is complete");
        }
    }
}

fn write(mut file: std::fs::File, mut room: u64, redactor: &Redactor, seen: &Receiver<Seen>) {
    while let Ok(seen) = seen.recv() {
        let (Ok(mut request), Ok(mut response)) =
            (serde_json::from_slice(&seen.request), serde_json::from_slice(&seen.response))
        else {
            continue;
        };
        redactor.redact(&mut request);
        redactor.redact(&mut response);
        // The name of a resource is its URI.
        let mut endpoint = seen.endpoint;
        redactor.text(&mut endpoint);
        let exchange = Exchange {
            timestamp: seen.timestamp,
            principal: digest(seen.cx.principal.as_bytes()).chars().take(12).collect(),
            upstream: seen.cx.upstream,
            protocol_version: seen.cx.protocol_version,
            endpoint,
            request,
            response,
        };
        let Ok(mut line) = serde_json::to_vec(&exchange) else { continue };
        line.push(b'\n');
        let Some(left) = room.checked_sub(line.len() as u64) else {
            warn!("recording stopped: the file has reached recording.bytes");
            return;
        };
        if let Err(error) = file.write_all(&line) {
            warn!("recording stopped: cannot write the file: {error}");
            return;
        }
        room = left;
    }
}

/// Removes secrets from recorded messages.
pub(crate) struct Redactor {
    names: Vec<String>,
    patterns: Vec<Regex>,
}

impl Redactor {
    fn new(options: &RecordingOptions) -> Result<Self> {
        let patterns = options.redact_patterns.iter().map(|pattern| {
            Regex::new(pattern)
                .map_err(|error| Error::Setup(format!("recording.redactPatterns: {error}")))
        });
        Ok(Self {
            names: options.redact.iter().map(|name| plain(name)).collect(),
            patterns: patterns.collect::<Result<_>>()?,
        })
    }

    fn is_secret(&self, name: &str) -> bool {
        let name = plain(name);
        // `nextPageToken`, `progressToken` and token counts are not secrets. Configured names
        // always are.
        let known = SECRET_NAMES.iter().any(|secret| name.contains(secret))
            && !name.ends_with("tokens")
            && !name.ends_with("pagetoken")
            && name != "progresstoken";
        known || self.names.contains(&name)
    }

    fn redact(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if self.is_secret(name) && !member.is_null() {
                        *member = REDACTED.into();
                    } else {
                        self.redact(member);
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.redact(element)),
            Value::String(text) => self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts secrets in a string of a message. If the string is JSON, redacts the members of that
    /// JSON.
    fn text(&self, text: &mut String) {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(mut inner) = serde_json::from_str::<Value>(text)
        {
            let before = inner.clone();
            self.redact(&mut inner);
            if inner != before {
                *text = inner.to_string();
            }
            return;
        }
        if let Cow::Owned(redacted) = secret_text::redact(text, |name| self.is_secret(name)) {
            *text = redacted;
        }
        for pattern in &self.patterns {
            if pattern.is_match(text) {
                *text = pattern.replace_all(text, REDACTED).into_owned();
            }
        }
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queued_bytes_are_limited() {
        let state = Arc::<QueueState>::default();
        let reserve = |bytes| QueuedBytes::reserve(&state, bytes, 100);
        let first = reserve(60);
        assert!(first.is_some() && reserve(41).is_none());
        assert!(reserve(40).is_some(), "a refused exchange counts no bytes");
        drop(first);
        assert!(reserve(100).is_some() && reserve(usize::MAX).is_none());
        assert_eq!(state.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn exchanges_above_the_limit_of_bytes_are_dropped() {
        // Nobody takes exchanges from this queue.
        let (queue, waiting) = sync_channel(MAX_QUEUED);
        let clock = Arc::new(context_guard_cursor_store::clock::SystemClock);
        let (seen, queued) = (AtomicU64::new(0), Arc::default());
        let recording = Recording { every: 1, seen, queue, queued, clock };
        let response = vec![b' '; 10 << 20];
        let (cx, decision) = (CallContext::default(), Decision::default());
        for _ in 0..8 {
            recording.offer(&cx, b"{}", &response, &decision);
        }
        assert_eq!((waiting.try_iter().count(), recording.dropped()), (6, 2));
        assert_eq!(recording.queued.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn secrets_are_redacted_everywhere() {
        let options: RecordingOptions = serde_json::from_value(json!({
            "file": "x", "redact": ["Guest_Name"], "redactPatterns": ["[a-z]+@[a-z.]+"],
        }))
        .unwrap();
        let redactor = Redactor::new(&options).unwrap();
        let inner = json!([{"id": 1, "guestName": "Ann", "api_key": "k"}]).to_string();
        let mut message = json!({"params": {"_meta": {"progressToken": 3}, "clientSecret": "s"}, "text": inner, "note": "write to ann@example.org", "estimatedTokens": 5});
        redactor.redact(&mut message);
        let text = message.to_string();
        for gone in ["Ann", "\"k\"", "\"s\"", "ann@"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        assert_eq!(
            (&message["params"]["_meta"]["progressToken"], &message["estimatedTokens"]),
            (&json!(3), &json!(5))
        );
        assert_eq!(message["note"], "write to [redacted]");
        let refused =
            serde_json::from_value(json!({"file": "x", "redactPatterns": ["("]})).unwrap();
        assert!(Redactor::new(&refused).is_err());
    }
}
