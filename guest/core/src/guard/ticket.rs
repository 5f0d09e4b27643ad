//! What the core must know of a request when its answer comes: bytes that the host carries.

use serde::{Deserialize, Serialize};

use crate::mcp::tool_info::OutputSchema;
use crate::packed::{pack, unpack};
use crate::query::Query;
use crate::shape::context::RequestOptions;
use crate::snapshot::{Cursor, Replay};

const FORMAT: &[u8; 4] = b"cgt3";

/// A ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "there is one a request")]
pub(crate) enum Ticket {
    /// A tool call, a resource or the result of a task.
    Answer {
        /// The tool or resource.
        name: String,
        /// A hash of the arguments.
        arguments: u128,
        /// What was asked of the guard.
        options: RequestOptions,
        /// What of the answer was asked for.
        query: Query,
        /// Tokens that the answer may cost, if the caller said.
        budget: Option<u64>,
        /// What the tool's schema allows.
        output: OutputSchema,
        /// Whether the reading tool goes by its other name.
        renamed: bool,
        /// Whether the tool is known to change nothing.
        read_only: bool,
        /// The call itself, where it may be made again.
        replay: Option<Replay>,
    },
    /// A call that is made again, for a cursor.
    Replay(Box<ReplayTicket>),
    /// A list of tools; its first page or a later one.
    Tools {
        /// The first page.
        first: bool,
    },
}

/// What a call that is made again is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayTicket {
    /// The id of the request, as it is spelt.
    pub(crate) id: Vec<u8>,
    /// Whether the request is of the stateless era.
    pub(crate) stateless: bool,
    /// Whether the tool itself was called, not the reading tool: then structured content may be expected.
    pub(crate) structured: bool,
    /// The cursor's snapshot, and the place in it.
    pub(crate) cursor: CursorPosition,
    /// The call.
    pub(crate) replay: Replay,
    /// A hash of its arguments without the guard's.
    pub(crate) arguments: u128,
    /// What it asked of the guard.
    pub(crate) first: ParsedRequest,
    /// What is asked now.
    pub(crate) now: ParsedRequest,
    /// Tokens that the answer may cost, if the caller said.
    pub(crate) budget: Option<u64>,
    /// What the tool's schema allows.
    pub(crate) output: OutputSchema,
    /// Whether the reading tool goes by its other name.
    pub(crate) renamed: bool,
}

/// What was asked of the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParsedRequest {
    pub(crate) options: RequestOptions,
    pub(crate) query: Query,
}

/// A place in a snapshot: what a cursor holds, in an order of its own.
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

impl Ticket {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }
}
