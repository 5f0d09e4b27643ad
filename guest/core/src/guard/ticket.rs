//! Tickets: the facts about a request that the guard needs when the upstream's response arrives.
//! The host carries them as opaque bytes, because the guard keeps no state.

use serde::{Deserialize, Serialize};

use crate::encoding::Stored;
use crate::mcp::tool_info::OutputSchema;
use crate::query::Query;
use crate::query::comparison::PreviousAnswer;
use crate::shape::context::RequestOptions;
use crate::snapshot::{Cursor, Replay};

/// The information about a forwarded request that is needed to shape its response. The host carries
/// it from request to response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "there is one a request")]
pub(crate) enum Ticket {
    /// The request is a tool call, a resource read or `tasks/result`.
    Answer {
        /// The name of the tool, the URI of the resource, or `tasks/result`.
        name: String,
        /// A hash of the tool's arguments, without those of the guard.
        arguments: u128,
        /// The guard's arguments that set the size of the answer.
        options: RequestOptions,
        /// The guard's arguments that select data in the answer.
        query: Query,
        /// The earlier answer with which the caller compares this one.
        since: Option<PreviousAnswer>,
        /// The token budget that the caller requests, if any.
        budget: Option<u64>,
        /// The properties of the called tool, from its entry in `tools/list`.
        tool: CalledTool,
        /// The forwarded call, for cursors that repeat it. `None` if it may not be repeated.
        replay: Option<Replay>,
    },
    /// The request is a call that the guard repeats to serve a cursor.
    Replay(Box<ReplayTicket>),
    /// The request is for the tool catalogue. The response is the merged list of all upstreams,
    /// which the host sends. If the guard lists the tools of one upstream, the response is that
    /// upstream's list.
    Catalogue {
        /// The client's request, if it is a call that the catalogue answers.
        call: Option<Vec<u8>>,
        /// The JSON-RPC id of the client's request, verbatim.
        id: Vec<u8>,
        /// True if the client's request uses the stateless protocol mode.
        stateless: bool,
    },
    /// The request is `tools/list`.
    Tools {
        /// True for the first page of the tool list, false for a later one.
        first: bool,
        /// True if the client's request uses the stateless protocol mode.
        stateless: bool,
    },
}

impl Ticket {
    /// Returns true if the response needs jq, which this build lacks.
    pub(crate) fn needs_jq(&self) -> bool {
        match self {
            Self::Answer { query, .. } => query.needs_jq(),
            Self::Replay(ticket) => ticket.first.query.needs_jq() || ticket.now.query.needs_jq(),
            Self::Catalogue { .. } | Self::Tools { .. } => false,
        }
    }
}

/// The properties of a called tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CalledTool {
    /// The additions to structured content that the tool's output schema allows.
    pub(crate) output: OutputSchema,
    /// True if the guard's read tool has its alternative name, because an upstream uses the usual
    /// one.
    pub(crate) renamed: bool,
    /// True if the tool is read-only.
    pub(crate) read_only: bool,
}

/// The information that is needed to serve a cursor from the response to a repeated call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayTicket {
    /// The JSON-RPC id of the client's request, verbatim.
    pub(crate) id: Vec<u8>,
    /// True if the client's request uses the stateless protocol mode.
    pub(crate) stateless: bool,
    /// True if the client called the tool itself, not the guard's read tool. It may then expect
    /// structured content.
    pub(crate) structured: bool,
    /// The content of the cursor that the client sent.
    pub(crate) cursor: CursorPosition,
    /// The upstream call that is repeated.
    pub(crate) replay: Replay,
    /// A hash of the tool's arguments in the repeated call, without those of the guard.
    pub(crate) arguments: u128,
    /// The guard's arguments in the original call.
    pub(crate) first: ParsedRequest,
    /// The guard's arguments in the client's current request.
    pub(crate) now: ParsedRequest,
    /// The token budget that the caller requests, if any.
    pub(crate) budget: Option<u64>,
    /// The additions to structured content that the tool's output schema allows.
    pub(crate) output: OutputSchema,
    /// True if the guard's read tool has its alternative name, because an upstream uses the usual
    /// one.
    pub(crate) renamed: bool,
}

/// The guard's own arguments of a call, parsed, without the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParsedRequest {
    pub(crate) options: RequestOptions,
    pub(crate) query: Query,
}

/// The content of a cursor, except the call to repeat. [`Cursor`] itself serializes to JSON without
/// default members, which the positional format of tickets cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CursorPosition {
    snapshot: String,
    numbers: [u64; 7],
}

impl From<&Cursor> for CursorPosition {
    fn from(cursor: &Cursor) -> Self {
        let Cursor { offset, within, limit, end, first, whole, issued, .. } = *cursor;
        Self {
            snapshot: cursor.snapshot.clone(),
            numbers: [offset, within, limit, end, first, whole, issued],
        }
    }
}

impl From<CursorPosition> for Cursor {
    fn from(place: CursorPosition) -> Self {
        let [offset, within, limit, end, first, whole, issued] = place.numbers;
        Self { within, limit, end, first, whole, issued, ..Self::new(&place.snapshot, offset, 0) }
    }
}

impl Stored for Ticket {
    const FORMAT: &'static [u8; 4] = b"cgt8";
}
