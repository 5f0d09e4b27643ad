//! The names of the semantic conventions of OpenTelemetry for MCP and generative AI, and the names
//! that this project adds. The conventions have the status Development (repository
//! `open-telemetry/semantic-conventions-genai`).

/// The attribute of the MCP method.
pub(crate) const METHOD: &str = "mcp.method.name";
/// The attribute of the tool.
pub(crate) const TOOL: &str = "gen_ai.tool.name";
/// The attribute of the operation, which is [`EXECUTE_TOOL`] for tool calls.
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
/// The operation of a tool call.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";
/// The attribute of the session.
pub(crate) const SESSION: &str = "mcp.session.id";
/// The attribute of the protocol version.
pub(crate) const VERSION: &str = "mcp.protocol.version";
/// The attribute of the JSON-RPC id.
pub(crate) const REQUEST_ID: &str = "jsonrpc.request.id";
/// The attribute of the transport: `pipe` or `tcp`.
pub(crate) const TRANSPORT: &str = "network.transport";
/// The attribute of the kind of error.
pub(crate) const ERROR: &str = "error.type";
/// The kind of error of a result with `isError`.
pub(crate) const TOOL_ERROR: &str = "tool_error";
/// The attribute of the JSON-RPC error code.
pub(crate) const STATUS_CODE: &str = "rpc.response.status_code";
/// The attribute of the upstream's name.
pub(crate) const UPSTREAM: &str = "context_guard.upstream";
/// The attribute of the outcome.
pub(crate) const OUTCOME: &str = "context_guard.outcome";
/// The attribute of the tokens of the upstream's answer.
pub(crate) const TOKENS_ORIGINAL: &str = "context_guard.tokens.original";
/// The attribute of the tokens of the answer sent to the client.
pub(crate) const TOKENS_SENT: &str = "context_guard.tokens.sent";

/// The metrics of the conventions: the name in Prometheus without its unit, and the name in OTLP.
pub(crate) const METRICS: [(&str, &str); 3] = [
    ("mcp_server_operation_duration", "mcp.server.operation.duration"),
    ("mcp_client_operation_duration", "mcp.client.operation.duration"),
    ("context_guard_result_tokens", "context_guard.result.tokens"),
];

/// The labels of these metrics in Prometheus, and the attributes in OTLP.
#[cfg(feature = "otlp")]
pub(crate) const LABELS: [(&str, &str); 6] = [
    ("mcp_method_name", METHOD),
    ("gen_ai_tool_name", TOOL),
    ("gen_ai_operation_name", OPERATION),
    ("network_transport", TRANSPORT),
    ("error_type", ERROR),
    ("context_guard_upstream", UPSTREAM),
];

/// The bounds of the buckets of durations, in seconds.
pub(crate) const DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The bounds of the buckets of tokens, equal to those of `gen_ai.client.token.usage`.
pub(crate) const TOKEN_BUCKETS: [f64; 10] =
    [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0];

/// The methods that may be labels. Other methods are names that clients choose.
const METHODS: [&str; 22] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
    "roots/list",
    "sampling/createMessage",
];

/// Returns the label of a method: its name if MCP defines the method, otherwise `_OTHER`.
#[must_use]
pub fn method_label(method: &str) -> &'static str {
    METHODS.iter().find(|known| **known == method).unwrap_or(&"_OTHER")
}
