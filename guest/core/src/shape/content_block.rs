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

/// The kind of an MCP content block, which determines the part of it that a model reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockKind {
    /// A block of which a model reads the text, if there is one.
    #[default]
    Plain,
    /// A link to a resource. A model reads all of it.
    Link,
    /// A user interface of MCP Apps. The client renders it, and no model reads it.
    Interface,
    /// An image or audio. A model reads its data as text only if the client shows it so.
    Data,
}

impl BlockKind {
    /// Reads the value of a member of a content block, or of the resource in it, and updates the
    /// kind of the block. A block that is a user interface remains one.
    ///
    /// # Errors
    /// Returns an error if there is no valid value at the scanner's position.
    pub fn read_member(&mut self, scanner: &mut Scanner<'_>, key: &Span) -> Scan<()> {
        let (is_type, is_uri) = (scanner.is_key(key, "type"), scanner.is_key(key, "uri"));
        let is_mime_type = scanner.is_key(key, "mimeType");
        if !(is_type || is_uri || is_mime_type) || scanner.kind()? != Kind::String {
            return scanner.skip_unchecked().map(drop);
        }
        let value = scanner.string()?;
        let value = scanner.decode(&value);
        if (is_uri && value.starts_with("ui://")) || (is_mime_type && is_interface_type(&value)) {
            *self = BlockKind::Interface;
        } else if is_type && *self == BlockKind::Plain {
            *self = match value.as_ref() {
                "resource_link" => BlockKind::Link,
                "image" | "audio" => BlockKind::Data,
                _ => BlockKind::Plain,
            };
        }
        Ok(())
    }
}

/// Returns true for the media types of user interfaces: `text/html;profile=mcp-app` of MCP Apps,
/// and `text/html+skybridge` of earlier clients.
fn is_interface_type(mime: &str) -> bool {
    let (kind, parameters) = mime.split_once(';').unwrap_or((mime, ""));
    let is_profile = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("profile") && value.trim().trim_matches('"') == "mcp-app"
    };
    match kind.trim().to_ascii_lowercase().as_str() {
        "text/html+skybridge" => true,
        "text/html" => parameters.split(';').any(is_profile),
        _ => false,
    }
}

/// Returns the text of an MCP content block that a model reads. That is all of a link, and nothing
/// of user interfaces and other blocks without text. Of images and audio, it is their data if
/// `shows_data`, else nothing.
#[must_use]
pub fn block_text(block: &[u8], shows_data: bool) -> Cow<'_, [u8]> {
    let mut read = BlockParts::default();
    // Of an invalid block, what was read before the fault is shown.
    let _ = read_block(&mut Scanner::new(block, Form::Raw), &mut read);
    let text = |span: Span| visible(block.get(span).unwrap_or_default(), Form::Escaped);
    match read.kind {
        BlockKind::Plain => text(read.text),
        BlockKind::Link => Cow::Borrowed(block),
        BlockKind::Data if shows_data => text(read.data),
        BlockKind::Data | BlockKind::Interface => Cow::Borrowed(&[]),
    }
}

/// The parts of a content block that determine what a model reads of it.
#[derive(Default)]
struct BlockParts {
    kind: BlockKind,
    text: Span,
    data: Span,
}

/// Reads an MCP content block, whose text is its own or that of its embedded resource.
fn read_block(scanner: &mut Scanner<'_>, block: &mut BlockParts) -> Scan<()> {
    scanner.object(|scanner, key| {
        let kind = scanner.kind()?;
        if kind == Kind::String && scanner.is_key(&key, "text") {
            block.text = scanner.string()?;
            Ok(())
        } else if kind == Kind::String && scanner.is_key(&key, "data") {
            block.data = scanner.string()?;
            Ok(())
        } else if kind == Kind::Object && scanner.is_key(&key, "resource") {
            read_block(scanner, block)
        } else {
            block.kind.read_member(scanner, &key)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_read_texts_and_links() {
        let link = r#"{"uri":"file:///a","type":"resource_link","name":"a"}"#;
        for (block, text) in [
            (r#"{"type":"text","text":"a\nb"}"#, "a\nb"),
            (r#"{"type":"resource","resource":{"uri":"file:///a","text":"x"}}"#, "x"),
            (r#"{"type":"image","data":"aGk=","mimeType":"image/png"}"#, ""),
            (link, link),
            (r#"{"type":"resource","resource":{"text":"<p>","uri":"ui://a/b"}}"#, ""),
            (r#"{"text":"<p>","uri":"a","mimeType":"text/html; profile=\"mcp-app\""}"#, ""),
            (r#"{"mimeType":"Text/HTML+skybridge","uri":"a","text":"<p>"}"#, ""),
            (r#"{"mimeType":"text/html;charset=utf-8","uri":"a","text":"<p>"}"#, "<p>"),
            (r#"{"mimeType":"text/html","uri":"https://ui//","text":"<p>"}"#, "<p>"),
        ] {
            assert_eq!(block_text(block.as_bytes(), false), text.as_bytes(), "{block}");
        }
        let image = br#"{"data":"aGk=","mimeType":"image/png","type":"image"}"#;
        assert_eq!(block_text(image, true), &b"aGk="[..]);
    }
}
