//! Reports lines on the standard output of a stdio server that are not messages.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{debug, warn};

use crate::message::{Head, replace_invalid_utf8, split_batch};

/// The maximum number of characters that a report quotes.
const MAX_QUOTED_CHARS: usize = 200;
/// The maximum length of a line, in bytes, that is parsed to determine that it is not a message.
/// Log lines are short, and parsing long messages twice would cost time.
const MAX_PARSED_BYTES: usize = 4 << 10;

/// Reports invalid lines of one server: the first as a warning, the others for debugging.
#[derive(Debug, Default)]
pub(crate) struct InvalidOutput {
    has_lines: AtomicBool,
    has_answers: AtomicBool,
}

impl InvalidOutput {
    /// Reports a line that is not a message. `consequence` is a verb phrase about the line's
    /// treatment, such as `are dropped`.
    pub(crate) fn report(&self, upstream: &str, line: &[u8], consequence: &str) {
        let (line, upstream) = (quoted(line), named(upstream));
        if self.has_lines.swap(true, Ordering::Relaxed) {
            debug!(upstream, "not an MCP message: {line:?}");
        } else {
            warn!(
                upstream,
                "the server writes lines to standard output that are not MCP messages and \
                 {consequence}; the first is {line:?}: make it log to standard error instead"
            );
        }
    }

    /// Reports an answer without an id, or with an id that no pending request has.
    pub(crate) fn report_answer(&self, upstream: &str, answer: &[u8]) {
        let (answer, upstream) = (quoted(answer), named(upstream));
        if self.has_answers.swap(true, Ordering::Relaxed) {
            debug!(upstream, "an answer names no request that waits for one: {answer:?}");
        } else {
            warn!(
                upstream,
                "the server sends answers that name no request that waits for one, and no client \
                 receives them; the first is {answer:?}: a request may have to wait for its timeout"
            );
        }
    }
}

/// Returns the name of an upstream for the log. `None` if it has none, as that of `wrap`.
fn named(upstream: &str) -> Option<&str> {
    Some(upstream).filter(|name| !name.is_empty())
}

/// Returns the beginning of an upstream's output for the log, at most [`MAX_QUOTED_CHARS`]
/// characters.
fn quoted(line: &[u8]) -> String {
    let line = line.get(..MAX_PARSED_BYTES).unwrap_or(line);
    printable(line).chars().take(MAX_QUOTED_CHARS).collect()
}

/// Returns true if a line is blank, a message or a batch of messages. Long lines that begin with
/// `{` or `[` are not parsed, and count as messages.
pub(crate) fn is_message(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    match line.first() {
        None => true,
        Some(b'{' | b'[') => {
            line.len() > MAX_PARSED_BYTES
                || split_batch(&replace_invalid_utf8(line))
                    .into_iter()
                    .all(|message| Head::read(message).is_some_and(|head| head.kind().is_some()))
        }
        Some(_) => false,
    }
}

/// Returns output of a server for the log or the terminal: valid UTF-8 without control characters
/// other than tabs, which could forge lines.
///
/// # Examples
/// ```
/// use context_guard_gateway::printable;
///
/// assert_eq!(printable(b"\x1b[2Jdone\nok\n"), "\\u{1b}[2Jdone\\nok");
/// ```
#[must_use]
pub fn printable(line: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(line).trim_end().chars() {
        if character.is_control() && character != '\t' {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_not_messages() {
        for line in [
            "Server started on stdio",
            "[INFO] ready",
            "[12:30:01] ready",
            r#"{"level":30,"msg":"ready"}"#,
            r#"{"jsonrpc":"2.0","id":"#,
            "42",
        ] {
            assert!(!is_message(line.as_bytes()), "{line}");
        }
        for line in [
            "\r",
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
            r#"[{"jsonrpc":"2.0","method":"notifications/progress"}]"#,
        ] {
            assert!(is_message(line.as_bytes()), "{line}");
        }
    }
}
