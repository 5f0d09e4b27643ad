//! The settings of programs that models run over tools: `code`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Programs of models over tools and answers, in a sandbox: the tool `context_guard_run`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CodeSettings {
    /// Offers the tool `context_guard_run`.
    pub enabled: bool,
    /// The tools that programs may call: `readOnly`, or globs over `server::tool` of further tools.
    pub tools: CodeTools,
    /// Lists only the tools that search and describe tools, read answers and run programs. All
    /// others remain callable by name.
    pub only: bool,
    /// The maximum memory of one program, in bytes. It starts with 17 MB, of which an empty program
    /// uses a small part.
    #[schemars(range(min = 20_971_520, max = 536_870_912))]
    pub memory_bytes: usize,
    /// The maximum number of programs that run at once. Others wait for their turn.
    #[schemars(range(min = 1, max = 16))]
    pub concurrency: usize,
    /// The .wasm file of the sandbox. Without it, the embedded one.
    pub file: Option<PathBuf>,
}

impl Default for CodeSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            tools: CodeTools::default(),
            only: false,
            memory_bytes: 128 << 20,
            concurrency: 8,
            file: None,
        }
    }
}

/// The tools that programs may call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CodeTools {
    /// Tools whose definition says that they change nothing, and those that match one of these
    /// globs over `server::tool`.
    Globs(Vec<String>),
    /// Tools whose definition says that they change nothing.
    Named(ReadOnlyTools),
}

/// The tools whose definition says that they change nothing.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReadOnlyTools {
    /// Tools with `readOnlyHint: true`.
    ReadOnly,
}

impl Default for CodeTools {
    fn default() -> Self {
        Self::Named(ReadOnlyTools::ReadOnly)
    }
}

impl CodeTools {
    /// Returns the globs over `server::tool` of further tools that programs may call.
    #[must_use]
    pub fn globs(&self) -> &[String] {
        match self {
            Self::Named(_) => &[],
            Self::Globs(globs) => globs,
        }
    }
}
