//! Tickets: what the guard must know of a request when the response arrives. The host carries them
//! as opaque bytes, because the guard keeps no state.

use serde::{Deserialize, Serialize};

use crate::encoding::{pack, unpack};
use crate::mcp::tool_info::OutputSchema;
use crate::query::Query;
use crate::shape::context::RequestOptions;
use crate::snapshot::{Cursor, Replay};

/// Identifies the format. Must change whenever [`Ticket`] does.
const FORMAT: &[u8; 4] = b"cgt3";

/// A ticket, by the kind of response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "there is one a request")]
pub(crate) enum Ticket {
    /// A tool call, a resource or the result of a task.
    Answer {
        /// The tool or resource.
        name: String,
        /// A hash of the arguments.
        arguments: u128,
        /// The guard's own arguments of the call.
        options: RequestOptions,
        /// The query of the call.
        query: Query,
        /// The token budget that the caller names, if any.
        budget: Option<u64>,
        /// The tool.
        tool: CalledTool,
        /// The call itself, if it may be repeated.
        replay: Option<Replay>,
    },
    /// A call that is repeated to serve a cursor.
    Replay(Box<ReplayTicket>),
    /// A list of tools; its first page or a later one.
    Tools {
        /// The first page.
        first: bool,
    },
}

/// The properties of a called tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CalledTool {
    /// The structured content that its schema allows.
    pub(crate) output: OutputSchema,
    /// The read tool has its alternative name.
    pub(crate) renamed: bool,
    /// The tool changes nothing.
    pub(crate) read_only: bool,
}

/// The purpose of a repeated call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayTicket {
    /// The id of the request, verbatim.
    pub(crate) id: Vec<u8>,
    /// The request uses the stateless protocol mode.
    pub(crate) stateless: bool,
    /// The tool itself was called, not the read tool: the client may expect structured content.
    pub(crate) structured: bool,
    /// The cursor to serve.
    pub(crate) cursor: CursorPosition,
    /// The call.
    pub(crate) replay: Replay,
    /// A hash of its arguments, without those of the guard.
    pub(crate) arguments: u128,
    /// The guard's arguments of the original call.
    pub(crate) first: ParsedRequest,
    /// The guard's arguments of the current call.
    pub(crate) now: ParsedRequest,
    /// The token budget that the caller names, if any.
    pub(crate) budget: Option<u64>,
    /// The structured content that the tool's schema allows.
    pub(crate) output: OutputSchema,
    /// The read tool has its alternative name.
    pub(crate) renamed: bool,
}

/// The guard's own arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParsedRequest {
    pub(crate) options: RequestOptions,
    pub(crate) query: Query,
}

/// The content of a cursor. Unlike [`Cursor`], whose serialization is compact JSON, it suits the
/// positional format of tickets.
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
