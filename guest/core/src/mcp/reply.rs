//! Responses that the guard writes itself.

use serde_json::{Map, Value};

use super::META_RESULT;
use crate::json::text::{escape, quoted};
use crate::shape::content_block::{plain_block, text_block};
use crate::shape::render::Rendered;

/// The properties of a client's request that determine the form of the response.
#[derive(Clone, Copy)]
pub struct Envelope<'a> {
    /// The JSON-RPC id of the request, verbatim.
    pub id: &'a [u8],
    /// True if the request uses the stateless protocol mode.
    pub stateless: bool,
}

impl Envelope<'_> {
    /// Returns a JSON-RPC response whose `result` has `members`. In stateless mode, the result also
    /// has `resultType`, which MCP 2026-07-28 requires and earlier versions do not know.
    #[must_use]
    pub fn result(&self, members: &[u8]) -> Vec<u8> {
        let kind: &[u8] = if self.stateless { b",\"resultType\":\"complete\"" } else { b"" };
        [
            b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
            self.id,
            b",\"result\":{",
            members,
            kind,
            b"}}",
        ]
        .concat()
    }

    /// Returns the response to a tool call: an excerpt with its result metadata.
    #[must_use]
    pub fn tool(&self, rendered: &Rendered, meta: &Map<String, Value>) -> Vec<u8> {
        let mut members = b"\"content\":[".to_vec();
        if !rendered.heading.is_empty() {
            members.extend(plain_block(&rendered.heading));
            members.push(b',');
        }
        if let Some(text) = &rendered.text {
            members.extend(text_block(text));
            members.push(b',');
        }
        if let Some(blocks) = rendered.blocks.as_ref().filter(|blocks| !blocks.is_empty()) {
            members.extend_from_slice(blocks);
            members.push(b',');
        }
        members.extend(plain_block(&rendered.notice));
        members.push(b']');
        if let Some(structured) = &rendered.structured {
            members.extend_from_slice(b",\"structuredContent\":");
            members.extend_from_slice(structured);
        }
        members.push(b',');
        members.extend(result_meta(meta));
        self.result(&members)
    }

    /// Returns the response to a read of the resource `uri`: an excerpt with its result metadata.
    #[must_use]
    pub fn resource(&self, uri: &str, rendered: &Rendered, meta: &Map<String, Value>) -> Vec<u8> {
        let mut members = b"\"contents\":[".to_vec();
        if let Some(text) = &rendered.text {
            members.extend(content(uri, text));
            members.push(b',');
        }
        if let Some(blocks) = rendered.blocks.as_ref().filter(|blocks| !blocks.is_empty()) {
            members.extend_from_slice(blocks);
            members.push(b',');
        }
        members.extend(notice_content(rendered));
        members.extend_from_slice(b"],");
        if self.stateless {
            // Cursors in the text expire, so no cache may keep it.
            members.extend_from_slice(b"\"ttlMs\":0,\"cacheScope\":\"private\",");
        }
        members.extend(result_meta(meta));
        self.result(&members)
    }

    /// Returns the response to a tool call that failed. The model sees `text`.
    #[must_use]
    pub fn tool_error(&self, text: &str) -> Vec<u8> {
        self.result(
            &[b"\"content\":[".as_slice(), &plain_block(text), b"],\"isError\":true"].concat(),
        )
    }

    /// Returns a JSON-RPC error response with this code, and `text` as its message.
    #[must_use]
    pub fn error(&self, code: i64, text: &str) -> Vec<u8> {
        let code = code.to_string();
        [
            b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
            self.id,
            b",\"error\":{\"code\":",
            code.as_bytes(),
            b",\"message\":",
            &quoted(text),
            b"}}",
        ]
        .concat()
    }
}

/// Returns the member `"_meta":{…}` of a result, which contains the result metadata `meta`.
#[must_use]
pub fn result_meta(meta: &Map<String, Value>) -> Vec<u8> {
    format!("\"_meta\":{{\"{META_RESULT}\":{}}}", Value::Object(meta.clone())).into_bytes()
}

/// Returns one of the `contents` of a resource, as JSON. `text` is already JSON-escaped.
#[must_use]
pub fn content(uri: &str, text: &[u8]) -> Vec<u8> {
    [
        b"{\"uri\":".as_slice(),
        &quoted(uri),
        b",\"mimeType\":\"text/plain\",\"text\":\"",
        text,
        b"\"}",
    ]
    .concat()
}

/// Returns the result notice of an excerpt as one of the `contents` of a resource. Its URI leads to
/// the next part.
#[must_use]
pub fn notice_content(rendered: &Rendered) -> Vec<u8> {
    let uri = format!("{}{}", super::READ_URI, rendered.cursor.as_deref().unwrap_or("end"));
    let mut text = Vec::new();
    escape(&mut text, rendered.notice.as_bytes());
    content(&uri, &text)
}
