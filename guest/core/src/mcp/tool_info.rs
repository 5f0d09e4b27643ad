//! What the guard must know of a tool when it is called, learnt from the `tools/list` that passed.

use serde::{Deserialize, Serialize};

use crate::packed::{pack, unpack};

/// Marks the stored form; changes whenever [`ToolInfo`] does.
const FORMAT: &[u8; 4] = b"cgf2";

/// What may be added to a tool's structured content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputSchema {
    /// There is no schema.
    #[default]
    Free,
    /// The schema lets unknown members stand.
    Open,
    /// The schema names all members there may be; `context_guard` was added to them.
    Closed,
    /// The schema is no plain object: it was widened to take an envelope instead.
    Widened,
}

/// Facts on one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Which of the guard's argument names the tool has parameters of: a bit each, in the order of [`super::arguments::ARGUMENT_NAMES`].
    pub own_parameters: u16,
    /// What its structured content must look like.
    pub output: OutputSchema,
    /// Whether it says that it changes nothing.
    pub read_only: bool,
}

impl ToolInfo {
    /// The stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    /// Reads the stored form.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }
}
