//! JSON-RPC responses that a gateway writes itself. Ids are verbatim JSON.

use serde_json::{Value, json};

use crate::head::{Head, is_stateless_version};

/// Writes a JSON-RPC error response. `id` is the raw JSON of the request's id.
#[must_use]
pub fn error(id: &str, code: i64, message: &str) -> Vec<u8> {
    let message = Value::from(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
        .into_bytes()
}

/// Writes a JSON-RPC error response with a `data` member. `id` is the raw JSON of the request's id.
#[must_use]
pub fn error_with_data(id: &str, code: i64, message: &str, data: &Value) -> Vec<u8> {
    let message = Value::from(message);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message},"data":{data}}}}}"#
    )
    .into_bytes()
}

/// Writes a JSON-RPC response with a result. `id` and `result` are raw JSON.
#[must_use]
pub fn result(id: &str, result: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
}

/// The properties of a request that determine the form of a failure response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    id: String,
    is_tool_call: bool,
    is_stateless: bool,
}

impl FailedRequest {
    /// Reads the properties of a request. `head` is its parsed message. `header_version` is the MCP
    /// revision that the transport names, or empty.
    #[must_use]
    pub fn new(head: &Head<'_>, header_version: &str) -> Self {
        Self {
            id: head.raw_id().to_owned(),
            is_tool_call: head.method() == "tools/call",
            is_stateless: head.is_stateless() || is_stateless_version(header_version),
        }
    }

    /// Returns the id of the request, as raw JSON.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the response that reports a failure. For a tool call, it is a tool result, because
    /// the model must see the reason. For any other request, it is a JSON-RPC error.
    #[must_use]
    pub fn response(&self, code: i64, reason: &str) -> Vec<u8> {
        if !self.is_tool_call {
            return error(&self.id, code, reason);
        }
        let text = format!("[context-guard] {reason}");
        let mut reply = json!({"content": [{"type": "text", "text": text}], "isError": true});
        // Stateless results name their type. Stateful clients do not know the member.
        if self.is_stateless
            && let Some(members) = reply.as_object_mut()
        {
            members.insert("resultType".to_owned(), "complete".into());
        }
        result(&self.id, &reply.to_string())
    }
}

/// Returns the failure response to the raw request `request`. See [`FailedRequest::response`]. If
/// the request cannot be read, it is a JSON-RPC error with the id `null`.
#[must_use]
pub fn failure(request: &[u8], code: i64, reason: &str) -> Vec<u8> {
    match Head::read(request) {
        Some(head) => FailedRequest::new(&head, "").response(code, reason),
        None => error("null", code, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::UPSTREAM_TIMEOUT;

    #[test]
    fn failure_fits_the_request() {
        let table = [
            (r#"{"id":1,"method":"tools/call"}"#, "", true, false),
            (r#"{"id":1,"method":"tools/call"}"#, "2025-11-25", true, false),
            (r#"{"id":1,"method":"tools/call"}"#, "2026-07-28", true, true),
            (
                r#"{"id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
                "",
                true,
                true,
            ),
            (r#"{"id":1,"method":"resources/read"}"#, "2026-07-28", false, false),
        ];
        for (request, version, is_result, has_type) in table {
            let head = Head::read(request.as_bytes()).unwrap();
            let failed =
                FailedRequest::new(&head, version).response(UPSTREAM_TIMEOUT, "too \"late\"");
            let failed: Value = serde_json::from_slice(&failed).unwrap();
            assert_eq!(failed["id"], 1);
            assert_eq!(failed["result"]["isError"] == true, is_result, "{request} {version}");
            assert_eq!(failed["result"]["resultType"] == "complete", has_type, "{request}");
            assert_eq!(failed["error"]["code"] == UPSTREAM_TIMEOUT, !is_result);
        }
        assert!(failure(b"no JSON", -1, "x").starts_with(br#"{"jsonrpc":"2.0","id":null,"error""#));
    }
}
