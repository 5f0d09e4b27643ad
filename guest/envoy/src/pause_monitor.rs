//! Detects a listener without `allow_on_headers_stop_iteration`.
//!
//! The filter pauses a stream at its headers, until it has read the body. Without the setting,
//! Envoy withholds the body as well, so the stream would wait forever. The filter cannot read the
//! setting. It compares what Envoy received with what Envoy passed on: if bytes of a body arrived,
//! but no body callback followed, the setting is missing. A client that sends its body slowly is no
//! evidence, because none of its bytes arrived.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use context_guard_protocol::code::NOT_CONFIGURED;
use context_guard_protocol::http::HttpResponse;
use context_guard_protocol::response;
use log::{error, warn};
use proxy_wasm::hostcalls::{
    get_map_bytes, get_property, send_http_response, set_effective_context, set_tick_period,
};
use proxy_wasm::types::MapType;

/// The time between two checks of the paused streams.
const TICK: Duration = Duration::from_millis(100);
/// The maximum number of checks with a withheld body. Envoy passes a body on in the same iteration
/// of its event loop, but earlier filters may hold it briefly.
const MAX_WITHHELD_TICKS: u32 = 5;
/// The number of checks after which a paused response without a body is logged.
const LONG_PAUSE_TICKS: u32 = 50;

/// The reason in the response to the client and in the log.
const REASON: &str = "Envoy does not pass bodies to the filter context-guard. Set allow_on_headers_stop_iteration: true in the config of the Wasm filter (Envoy 1.35 or later). See \"Run in Envoy\" in the documentation of context-guard.";

/// The paused streams of a worker, while it is unknown if Envoy has the setting.
#[derive(Default)]
pub(crate) struct PauseMonitor {
    /// True after Envoy passed a body to a paused stream, which proves the setting.
    is_proven: Cell<bool>,
    is_logged: Cell<bool>,
    streams: RefCell<Vec<Weak<PausedStream>>>,
}

/// The direction in which a stream is paused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    None,
    Request,
    Response,
    /// The monitor answered the stream.
    Refused,
}

/// A stream that the monitor checks while it is paused.
pub(crate) struct PausedStream {
    context: u32,
    pause: Cell<Pause>,
    /// The number of checks since the stream was paused.
    ticks: Cell<u32>,
    /// The number of checks that found a withheld body.
    withheld_ticks: Cell<u32>,
}

impl PausedStream {
    /// Creates the state of the stream with this context id.
    pub(crate) fn new(context: u32) -> Rc<Self> {
        Rc::new(Self {
            context,
            pause: Cell::new(Pause::None),
            ticks: Cell::new(0),
            withheld_ticks: Cell::new(0),
        })
    }

    /// Returns the direction in which the stream is paused.
    pub(crate) fn pause(&self) -> Pause {
        self.pause.get()
    }

    /// Marks the stream as not paused.
    pub(crate) fn resume(&self) {
        self.pause.set(Pause::None);
    }

    /// Returns true if Envoy has bytes of the body that it did not pass to the filter.
    fn is_body_withheld(&self) -> bool {
        set_effective_context(self.context).is_ok()
            && match self.pause.get() {
                Pause::Request => received_body_bytes() > 0,
                Pause::Response => is_response_complete(),
                Pause::None | Pause::Refused => false,
            }
    }

    /// Answers the stream with status 500 and the reason.
    fn refuse(&self) {
        self.pause.set(Pause::Refused);
        let body = response::error("null", NOT_CONFIGURED, REASON);
        let answer = HttpResponse::json(500, body);
        let headers = vec![("content-type", answer.content_type)];
        let _ = send_http_response(answer.status.into(), headers, Some(&answer.body));
    }
}

impl PauseMonitor {
    /// Marks a stream as paused, and checks it from now on.
    pub(crate) fn watch(&self, stream: &Rc<PausedStream>, pause: Pause) {
        stream.pause.set(pause);
        if self.is_proven.get() {
            return;
        }
        stream.ticks.set(0);
        stream.withheld_ticks.set(0);
        let mut streams = self.streams.borrow_mut();
        if streams.is_empty() {
            let _ = set_tick_period(TICK);
        }
        streams.push(Rc::downgrade(stream));
    }

    /// Records that Envoy passed a body to a stream. Ends all checks if the stream is paused.
    pub(crate) fn on_body(&self, stream: &PausedStream) {
        if matches!(stream.pause(), Pause::Request | Pause::Response) && !self.is_proven.get() {
            self.is_proven.set(true);
            self.streams.borrow_mut().clear();
            let _ = set_tick_period(Duration::ZERO);
        }
    }

    /// Checks all paused streams, and answers those whose body Envoy withholds.
    pub(crate) fn on_tick(&self) {
        let mut streams = self.streams.take();
        streams.retain(|stream| stream.upgrade().is_some_and(|stream| self.check(&stream)));
        if streams.is_empty() {
            let _ = set_tick_period(Duration::ZERO);
        }
        self.streams.replace(streams);
    }

    /// Checks a stream. Returns false if it needs no further checks.
    fn check(&self, stream: &PausedStream) -> bool {
        if !matches!(stream.pause(), Pause::Request | Pause::Response) {
            return false;
        }
        stream.ticks.set(stream.ticks.get() + 1);
        if stream.is_body_withheld() {
            stream.withheld_ticks.set(stream.withheld_ticks.get() + 1);
        }
        if stream.withheld_ticks.get() >= MAX_WITHHELD_TICKS {
            if !self.is_logged.replace(true) {
                error!("context-guard: {REASON}");
            }
            stream.refuse();
            return false;
        }
        // Envoy does not report how much of a response it holds before the response is complete.
        if stream.pause() == Pause::Response && stream.ticks.get() == LONG_PAUSE_TICKS {
            warn!(
                "context-guard: no body followed the headers of a response for 5 s: the upstream is slow, or allow_on_headers_stop_iteration is not set"
            );
        }
        true
    }
}

/// Returns the number of bytes of the request body that Envoy received.
fn received_body_bytes() -> usize {
    let total = get_property(vec!["request", "total_size"]).ok().flatten().unwrap_or_default();
    let total = <[u8; 8]>::try_from(total.as_slice()).map(i64::from_le_bytes).unwrap_or_default();
    let headers = get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default();
    let headers: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    usize::try_from(total).unwrap_or_default().saturating_sub(headers)
}

/// Returns true if Envoy received the whole response of the upstream.
fn is_response_complete() -> bool {
    let latency = get_property(vec!["response", "backend_latency"]);
    latency.is_ok_and(|latency| latency.is_some_and(|bytes| !bytes.is_empty()))
}
