//! The event stream that notifies the dashboard of new data.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use context_guard_history::Reader;
use futures_util::{StreamExt as _, stream};

use super::console::Console;
use crate::history::HistorySource;
use crate::reply;

/// The time between two checks of the history for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The silence after which a comment is sent, so that proxies do not close the stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The maximum age of a stream. The dashboard then opens a new one, for which its session is
/// checked.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The state of an event stream.
struct Watch {
    source: Option<HistorySource>,
    reader: Arc<Mutex<Option<Reader>>>,
    version: Option<i64>,
    opened: Instant,
    last_sent: Instant,
}

impl Watch {
    /// Returns the version of the history. Opens the file when it exists. `None` if it cannot be
    /// read.
    async fn read_version(&self) -> Option<i64> {
        let source = self.source.clone()?;
        let reader = Arc::clone(&self.reader);
        let read = tokio::task::spawn_blocking(move || {
            let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            if reader.is_none() {
                *reader = source.reader().ok();
            }
            reader.as_ref()?.version().ok()
        });
        read.await.ok().flatten()
    }
}

/// Serves the event stream. It sends an event `changed` whenever the history has a new version.
pub(super) async fn events(State(console): State<Arc<Console>>) -> Response {
    let now = Instant::now();
    let watch = Watch {
        source: console.history.clone(),
        reader: Arc::default(),
        version: None,
        opened: now,
        last_sent: now,
    };
    let changes = stream::unfold(watch, async |mut watch| {
        loop {
            if watch.opened.elapsed() > MAX_AGE {
                return None;
            }
            let version = watch.read_version().await;
            let text = if version != watch.version {
                watch.version = version;
                "event: changed\ndata: {}\n\n"
            } else if watch.last_sent.elapsed() > KEEP_ALIVE {
                ":\n\n"
            } else {
                tokio::time::sleep(INTERVAL).await;
                continue;
            };
            watch.last_sent = Instant::now();
            return Some((
                Ok::<_, std::convert::Infallible>(Bytes::from_static(text.as_bytes())),
                watch,
            ));
        }
    });
    let closing = console.closing.clone().cancelled_owned();
    reply::events(Body::from_stream(Box::pin(changes).take_until(Box::pin(closing))))
}
