//! What the core must know of a request when its answer comes: bytes that the host carries.

use serde::{Deserialize, Serialize};

use crate::packed::{pack, unpack};
use crate::protocol::mcp::facts::Output;
use crate::query::Query;
use crate::shape::plan::Wish;

const FORMAT: &[u8; 4] = b"cgt2";

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
        wish: Wish,
        /// What of the answer was asked for.
        query: Query,
        /// Tokens that the answer may cost, if the caller said.
        budget: Option<u64>,
        /// What the tool's schema allows.
        output: Output,
        /// Whether the reading tool goes by its other name.
        renamed: bool,
    },
    /// A list of tools; its first page or a later one.
    Tools {
        /// The first page.
        first: bool,
    },
}

impl Ticket {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }
}
