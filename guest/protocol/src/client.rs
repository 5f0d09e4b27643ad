//! The names of known clients, which are the only ones in metrics and statistics.

/// The lower-case prefixes of the names of known clients in `clientInfo`. The guard has a profile
/// for each.
pub const CLIENT_NAMES: [&str; 36] = [
    "claude-code",
    "codex-mcp-client",
    "cursor-vscode",
    "visual studio code",
    "code - oss",
    "github-copilot-developer",
    "gemini-cli-mcp-client",
    "qwen-cli-mcp-client",
    "qwen-code",
    "opencode",
    "kimi-code",
    "goose",
    "crush",
    "cline",
    "@cline/core",
    "roo code",
    "kilo code",
    "continue-client",
    "continue-cli-client",
    "zed",
    "q dev cli",
    "pi-mcp-",
    "late",
    "fast-agent-mcp",
    "mcphost",
    "mcp-use",
    "@langchain/mcp-adapters",
    "ai-sdk-mcp-client",
    "@librechat/api-client",
    "llama-webui-mcp",
    "5ire",
    "@n8n/n8n-nodes-langchain.mcpclienttool",
    "cherry studio",
    "openai-mcp",
    "claude-ai",
    "anthropic/claudeai",
];

/// The names in [`CLIENT_NAMES`] of clients that read only the first page of a list.
pub const FIRST_PAGE_CLIENTS: [&str; 22] = [
    "codex-mcp-client",
    "cursor-vscode",
    "github-copilot-developer",
    "gemini-cli-mcp-client",
    "qwen-code",
    "kimi-code",
    "crush",
    "cline",
    "@cline/core",
    "roo code",
    "kilo code",
    "continue-client",
    "continue-cli-client",
    "zed",
    "q dev cli",
    "fast-agent-mcp",
    "mcp-use",
    "ai-sdk-mcp-client",
    "llama-webui-mcp",
    "cherry studio",
    "claude-ai",
    "anthropic/claudeai",
];

/// The HTTP header that names the client whose profile applies, in lower case. A gateway, filter or
/// middleware uses it instead of the name in `clientInfo`.
pub const CLIENT_HEADER: &str = "x-context-guard-client";

/// The maximum length of a client's name in bytes. A longer name is cut.
const MAX_NAME_BYTES: usize = 256;

/// Returns the name of a client, cut to 256 bytes. None if it is empty.
#[must_use]
pub fn cut_name(name: &str) -> Option<String> {
    let name = name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Checks the name of a profile that replaces the one of a client.
///
/// # Errors
/// The reason, with all names, if the name is neither `unknown` nor that of a known client.
pub fn check_name(name: &str) -> Result<(), String> {
    if name == "unknown" || known_name(name).is_some() {
        return Ok(());
    }
    let names = CLIENT_NAMES.join(", ");
    Err(format!("{name:?} is no known client. Write unknown, or one of: {names}"))
}

/// Returns the known client to which a name in `clientInfo` belongs. `None` if it is unknown.
/// Proxies and clients append to names, so a prefix that ends at a word boundary decides.
///
/// ```
/// use context_guard_protocol::client::known_name;
///
/// assert_eq!(known_name("Claude-Code (via mcp-remote 0.1.18)"), Some("claude-code"));
/// assert_eq!(known_name("late-cli"), Some("late"));
/// assert_eq!(known_name("latest"), None);
/// assert_eq!(known_name("mcp"), None);
/// ```
#[must_use]
pub fn known_name(name: &str) -> Option<&'static str> {
    let begins_with = |prefix: &str| {
        let (start, rest) = name.as_bytes().split_at_checked(prefix.len())?;
        let in_word = prefix.ends_with(|last: char| last.is_ascii_alphanumeric())
            && rest.first().is_some_and(u8::is_ascii_alphanumeric);
        (!in_word && start.eq_ignore_ascii_case(prefix.as_bytes())).then_some(())
    };
    CLIENT_NAMES.into_iter().find(|prefix| begins_with(prefix).is_some())
}

/// Returns true if a client with this name in `clientInfo` is known to read only the first page of
/// a list. It gets the whole list in one page.
#[must_use]
pub fn reads_first_page_only(name: &str) -> bool {
    known_name(name).is_some_and(|known| FIRST_PAGE_CLIENTS.contains(&known))
}
