//! Content blocks of a tool result.

use std::borrow::Cow;

use crate::json::Span;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::{Form, escape, visible};

/// Returns the JSON of an MCP text block. `escaped` is its text, already escaped as in a JSON
/// string.
#[must_use]
pub fn text_block(escaped: &[u8]) -> Vec<u8> {
    [b"{\"type\":\"text\",\"text\":\"".as_slice(), escaped, b"\"}"].concat()
}

/// Returns the JSON of an MCP text block. `text` is unescaped.
#[must_use]
pub fn plain_block(text: &str) -> Vec<u8> {
    let mut escaped = Vec::new();
    escape(&mut escaped, text.as_bytes());
    text_block(&escaped)
}

/// Returns the text of an MCP content block, as a model reads it. Empty for images and other blocks
/// without text.
#[must_use]
pub fn block_text(block: &[u8]) -> Cow<'_, [u8]> {
    let span = text_span(&mut Scanner::new(block, Form::Raw)).ok().flatten().unwrap_or(0..0);
    visible(block.get(span).unwrap_or_default(), Form::Escaped)
}

/// Returns the span of the text in an MCP content block: its own, or that of its embedded resource.
/// `None` if it has neither.
fn text_span(scanner: &mut Scanner<'_>) -> Scan<Option<Span>> {
    let mut text = None;
    scanner.object(|scanner, key| {
        let kind = scanner.kind()?;
        if kind == Kind::String && scanner.is_key(&key, "text") {
            text = Some(scanner.string()?);
        } else if kind == Kind::Object && scanner.is_key(&key, "resource") {
            text = text_span(scanner)?.or(text.take());
        } else {
            scanner.skip_unchecked()?;
        }
        Ok(())
    })?;
    Ok(text)
}
