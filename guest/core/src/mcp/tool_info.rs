//! Information about tools that calls need, taken from an earlier `tools/list` response.

use serde::{Deserialize, Serialize};

use crate::encoding::Stored;
use crate::shape::render::SchemaConstraint;

/// The additions to structured content that a tool's output schema allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputSchema {
    /// The tool has no output schema, so that any structured content is allowed.
    #[default]
    Free,
    /// The schema allows members that it does not name.
    Open,
    /// The output schema forbids members that it does not name. In the list of tools, the guard
    /// added the member `context_guard`, which holds its own data, to this schema.
    Closed,
    /// The schema is not a plain object. The guard widened it by an alternative that allows an
    /// envelope.
    Widened,
}

/// Information about a tool of the upstream, stored when the tool was listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// The guard's argument names that are also parameters of the tool, as a bit set in the order
    /// of [`ARGUMENT_NAMES`](context_guard_protocol::argument::ARGUMENT_NAMES).
    pub own_parameters: u16,
    /// The additions to structured content that the tool's output schema allows.
    pub output: OutputSchema,
    /// True if the tool's `readOnlyHint` is true.
    pub read_only: bool,
    /// True if policy withholds the tool because of suspicious texts in its definition.
    pub held: bool,
}

impl OutputSchema {
    /// Returns the constraint that the output schema puts on excerpts in structured content.
    #[must_use]
    pub fn constraint(self) -> SchemaConstraint {
        match self {
            OutputSchema::Free => SchemaConstraint::None,
            OutputSchema::Open => SchemaConstraint::AllowsExtra,
            OutputSchema::Closed | OutputSchema::Widened => SchemaConstraint::Closed,
        }
    }
}

impl Stored for ToolInfo {
    const FORMAT: &'static [u8; 4] = b"cgf3";
}
