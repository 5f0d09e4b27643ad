//! Spans of requests, and the W3C trace context (<https://www.w3.org/TR/trace-context/>).

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum length of a `tracestate` that is sent to upstreams, in bytes.
const MAX_STATE_BYTES: usize = 512;

/// The identity of a span in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace.
    pub trace: u128,
    /// The id of the span.
    pub span: u64,
    /// True if the trace is recorded.
    pub is_sampled: bool,
    /// The value of `tracestate` as received. May be empty.
    pub state: String,
}

impl TraceContext {
    /// Parses the values of `traceparent` and `tracestate`. `None` if `traceparent` is invalid. A
    /// `tracestate` that is invalid or too long is dropped.
    ///
    /// # Examples
    /// ```
    /// use context_guard_telemetry::TraceContext;
    ///
    /// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let context = TraceContext::parse(text, "").unwrap();
    /// assert!(context.is_sampled);
    /// assert_eq!(context.traceparent(), text);
    /// ```
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let mut parts = traceparent.trim().split('-');
        let mut next = |length: usize| {
            let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            parts.next().filter(|part| part.len() == length && part.bytes().all(is_digit))
        };
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // Later versions may have more parts; version 00 has none, and ff is invalid.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let is_state = tracestate.len() <= MAX_STATE_BYTES
            && tracestate.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let state = if is_state { tracestate.to_owned() } else { String::new() };
        Some(Self { trace, span, is_sampled: flags & 1 == 1, state })
    }

    /// Returns the value of `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// The sampling rule of traces, one of those that `OTEL_TRACES_SAMPLER` can select.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSampler {
    /// True if a request with a trace context follows the sampling decision of its sender.
    pub follows_parent: bool,
    /// The share of other traces that are recorded, from 0 to 1.
    pub share: f64,
}

impl TraceSampler {
    /// The sampler that records no trace.
    pub const NEVER: Self = Self { follows_parent: false, share: 0.0 };

    /// Returns the sampler with a standard name and argument. `None` for an unknown name, or an
    /// argument that is not a share.
    #[must_use]
    pub fn named(name: &str, argument: &str) -> Option<Self> {
        let (follows_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let share = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" if argument.is_empty() => 1.0,
            "traceidratio" => argument.parse().ok().filter(|share| (0.0..=1.0).contains(share))?,
            _ => return None,
        };
        Some(Self { follows_parent, share })
    }

    fn samples(self, parent: Option<&TraceContext>, trace: u128) -> bool {
        match parent.filter(|_| self.follows_parent) {
            Some(parent) => parent.is_sampled,
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "the low 64 bits of the trace id as a share"
            )]
            None => (trace as u64) as f64 / (u64::MAX as f64) < self.share || self.share >= 1.0,
        }
    }
}

/// The trace of one request: its SERVER span, and the CLIENT span of its upstream call. The parts
/// of the gateway that process the request set the times, in any order.
#[derive(Debug)]
pub struct RequestTrace {
    /// The SERVER span.
    pub server: TraceContext,
    /// The id of the CLIENT span.
    pub client: u64,
    /// The trace context of the request's sender, which is the parent. `None` without one.
    pub parent: Option<TraceContext>,
    /// The trace context in the HTTP headers, if that of the message is the parent.
    pub link: Option<TraceContext>,
    started: Instant,
    started_at: Duration,
    /// The nanoseconds from the start to the upstream call, and to its end, each plus one. 0 if it
    /// has not happened.
    upstream: [AtomicU64; 2],
    /// The nanoseconds from the start until the request got its permit at the upstream, plus one. 0
    /// without a permit.
    admitted: AtomicU64,
    is_tool_error: AtomicBool,
    /// The JSON-RPC error code of the answer. 0 if there is none.
    error_code: AtomicI64,
}

fn random() -> u64 {
    RandomState::new().hash_one(0).max(1)
}

impl RequestTrace {
    /// Begins the trace of a request. `in_message` is the trace context in `_meta`, and
    /// `in_headers` that in the HTTP headers. The parent is `in_message`, or `in_headers` if it is
    /// `None`.
    #[must_use]
    pub fn begin(
        sampler: TraceSampler,
        in_message: Option<TraceContext>,
        in_headers: Option<TraceContext>,
    ) -> Self {
        let (parent, link) = match in_message {
            Some(parent) => (Some(parent), in_headers),
            None => (in_headers, None),
        };
        let new = || (u128::from(random()) << 64) | u128::from(random());
        let trace = parent.as_ref().map_or_else(new, |parent| parent.trace);
        let is_sampled = sampler.samples(parent.as_ref(), trace);
        let state = parent.as_ref().map(|parent| parent.state.clone()).unwrap_or_default();
        Self {
            server: TraceContext { trace, span: random(), is_sampled, state },
            client: random(),
            parent,
            link,
            started: Instant::now(),
            started_at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            upstream: [const { AtomicU64::new(0) }; 2],
            admitted: AtomicU64::new(0),
            is_tool_error: AtomicBool::new(false),
            error_code: AtomicI64::new(0),
        }
    }

    /// Returns the trace context of the upstream call, for the request to the upstream.
    #[must_use]
    pub fn upstream_context(&self) -> TraceContext {
        TraceContext { span: self.client, ..self.server.clone() }
    }

    /// Returns the nanoseconds since the start, plus one.
    fn passed(&self) -> u64 {
        let passed = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        passed.saturating_add(1)
    }

    fn mark(&self, at: usize) {
        if let Some(mark) = self.upstream.get(at) {
            let _ = mark.compare_exchange(0, self.passed(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records that the request is sent to the upstream. Only the first call has an effect.
    pub fn upstream_called(&self) {
        self.mark(0);
    }

    /// Records that the request has its permit at the upstream. The last call determines the time,
    /// because a request that waited for the client's input gets another permit.
    pub fn upstream_admitted(&self) {
        self.admitted.store(self.passed(), Ordering::Relaxed);
    }

    /// Records that the request waits for the client's input, without a permit at the upstream.
    pub fn upstream_suspended(&self) {
        self.admitted.store(0, Ordering::Relaxed);
    }

    /// Returns the time from the permit at the upstream to the answer, or to now without an answer.
    /// `None` if the request has no permit.
    #[must_use]
    pub fn upstream_latency(&self) -> Option<Duration> {
        let start = self.admitted.load(Ordering::Relaxed);
        let answered = self.upstream.get(1).map_or(0, |mark| mark.load(Ordering::Relaxed));
        let end = if answered == 0 { self.passed() } else { answered };
        (start > 0).then(|| Duration::from_nanos(end.saturating_sub(start)))
    }

    /// Records the upstream's answer. `is_tool_error` is true for a result that is an error. `code`
    /// is the code of a JSON-RPC error, or `None`.
    pub fn upstream_answered(&self, is_tool_error: bool, code: Option<i64>) {
        self.mark(1);
        self.is_tool_error.store(is_tool_error, Ordering::Relaxed);
        self.error_code.store(code.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns true if the answer is a result that is an error.
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        self.is_tool_error.load(Ordering::Relaxed)
    }

    /// Returns the JSON-RPC error code of the answer, if there is one.
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        Some(self.error_code.load(Ordering::Relaxed)).filter(|code| *code != 0)
    }

    /// Returns the start of the request, and the current time as its end, both since 1970.
    #[must_use]
    pub fn times(&self) -> [Duration; 2] {
        [self.started_at, self.started_at + self.started.elapsed()]
    }

    /// Returns the start and end of the upstream call, since 1970. The end is the current time if
    /// there is no answer yet. `None` if there was no call.
    #[must_use]
    pub fn upstream_times(&self) -> Option<[Duration; 2]> {
        let mark = |at: usize| self.upstream.get(at).map_or(0, |at| at.load(Ordering::Relaxed));
        let start = mark(0).checked_sub(1)?;
        let now = self.started.elapsed();
        let end = mark(1).checked_sub(1).map_or(now, Duration::from_nanos);
        Some([self.started_at + Duration::from_nanos(start), self.started_at + end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn invalid_contexts_are_ignored() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(TraceContext::parse(text, ""), None, "{text}");
        }
        let later = format!("{}-x", PARENT.replace("00-0af", "01-0af"));
        assert!(TraceContext::parse(&later, "").is_some());
        let long = "a".repeat(MAX_STATE_BYTES + 1);
        assert_eq!(TraceContext::parse(PARENT, &long).unwrap().state, "");
    }

    #[test]
    fn message_is_the_parent_and_headers_are_linked() {
        let sampler = TraceSampler::named("parentbased_always_on", "").unwrap();
        let (first, second) = (TraceContext::parse(PARENT, "a=b"), TraceContext::parse(PARENT, ""));
        let trace = RequestTrace::begin(sampler, first.clone(), second.clone());
        assert_eq!((&trace.parent, &trace.link), (&first, &second));
        assert_eq!(trace.server.trace, first.unwrap().trace);
        assert_eq!(trace.upstream_context().state, "a=b");
        let trace = RequestTrace::begin(sampler, None, second.clone());
        assert_eq!((&trace.parent, &trace.link), (&second, &None));
        let trace = RequestTrace::begin(sampler, None, None);
        assert!(trace.server.is_sampled && trace.parent.is_none() && trace.server.trace != 0);
    }

    #[test]
    fn samplers_have_the_standard_names() {
        let unsampled = TraceContext::parse(&PARENT.replace("-01", "-00"), "");
        let sampled = |name: &str, argument: &str, parent: &Option<TraceContext>| {
            let sampler = TraceSampler::named(name, argument).unwrap();
            RequestTrace::begin(sampler, parent.clone(), None).server.is_sampled
        };
        assert!(!sampled("parentbased_always_on", "", &unsampled));
        assert!(sampled("always_on", "", &unsampled) && sampled("traceidratio", "1", &None));
        assert!(!sampled("always_off", "", &None) && !sampled("traceidratio", "0", &None));
        let half = (0..1_000).filter(|_| sampled("traceidratio", "0.5", &None)).count();
        assert!((350..650).contains(&half), "{half}");
        for (name, argument) in [("sometimes", ""), ("traceidratio", "2"), ("traceidratio", "x")] {
            assert_eq!(TraceSampler::named(name, argument), None);
        }
    }

    #[test]
    fn upstream_latency_begins_with_the_place() {
        let trace = RequestTrace::begin(TraceSampler::NEVER, None, None);
        trace.upstream_called();
        assert_eq!(trace.upstream_latency(), None);
        let before = trace.started.elapsed();
        trace.upstream_admitted();
        trace.upstream_answered(true, None);
        let latency = trace.upstream_latency().unwrap();
        assert_eq!(trace.upstream_latency(), Some(latency));
        let [start, end] = trace.upstream_times().unwrap();
        assert!(latency <= end - start && latency <= trace.started.elapsed() - before);
        trace.upstream_suspended();
        assert_eq!(trace.upstream_latency(), None);
    }

    #[test]
    fn upstream_call_lies_within_the_request() {
        let sampler = TraceSampler::named("always_on", "").unwrap();
        let trace = RequestTrace::begin(sampler, None, None);
        assert_eq!(trace.upstream_times(), None);
        trace.upstream_called();
        trace.upstream_answered(false, Some(-32_602));
        let [start, end] = trace.upstream_times().unwrap();
        trace.upstream_called();
        assert_eq!(trace.upstream_times().unwrap(), [start, end]);
        assert!(trace.times()[0] <= start && start <= end && end <= trace.times()[1]);
        assert_eq!(trace.error_code(), Some(-32_602));
    }
}
