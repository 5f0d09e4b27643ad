//! The names of known clients, which are the only ones in metrics and statistics.

/// The beginnings of the names of known clients in `clientInfo`, in lower case. The guard has a
/// profile for each.
pub const CLIENT_NAMES: [&str; 7] = [
    "claude-code",
    "codex-mcp-client",
    "cursor-vscode",
    "visual studio code",
    "gemini-cli-mcp-client",
    "qwen-code",
    "github-copilot-developer",
];

/// Returns the name of the known client that a name in `clientInfo` belongs to. Proxies append to
/// names, so the beginning decides.
///
/// ```
/// use context_guard_protocol::client::known_name;
///
/// assert_eq!(known_name("Claude-Code (via mcp-remote 0.1.18)"), Some("claude-code"));
/// assert_eq!(known_name("mcp"), None);
/// ```
#[must_use]
pub fn known_name(name: &str) -> Option<&'static str> {
    let begins_with = |prefix: &str| {
        let start = name.as_bytes().get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    CLIENT_NAMES.into_iter().find(|prefix| begins_with(prefix))
}
