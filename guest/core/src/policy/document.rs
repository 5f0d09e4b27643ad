//! The policy as it is written: every setting optional, every default in `endpoint_settings.rs`.

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
    /// The order of a list. Default: the upstream's.
    pub order_by: Option<OrderBy>,
    /// Whether what does not fit whole is condensed: every record stays, with fewer fields and shorter values. Default true.
    pub summarization: Option<bool>,
    /// Tokens from which a single object is summarised. Default 2000, at least 500.
    pub summary_threshold: Option<u64>,
    /// The fields that a summary keeps, as dotted paths such as `price.total` or `guests[].name`. Default: told from names and costs.
    pub fields: Option<Vec<String>>,
    /// Words whose sentences stay when a long text is shortened.
    pub keywords: Option<Vec<String>>,
    /// What is taken out of every JSON answer, since it says nothing. Default: nothing.
    pub strip: Option<Vec<Strip>>,
    /// Names of members that are taken out of every JSON answer, such as `debug_*`; `*` stands for any characters. Default: none.
    pub strip_fields: Option<Vec<String>>,
    /// Whether a uniform list that does not fit is written as a header and rows where that makes it fit. Default false.
    pub compact: Option<bool>,
    /// Whether the first chunk of a text comes with what stands out in the rest: errors of a log, an outline, the end. Default true.
    pub highlights: Option<bool>,
    /// Which members of an item are its id, title, type, score and content, for `response_mode`. Default: told from their names.
    pub item_fields: Option<ItemFields>,
    /// Characters of a preview. Default 200.
    pub preview_chars: Option<u64>,
    /// Whether the tool changes nothing, so that an answer may be given from what is kept. Default: what the tool says of itself.
    pub read_only: Option<bool>,
    /// Whether a call is refused whose arguments hold marks of what was left out, such as ` ... [12 more words]`. Default true.
    pub refuse_marks: Option<bool>,
    /// Seconds that a cursor lives. Default and least 600. Applies to all endpoints.
    pub cursor_ttl: Option<u64>,
    /// Where the rest of an answer is: kept, or fetched from the upstream again and compared. Default `snapshot`. `replay` is for tools that change nothing (`readOnly`, or the tool's own hint);
    /// answers of others are kept all the same.
    pub cursor_mode: Option<CursorMode>,
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

/// Where the rest of an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CursorMode {
    /// In the cursor store.
    #[default]
    Snapshot,
    /// At the upstream, which is called again: pages agree, or the caller is told that the data changed.
    Replay,
}

/// The order of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderBy {
    /// Dotted path to a member of each item, such as `createdAt`.
    pub field: String,
    /// Largest or latest first. Default true.
    #[serde(default = "yes")]
    pub descending: bool,
}

fn yes() -> bool {
    true
}

/// What may be taken out of an answer without a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Strip {
    /// Members that are null.
    Nulls,
    /// Members that are an empty object, list or string.
    Empty,
    /// Objects that stand in the answer before: they become `{"$ref": "#/path/to/the/first"}`.
    Repeats,
}

/// Which members of an item are what, as dotted paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ItemFields {
    /// What tells it from the others.
    pub id: Option<String>,
    /// What people call it.
    pub title: Option<String>,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// How well it matches.
    pub score: Option<String>,
    /// Its long text.
    pub content: Option<String>,
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
