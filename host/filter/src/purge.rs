//! The selection of cached answers to remove.

use context_guard_protocol::glob;
use serde::{Deserialize, Serialize};

/// A selection of cached answers to remove. Members that are `None` match every answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// A pattern of endpoints, such as `upstream::tool`; `*` matches any characters.
    pub tool: Option<String>,
    /// A document id or resource URI. Every answer whose bytes contain this text is removed.
    pub document: Option<String>,
}

impl Purge {
    /// Returns true if the purge removes this answer to a call of `endpoint`.
    pub(crate) fn selects(&self, endpoint: &str, message: &[u8]) -> bool {
        self.selects_endpoint(endpoint) && self.selects_message(message)
    }

    /// Returns true if the purge removes answers to calls of `endpoint`.
    pub(crate) fn selects_endpoint(&self, endpoint: &str) -> bool {
        self.tool.as_deref().is_none_or(|tool| glob::matches(tool, endpoint))
    }

    /// Returns true if the purge removes answers with these bytes.
    pub(crate) fn selects_message(&self, message: &[u8]) -> bool {
        let document = self.document.as_deref();
        document.is_none_or(|id| memchr::memmem::find(message, id.as_bytes()).is_some())
    }
}
