//! The policy as it is written: every setting optional, every default in `limits.rs`.

use serde::{Deserialize, Serialize};

use crate::tokens::{Method, Profile};

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(title = "context-guard policy")
)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// What applies to every endpoint.
    #[serde(flatten)]
    pub settings: Settings,
    /// What applies to some: all rules that match are laid over the settings above, globs in their order, then exact names.
    #[serde(default)]
    pub endpoints: Vec<Rule>,
}

/// Settings for the endpoints that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// `tool`, `upstream::tool` or a resource URI; `*` stands for any characters, `?` for one.
    #[serde(rename = "match")]
    pub pattern: String,
    /// What applies to them.
    #[serde(flatten)]
    pub settings: Settings,
}

/// What can be set, for all endpoints or for some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Whether answers are shaped at all. Default true.
    pub shape: Option<bool>,
    /// Whether lists are paged. Default true.
    pub pagination: Option<bool>,
    /// Whether long texts are chunked. Default true.
    pub chunking: Option<bool>,
    /// Items on a page. Default 50.
    pub default_page_size: Option<u64>,
    /// The largest `limit` a caller may ask for. Default 200, at most 1000.
    pub max_page_size: Option<u64>,
    /// Tokens that an answer may cost. Default 4000, at least 200.
    pub token_budget_threshold: Option<u64>,
    /// Tokens that nothing may exceed, whatever a caller asks for. Default 12000, at least the threshold.
    pub hard_cap: Option<u64>,
    /// Whether the hard cap holds. Default true.
    pub enforce_hard_cap: Option<bool>,
    /// Lines in a chunk. Default 200.
    pub chunk_size: Option<u64>,
    /// Tokens from which a text is chunked. Default 2000, at least 1000. A text over the budget is chunked in any case.
    pub chunk_threshold: Option<u64>,
    /// Dotted path to the list of an answer, such as `data.items`. Default: the array that dominates it.
    pub items_path: Option<String>,
    /// Seconds that a cursor lives. Default and least 600. Applies to all endpoints.
    pub cursor_ttl: Option<u64>,
    /// How tokens are estimated.
    pub estimator: Option<EstimatorSettings>,
    /// How much of the guard's own arguments is shown in the schemas of tools. Default `compact`.
    pub advertise: Option<Advertise>,
    /// Whether `limit`, `cursor`, `startLine`, `endLine` and `pages` are the guard's on a tool whose parameters it has not seen. Default false.
    pub plain_arguments: Option<bool>,
    /// What becomes of an answer that the guard fails on. Default `limit`. Applies to all endpoints.
    pub on_fault: Option<OnFault>,
    /// Bytes that decide where tokens cannot be counted. Default 10240. Applies to all endpoints.
    pub hard_byte_limit: Option<u64>,
}

/// How tokens are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct EstimatorSettings {
    /// `lexical` (default) or `chars4`.
    pub method: Option<Method>,
    /// The tokenizer that `lexical` stands for: `o200k` (default), `cl100k` or `claude-legacy`.
    pub profile: Option<Profile>,
    /// A factor on the estimate, 0.5 to 4. Default 1.
    pub scale: Option<f64>,
}

/// How much of the guard's own arguments is shown in the schemas of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Advertise {
    /// Nothing; they are accepted all the same.
    None,
    /// One property, about 25 tokens a tool.
    #[default]
    Compact,
    /// A property for each argument.
    Full,
}

/// What becomes of an answer that the guard fails on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnFault {
    /// It passes, whatever its size.
    Pass,
    /// It passes up to the byte limit, and is cut to a labelled answer beyond.
    #[default]
    Limit,
    /// The client gets an error.
    Block,
}
