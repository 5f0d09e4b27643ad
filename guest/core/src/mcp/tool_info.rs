//! Tool information that calls need, taken from the `tools/list` response that passed before.

use serde::{Deserialize, Serialize};

use crate::encoding::{pack, unpack};
use crate::shape::render::SchemaConstraint;

/// Identifies the byte format of stored tool information. Must change whenever [`ToolInfo`] does.
const FORMAT: &[u8; 4] = b"cgf2";

/// The additions to structured content that a tool's output schema allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputSchema {
    /// The tool has no output schema, so anything is allowed.
    #[default]
    Free,
    /// The schema allows members that it does not name.
    Open,
    /// The schema names all allowed members; the guard added `context_guard` to them.
    Closed,
    /// The schema is not a plain object: the guard widened it to allow an envelope instead.
    Widened,
}

/// Information about one tool of the upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// The guard's argument names that are parameters of the tool: one bit each, in the order of
    /// [`ARGUMENT_NAMES`](context_guard_protocol::argument::ARGUMENT_NAMES).
    pub own_parameters: u16,
    /// The additions to structured content that the tool's output schema allows.
    pub output: OutputSchema,
    /// True if the tool's `readOnlyHint` is true.
    pub read_only: bool,
}

impl OutputSchema {
    /// Returns the constraint that the schema puts on structured content with an excerpt.
    #[must_use]
    pub fn constraint(self) -> SchemaConstraint {
        match self {
            OutputSchema::Free => SchemaConstraint::None,
            OutputSchema::Open => SchemaConstraint::AllowsExtra,
            OutputSchema::Closed | OutputSchema::Widened => SchemaConstraint::Closed,
        }
    }
}

impl ToolInfo {
    /// Returns the tool information as bytes for the store.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    /// Reads tool information from the store. Returns none if another version wrote it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }
}
