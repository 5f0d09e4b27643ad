//! The policy as operators write it. Every setting is optional; `endpoint_settings.rs` holds the
//! defaults.

use context_guard_protocol::fallback;
use serde::{Deserialize, Serialize};

use super::catalogue_settings::CatalogueSettings;
use super::client_profile::VisibleContent;
use crate::encoding::CursorFormat;
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
    /// The settings of every endpoint.
    #[serde(flatten)]
    pub settings: Settings,
    /// Settings of some endpoints. All matching rules override the settings above: first globs, in
    /// their order, then exact names.
    #[serde(default)]
    pub endpoints: Vec<Rule>,
}

/// Settings for the endpoints that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// `tool`, `upstream::tool` or a resource URI; `*` matches any characters, `?` matches one.
    #[serde(rename = "match")]
    pub pattern: String,
    /// The settings of the matching endpoints.
    #[serde(flatten)]
    pub settings: Settings,
}

/// The settings of all endpoints or of some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Shape answers. Default true.
    pub shape: Option<bool>,
    /// Page lists. Default true.
    pub pagination: Option<bool>,
    /// Chunk long texts. Default true.
    pub chunking: Option<bool>,
    /// Items per page. Default 50. Unless it is set, a page of whole items grows to fill the
    /// budget: to at most `maxPageSize` records, or any number of numbers, strings and other
    /// scalars.
    pub default_page_size: Option<u64>,
    /// The maximum `limit` of a caller, and the maximum of records to which a page grows. Default
    /// 200, at most 1000.
    pub max_page_size: Option<u64>,
    /// Maximum tokens of an answer. Default 4000, at least 200.
    pub token_budget_threshold: Option<u64>,
    /// Maximum tokens of an answer, whatever a caller asks for. Default 12000, at least
    /// `tokenBudgetThreshold`.
    pub hard_cap: Option<u64>,
    /// Enforce the hard cap. Default true.
    pub enforce_hard_cap: Option<bool>,
    /// Lines per chunk. Default 200. Unless it or `chunkThreshold` is set, chunks grow to fill the
    /// budget.
    pub chunk_size: Option<u64>,
    /// Tokens above which a text is chunked. Default 2000, at least 1000. Unless it or `chunkSize`
    /// is set, a text that fits the budget passes. A text over the budget is always chunked.
    pub chunk_threshold: Option<u64>,
    /// Dotted path to the list of an answer, such as `data.items`. Default: the array that makes up
    /// most of the answer.
    pub items_path: Option<String>,
    /// The order of lists. Default: the upstream's order.
    #[cfg_attr(feature = "schema", schemars(with = "Option<OrderByForms>"))]
    pub order_by: Option<OrderBy>,
    /// Condense what does not fit: show every record, with fewer fields and shorter values. Default
    /// true.
    pub summarization: Option<bool>,
    /// Tokens above which a single object is summarized. Default 2000, at least 500.
    pub summary_threshold: Option<u64>,
    /// Fields that a summary keeps, as dotted paths such as `price.total` or `guests[].name`.
    /// Default: chosen by their names and costs.
    pub fields: Option<Vec<String>>,
    /// Words whose sentences are kept when a long text is shortened.
    pub keywords: Option<Vec<String>>,
    /// Members to remove from every JSON answer, because they carry no information. Default: none.
    pub strip: Option<Vec<Strip>>,
    /// Names of members to remove from every JSON answer, such as `debug_*`; `*` matches any
    /// characters. Default: none.
    pub strip_fields: Option<Vec<String>>,
    /// Write a uniform list that does not fit as a header and rows, if that makes it fit. Default
    /// false.
    pub compact: Option<bool>,
    /// The content of results that the client shows to its model: `text`, `structured` or `both`.
    /// The other content of a shaped answer then holds the result metadata alone. Default: by the
    /// client's name; `both` for unknown clients.
    pub visible_content: Option<VisibleContent>,
    /// The client whose profile applies to all clients: the beginning of its name in `clientInfo`,
    /// or `unknown`. Default: the name in the header `X-Context-Guard-Client`, else that in
    /// `clientInfo`.
    pub client_profile: Option<String>,
    /// Add highlights of the rest to the first chunk of a text: errors of a log, an outline, the
    /// end. Default true.
    pub highlights: Option<bool>,
    /// Paths of an item's id, title, type, score and content, for `response_mode`. Default: found
    /// by their names.
    pub item_fields: Option<ItemFields>,
    /// Characters of a preview. Default 200.
    pub preview_chars: Option<u64>,
    /// The tool changes nothing, so stored answers may be served. Default: the tool's
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// Refuse calls whose arguments contain truncation marks, such as ` ... [12 more words]`.
    /// Default true.
    pub refuse_marks: Option<bool>,
    /// Replace references in the arguments of calls, such as `{"$ref": "<cursor>#/items/3/body"}`,
    /// by the values of stored answers. Default true. Only answers of the same upstream, unless
    /// `referencesFrom` names others.
    pub references: Option<bool>,
    /// The maximum size of the values by which the references of a call are replaced, in bytes.
    /// Default 4194304.
    pub max_reference_bytes: Option<u64>,
    /// Endpoints of other upstreams whose answers may be passed to this tool by reference, such as
    /// `files::read_*`. Default: none.
    pub references_from: Option<Vec<String>>,
    /// Lifetime of a cursor in seconds. Default and minimum 600. Applies to all endpoints.
    pub cursor_ttl: Option<u64>,
    /// Source of the rest of an answer: the store (`snapshot`), or the upstream, which is called
    /// again (`replay`). Default `snapshot`. `replay` applies to tools that change nothing
    /// (`readOnly`, or the tool's own hint); answers of other tools are always stored.
    pub cursor_mode: Option<CursorMode>,
    /// The format of cursors: `short` (about 28 characters, 20 tokens) or `signed` (about 115
    /// characters, with a whole HMAC-SHA256). Default `short`. Replay cursors are always `signed`.
    pub cursor_format: Option<CursorFormat>,
    /// The token estimator.
    pub estimator: Option<EstimatorSettings>,
    /// Detail of the guard's own arguments in the schemas of tools. Default `none`. Tools with
    /// strict schemas remain unchanged.
    pub advertise: Option<Advertise>,
    /// Treat `limit`, `cursor`, `startLine`, `endLine` and `pages` as the guard's arguments on
    /// tools whose parameters it has not seen. Default false.
    pub plain_arguments: Option<bool>,
    /// Treatment of an answer on which the guard fails. Default `limit`. Applies to all endpoints.
    pub on_fault: Option<OnFault>,
    /// Maximum bytes of an answer on which the guard fails. Default 10240. Applies to all
    /// endpoints.
    pub hard_byte_limit: Option<u64>,
    /// The tool catalogue: tiered lists, search, pinned and hidden tools. Applies to all endpoints.
    pub catalogue: Option<CatalogueSettings>,
}

/// The source of the rest of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CursorMode {
    /// The cursor store.
    #[default]
    Snapshot,
    /// The upstream, which is called again. If its answer differs, the caller gets an error.
    Replay,
}

/// An order of a list: `{field, descending}`, `FIELD_desc` or `FIELD_asc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderBy {
    /// Dotted path to a member of each item, such as `createdAt`.
    pub field: String,
    /// Largest or latest first. Default true.
    pub descending: bool,
}

/// The field and the direction of an order.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OrderByMembers {
    /// Dotted path to a member of each item, such as `createdAt`.
    field: String,
    /// Largest or latest first. Default true.
    #[serde(default = "descending_by_default")]
    descending: bool,
}

impl<'de> Deserialize<'de> for OrderBy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The compiled format of a policy does not describe itself: it has the members alone.
        if !deserializer.is_human_readable() {
            let OrderByMembers { field, descending } = OrderByMembers::deserialize(deserializer)?;
            return Ok(Self { field, descending });
        }
        deserializer.deserialize_any(OrderByVisitor)
    }
}

struct OrderByVisitor;

impl<'de> serde::de::Visitor<'de> for OrderByVisitor {
    type Value = OrderBy;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("`FIELD_desc`, `FIELD_asc` or an object with `field` and `descending`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OrderBy, E> {
        let order = |end: &str, descending| {
            let field = text.strip_suffix(end).filter(|field| !field.is_empty())?.to_owned();
            Some(OrderBy { field, descending })
        };
        order("_desc", true)
            .or_else(|| order("_asc", false))
            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, members: A) -> Result<OrderBy, A::Error> {
        let members = serde::de::value::MapAccessDeserializer::new(members);
        let OrderByMembers { field, descending } = OrderByMembers::deserialize(members)?;
        Ok(OrderBy { field, descending })
    }
}

/// An order of a list.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes the forms")]
enum OrderByForms {
    /// `FIELD_desc` or `FIELD_asc`, such as `created_desc`.
    Text(String),
    /// The field and the direction.
    Members(OrderByMembers),
}

fn descending_by_default() -> bool {
    true
}

/// Members that can be removed from an answer without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Strip {
    /// Members that are null.
    Nulls,
    /// Members that are an empty object, list or string.
    Empty,
    /// Objects that occur earlier in the answer: they become `{"$ref": "#/path/to/the/first"}`.
    Repeats,
}

/// Dotted paths of the members of an item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ItemFields {
    /// The path of the id.
    pub id: Option<String>,
    /// The path of the title.
    pub title: Option<String>,
    /// The path of the kind, such as `article`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The path of the relevance, a number.
    pub score: Option<String>,
    /// The path of the long text.
    pub content: Option<String>,
}

/// Settings of the token estimator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct EstimatorSettings {
    /// `lexical` (default) or `chars4`.
    pub method: Option<Method>,
    /// The tokenizer that `lexical` imitates: `o200k` (default), `cl100k` or `claude-legacy`.
    pub profile: Option<Profile>,
    /// A factor on the estimate, 0.5 to 4. Default 1.
    pub scale: Option<f64>,
}

/// The detail of the guard's own arguments in the schemas of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Advertise {
    /// None; the arguments are still accepted. The description of the guard's read tool names them.
    #[default]
    None,
    /// One property, 7 tokens per tool. The description of the guard's read tool explains it.
    Compact,
    /// One property per argument.
    Full,
}

/// The treatment of an answer on which the guard fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnFault {
    /// Send it unchanged, whatever its size.
    Pass,
    /// Send it unchanged up to the byte limit; truncate a longer one to a labelled answer.
    #[default]
    Limit,
    /// Send an error.
    Block,
}

impl From<OnFault> for fallback::OnFault {
    fn from(on_fault: OnFault) -> Self {
        match on_fault {
            OnFault::Pass => Self::Pass,
            OnFault::Limit => Self::Limit,
            OnFault::Block => Self::Block,
        }
    }
}
