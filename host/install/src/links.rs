//! Creates links and command lines that add a guarded server to a client with one click or one
//! command.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// A server of a client: its name and command, with or without the guard.
#[derive(Clone, Copy, Debug)]
pub struct NamedCommand<'a> {
    /// The name that the client shows.
    pub name: &'a str,
    /// The program.
    pub program: &'a str,
    /// The arguments.
    pub arguments: &'a [&'a str],
}

/// Returns the link that adds a server to Cursor.
///
/// ```
/// use context_guard_install::{NamedCommand, cursor_link};
///
/// let server = NamedCommand { name: "a", program: "npx", arguments: &["-y", "b"] };
/// let link = cursor_link(&server);
/// assert!(link.starts_with("cursor://anysphere.cursor-deeplink/mcp/install?name=a&config="));
/// ```
#[must_use]
pub fn cursor_link(server: &NamedCommand<'_>) -> String {
    let config = json!({"command": server.program, "args": server.arguments}).to_string();
    format!(
        "cursor://anysphere.cursor-deeplink/mcp/install?name={}&config={}",
        percent_encode(server.name),
        percent_encode(&STANDARD.encode(config))
    )
}

/// Returns the link that adds a server to VS Code.
#[must_use]
pub fn vs_code_link(server: &NamedCommand<'_>) -> String {
    let NamedCommand { name, program, arguments } = server;
    let config = json!({"name": name, "command": program, "args": arguments}).to_string();
    format!("vscode:mcp/install?{}", percent_encode(&config))
}

/// Returns the shell command line that adds a server to Claude Code.
#[must_use]
pub fn claude_line(server: &NamedCommand<'_>) -> String {
    let words = [server.name, "--", server.program].into_iter();
    let words = words.chain(server.arguments.iter().copied()).map(quote);
    format!("claude mcp add {}", Vec::from_iter(words).join(" "))
}

/// Quotes a word for a POSIX shell.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Percent-encodes all but the unreserved characters of RFC 3986. `encodeURIComponent` also keeps
/// `!'()*`, which decodes to the same text.
fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
