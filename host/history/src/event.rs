//! The events that the history records.

/// The replacement for a tool name that the upstream has not listed, and for a client without a
/// profile.
pub const OTHER: &str = "_OTHER";

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The upstream's answer was sent unchanged.
    Passed,
    /// The answer was shaped in another way than the outcomes below describe.
    Shaped,
    /// The guard refused the call.
    Refused,
    /// The guard failed.
    Fault,
    /// The upstream failed or was unreachable.
    UpstreamError,
    /// A page of a list was sent.
    Paginated,
    /// Fields or values were omitted.
    Summarized,
    /// A chunk of a text was sent.
    Chunked,
    /// The cursor of a follow-up read has expired.
    CursorExpired,
    /// The store could not deliver the data of a follow-up read, because it is down.
    CursorUnavailable,
}

impl Outcome {
    /// All outcomes. The position of an outcome is its code in the file.
    pub const ALL: [Self; 10] = [
        Self::Passed,
        Self::Shaped,
        Self::Refused,
        Self::Fault,
        Self::UpstreamError,
        Self::Paginated,
        Self::Summarized,
        Self::Chunked,
        Self::CursorExpired,
        Self::CursorUnavailable,
    ];

    /// Returns the name of the outcome in queries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Shaped => "shaped",
            Self::Refused => "refused",
            Self::Fault => "fault",
            Self::UpstreamError => "upstream_error",
            Self::Paginated => "paginated",
            Self::Summarized => "summarized",
            Self::Chunked => "chunked",
            Self::CursorExpired => "cursor_expired",
            Self::CursorUnavailable => "cursor_unavailable",
        }
    }

    pub(crate) fn code(self) -> i64 {
        let at = Self::ALL.iter().position(|outcome| *outcome == self);
        i64::try_from(at.unwrap_or_default()).unwrap_or_default()
    }

    /// Returns the name of the outcome with this code in the file.
    pub(crate) fn name_of(code: i64) -> &'static str {
        let outcome = usize::try_from(code).ok().and_then(|at| Self::ALL.get(at));
        outcome.map_or("unknown", |outcome| outcome.name())
    }

    pub(crate) fn is_fault(self) -> bool {
        matches!(self, Self::Fault | Self::UpstreamError)
    }
}

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time of the answer, in milliseconds since 1970.
    pub at_ms: u64,
    /// The name of the upstream.
    pub upstream: String,
    /// The name of the tool at its upstream, or the method of another request.
    pub tool: String,
    /// The profile of the client, or [`OTHER`].
    pub client: &'static str,
    /// The digest of the session id. Empty without a session.
    pub session: String,
    /// The number of the guard's revision. 0 if no revision decided.
    pub revision: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// The guard's name for the kind of the answer, such as `page`. May be empty.
    pub mode: String,
    /// The estimated tokens of the upstream's answer.
    pub tokens_before: u64,
    /// The estimated tokens of the answer sent to the client.
    pub tokens_sent: u64,
    /// The estimated tokens of results of tools that a program kept out of its answer.
    pub tokens_kept_out: u64,
    /// The length of the upstream's answer, in bytes.
    pub bytes_before: u64,
    /// The length of the answer sent to the client, in bytes.
    pub bytes_sent: u64,
    /// The time from request to answer, in microseconds.
    pub latency_us: u64,
    /// The time that the upstream needed for a tool call, in microseconds. `None` if the upstream
    /// was not called.
    pub upstream_us: Option<u64>,
    /// True if the tool call failed, at the upstream or with a result that is an error.
    pub is_tool_failure: bool,
    /// True if the upstream's answer exceeded its token budget.
    pub is_oversized: bool,
    /// True if a page of a list was sent.
    pub is_paged: bool,
    /// True if a chunk of a text was sent.
    pub is_chunked: bool,
    /// True if fields or values were omitted.
    pub is_condensed: bool,
    /// The names of the stored answers to which the cursors of this answer lead.
    pub snapshots: Vec<String>,
    /// The relation to an earlier call.
    pub follows: Follows,
}

/// An answer whose tokens were both estimated and counted by a real tokenizer.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The time of the answer, in milliseconds since 1970.
    pub at_ms: u64,
    /// The name of the upstream.
    pub upstream: String,
    /// The name of the tool, as in [`Event::tool`].
    pub tool: String,
    /// The profile of the client, or [`OTHER`].
    pub client: &'static str,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// The number of the guard's revision.
    pub revision: u64,
    /// The estimated tokens of the answer sent to the client.
    pub estimated: u64,
    /// The counted tokens of the answer sent to the client.
    pub actual: u64,
    /// True if the estimate differs from the count by more than 30 %.
    pub is_off: bool,
}

/// The relation of a request to an earlier call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The request is a new call.
    Nothing,
    /// The request reads the next part of an earlier call's answer. Contains the name of the stored
    /// answer, or `None` if it is unknown.
    Call(Option<String>),
}

impl Default for Event {
    /// Returns the event of an empty answer that was sent unchanged.
    fn default() -> Self {
        Self {
            at_ms: 0,
            upstream: String::new(),
            tool: String::new(),
            client: OTHER,
            session: String::new(),
            revision: 0,
            outcome: Outcome::Passed,
            mode: String::new(),
            tokens_before: 0,
            tokens_sent: 0,
            tokens_kept_out: 0,
            bytes_before: 0,
            bytes_sent: 0,
            latency_us: 0,
            upstream_us: None,
            is_tool_failure: false,
            is_oversized: false,
            is_paged: false,
            is_chunked: false,
            is_condensed: false,
            snapshots: Vec::new(),
            follows: Follows::Nothing,
        }
    }
}
