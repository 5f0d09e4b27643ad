//! The bodies of the routes, with members in the documented order.

use context_guard_catalogue::document::Json;
use context_guard_catalogue::score::Usage;
use context_guard_catalogue::signature;
use context_guard_catalogue::tool::Tool;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The body of `/hot`: the pinned tools, then the visible tools with the highest scores.
#[derive(Serialize)]
pub(super) struct HotBody {
    pub(super) tier: &'static str,
    pub(super) tools: Vec<HotTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<BudgetBody>,
}

/// The body of `/categories`.
#[derive(Serialize)]
pub(super) struct CategoriesBody {
    pub(super) tier: &'static str,
    pub(super) categories: Vec<CategoryBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<BudgetBody>,
}

/// A page of tools, summarized.
#[derive(Serialize)]
pub(super) struct SummariesBody {
    pub(super) tier: &'static str,
    pub(super) filter: String,
    pub(super) tools: Vec<Box<RawValue>>,
    pub(super) pagination: Pagination,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<BudgetBody>,
}

/// The body for one tool.
#[derive(Serialize)]
pub(super) struct ToolBody<'d> {
    pub(super) tier: &'static str,
    pub(super) tool: String,
    pub(super) server: String,
    pub(super) server_display_name: String,
    pub(super) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<&'d RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) returns: Option<&'d RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) examples: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) performance: Option<Performance>,
}

/// The body of `/servers`.
#[derive(Serialize)]
pub(super) struct ServersBody {
    pub(super) servers: Vec<ServerCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<BudgetBody>,
}

/// An error body, as RFC 9457 defines it.
#[derive(Serialize)]
pub(super) struct ProblemBody<'p> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) detail: &'p str,
}

#[derive(Serialize)]
pub(super) struct HotTool {
    pub(super) tool: String,
    pub(super) server: String,
    pub(super) description: String,
    pub(super) params: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) avg_latency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) success_rate: Option<String>,
}

#[derive(Serialize)]
pub(super) struct CategoryBody {
    pub(super) category: String,
    pub(super) display_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) tool_count: usize,
    pub(super) server_count: usize,
    pub(super) popular_tools: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct SummaryTool {
    pub(super) tool: String,
    pub(super) server: String,
    pub(super) description: String,
    pub(super) params: OrderedMembers,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) returns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) avg_latency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f64>,
}

/// A tool in a body, with its definition or with less detail.
#[derive(Serialize)]
pub(super) struct FoundTool<'d> {
    pub(super) tool: String,
    pub(super) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<&'d RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct ServerCount {
    pub(super) server: String,
    pub(super) tool_count: usize,
}

#[derive(Serialize)]
pub(super) struct Pagination {
    pub(super) page: usize,
    pub(super) page_size: usize,
    pub(super) total_count: usize,
    pub(super) total_pages: usize,
}

/// The report that a body lists only some of its items, because of its token budget.
#[derive(Serialize)]
pub(super) struct BudgetBody {
    pub(super) max_tokens: u64,
    pub(super) shown: usize,
    pub(super) total: usize,
    pub(super) message: String,
    pub(super) next: String,
}

/// The call statistics of a tool.
#[derive(Serialize)]
pub(super) struct Performance {
    avg_latency_ms: f64,
    p95_latency_ms: f64,
    success_rate: f64,
    total_invocations: u64,
}

/// Names and values that serialize as an object, in order.
pub(super) struct OrderedMembers(pub(super) Vec<(String, String)>);

impl Serialize for OrderedMembers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The input and output schema of a definition, verbatim.
#[derive(Default, Deserialize)]
pub(super) struct DefinitionSchemas<'d> {
    #[serde(borrow, default, rename = "inputSchema")]
    pub(super) input: Option<&'d RawValue>,
    #[serde(borrow, default, rename = "outputSchema")]
    pub(super) output: Option<&'d RawValue>,
}

impl Performance {
    /// Returns the call statistics. `None` if no calls were recorded.
    pub(super) fn new(usage: &Usage) -> Option<Self> {
        Some(Self {
            success_rate: rounded(usage.success_percent()?, 10.0),
            avg_latency_ms: rounded(usage.average_ms, 1.0),
            p95_latency_ms: rounded(usage.p95_ms, 1.0),
            total_invocations: usage.total,
        })
    }
}

/// Rounds `value` to a multiple of `1 / scale`: `scale` is 100 for two decimals.
pub(super) fn rounded(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}

/// Returns a latency such as `47ms`. `None` if it is unknown.
pub(super) fn latency(milliseconds: Option<f32>) -> Option<String> {
    milliseconds.map(|value| format!("{value:.0}ms"))
}

/// Returns a rate such as `98.7%`. `None` if it is unknown.
pub(super) fn rate(percent: Option<f32>) -> Option<String> {
    percent.map(|value| format!("{value:.1}%"))
}

/// Returns the description of the tool's output schema on one line, if it has one. Cuts it at 320
/// characters.
pub(super) fn returns(tool: &Tool<'_>) -> Option<String> {
    const MAX_CHARACTERS: usize = 320;
    let description = tool.document.get("outputSchema")?.get("description")?;
    let text = signature::one_line(description.as_str()?);
    Some(match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    })
}

/// Returns the `examples` of the tool's input schema, if it has any.
pub(super) fn examples(tool: &Tool<'_>) -> Option<Box<RawValue>> {
    let examples: &Json = tool.document.get("inputSchema")?.get("examples")?;
    RawValue::from_string(examples.to_string()).ok()
}
