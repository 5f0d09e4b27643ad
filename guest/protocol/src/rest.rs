//! Plain JSON APIs, mapped to MCP.
//!
//! For the guard, an endpoint is a tool named `GET /path`, and a response body is the text content
//! of the tool's answer.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::argument::{ARGUMENT_PREFIX, is_plain_name, resolve_alias};
use crate::header;
use crate::http::{HttpResponse, ResponseHead};

/// The guard's arguments that are numbers.
const NUMERIC_ARGUMENTS: [&str; 6] =
    ["limit", "pages", "startLine", "endLine", "min_score", "context"];
/// JSON pointer to the result metadata in a message that the guard wrote.
const RESULT_METADATA: &str = "/result/_meta/dev.context-guard~1result";
/// Members of the result metadata that are copied into the response body if the content is not
/// JSON.
const CHUNK_METADATA: [&str; 4] = ["chunkIndex", "totalChunks", "nextCursor", "metadata"];

/// A request to an API, split into the guard's parameters and the API's own.
///
/// ```
/// use context_guard_protocol::rest::RestRequest;
///
/// let request = RestRequest::parse("GET", "/rooms?city=Lisbon&limit=5", &[]);
/// assert_eq!(request.endpoint(), "GET /rooms");
/// assert_eq!(request.target(), "/rooms?city=Lisbon");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RestRequest {
    endpoint: String,
    path: String,
    /// The query without the guard's parameters, verbatim.
    query: String,
    guard_arguments: Map<String, Value>,
    own_arguments: Map<String, Value>,
    /// The name of the query parameter with the cursor, for links to the next page.
    cursor_parameter: &'static str,
}

impl RestRequest {
    /// Parses a request, and separates the guard's query parameters in `target` from those of the
    /// API. `own` names parameters that belong to the API although the guard has parameters of the
    /// same names.
    #[must_use]
    pub fn parse(method: &str, target: &str, own: &[String]) -> Self {
        let (path, raw_query) = target.split_once('?').unwrap_or((target, ""));
        let (mut query, mut guard_arguments, mut own_arguments) =
            (Vec::new(), Map::new(), Map::new());
        let is_own = |name: &str| own.iter().any(|own| own == name);
        for pair in raw_query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name), decode(value));
            if let Some(name) = name.strip_prefix(ARGUMENT_PREFIX) {
                guard_arguments.insert(name.to_owned(), argument(name, value));
            } else if is_plain_name(&name) && !is_own(&name) {
                let value = argument(&name, value);
                guard_arguments.insert(name, value);
            } else {
                query.push(pair);
                own_arguments.insert(name, value.into());
            }
        }
        Self {
            endpoint: format!("{method} {path}"),
            path: path.to_owned(),
            query: query.join("&"),
            guard_arguments,
            own_arguments,
            cursor_parameter: if is_own("cursor") { "_guard_cursor" } else { "cursor" },
        }
    }

    /// Returns the name of the endpoint: `GET /path`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the MCP `tools/call` message that represents the request to the guard.
    #[must_use]
    pub fn tool_call(&self) -> Vec<u8> {
        let mut arguments = self.own_arguments.clone();
        arguments.insert("_guard".to_owned(), self.guard_arguments.clone().into());
        let params = json!({"name": self.endpoint, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            .to_string()
            .into_bytes()
    }

    /// Returns the path and query to send to the upstream, without the guard's parameters.
    #[must_use]
    pub fn target(&self) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, self.query)
    }

    /// Converts `answer`, a JSON-RPC message of the guard, to an HTTP response for the client.
    /// `status` is the status of the upstream's response, or 200 if there was none. Errors of the
    /// guard become problem documents with a status of 400 or more.
    #[must_use]
    pub fn response(&self, status: u16, answer: &[u8]) -> HttpResponse {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            return error_response(error);
        }
        let blocks = answer.pointer("/result/content").and_then(Value::as_array);
        let texts: Vec<&str> =
            blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str()).collect();
        if answer.pointer("/result/isError") == Some(&Value::Bool(true)) {
            return refusal(&texts.join(" "));
        }
        let metadata = answer.pointer(RESULT_METADATA);
        let member = |name: &str| metadata?.get(name);
        let content = texts.iter().find(|text| !text.starts_with("[context-guard]"));
        let content = content.copied().unwrap_or_default();
        let body = if serde_json::from_str::<IgnoredAny>(content).is_ok() {
            content.to_owned()
        } else {
            let mut chunk = Map::from_iter([("content".to_owned(), content.into())]);
            for name in CHUNK_METADATA {
                chunk.extend(member(name).map(|value| (name.to_owned(), value.clone())));
            }
            Value::Object(chunk).to_string()
        };
        let mut response = HttpResponse::json(status, body.into_bytes());
        if let Some(loss) = member("loss").and_then(Value::as_str) {
            response.headers.push(("x-context-guard", loss.to_owned()));
        }
        if let Some(cursor) = member("nextCursor").and_then(Value::as_str) {
            let separator = if self.query.is_empty() { "" } else { "&" };
            let link = format!(
                "<{}?{}{separator}{}={cursor}>; rel=\"next\"",
                self.path, self.query, self.cursor_parameter
            );
            response.headers.push(("link", link));
        }
        response
    }
}

/// Returns true if the guard can shape the body of a response. The response must be successful, not
/// partial, textual and not compressed.
#[must_use]
pub fn can_shape(head: &ResponseHead<'_>) -> bool {
    // 206 is a part of a body, so its text is no document.
    (200..300).contains(&head.status)
        && head.status != 206
        && !head.is_encoded
        && header::is_text(head.content_type)
}

/// Returns the body of the upstream's response as a tool result in a JSON-RPC message. `None` if
/// the body is not UTF-8.
#[must_use]
pub fn wrap_body(body: &[u8]) -> Option<Vec<u8>> {
    let text = serde_json::to_string(std::str::from_utf8(body).ok()?).ok()?;
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#
    );
    Some(message.into_bytes())
}

/// Returns the response to a request that the guard refused. The error code in `detail` determines
/// the status.
fn refusal(detail: &str) -> HttpResponse {
    let codes = [
        ("cursor_expired", 410),
        ("cursor_invalid", 400),
        ("cursor_unavailable", 503),
        ("data_changed", 409),
    ];
    let code = codes.into_iter().find(|(code, _)| detail.contains(code));
    let (code, status) = code.unwrap_or(("bad_request", 400));
    problem(status, code, detail)
}

/// Returns the response to a request that the guard answered with a JSON-RPC error. An error of the
/// request (JSON-RPC 2.0, section 5.1) is a refusal, any other error the fault of the guard.
fn error_response(error: &Value) -> HttpResponse {
    let detail = error.get("message").and_then(Value::as_str).unwrap_or_default();
    match error.get("code").and_then(Value::as_i64) {
        Some(-32602..=-32600) => refusal(detail),
        _ => problem(500, "guard_error", detail),
    }
}

/// Returns an error response with a problem document (RFC 9457). `code` identifies the error for
/// programs.
#[must_use]
pub fn problem(status: u16, code: &str, detail: &str) -> HttpResponse {
    let body = json!({
        "type": "about:blank",
        "title": reason_phrase(status),
        "status": status,
        "detail": detail,
        "code": code,
    });
    HttpResponse {
        content_type: "application/problem+json",
        ..HttpResponse::json(status, body.to_string().into_bytes())
    }
}

/// Returns the usual reason phrase of a status code. RFC 9110 has new ones for 413 and 422. Empty
/// for codes that this project does not send.
fn reason_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        410 => "Gone",
        413 => "Payload Too Large",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

/// Converts the value of a query parameter to a JSON value of the guard's argument `name`. The
/// value of a numeric argument becomes a number if possible, any other value a string.
fn argument(name: &str, value: String) -> Value {
    if !NUMERIC_ARGUMENTS.contains(&resolve_alias(name)) {
        return value.into();
    }
    let number = value.parse::<i64>().map(Value::from);
    let number = number.or_else(|_| value.parse::<f64>().map(Value::from));
    // `inf` and `NaN` parse as floating-point numbers, but JSON cannot hold them.
    number.ok().filter(Value::is_number).unwrap_or_else(|| value.into())
}

/// The characters that are encoded in a part of a URL: all except the unreserved ones (RFC 3986,
/// section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes a text as a part of a URL: all except the unreserved characters. O(n).
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes a percent-encoded part of a URL. Invalid UTF-8 is replaced, and a `%` without two
/// hexadecimal digits remains. O(n).
#[must_use]
pub fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn decode(text: &str) -> String {
    percent_decoded(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_parameters_are_removed() {
        let request = RestRequest::parse(
            "GET",
            "/a/b?q=x%20y&limit=5&fields=id%2Cname&_guard_where=a%3D1&z=+&min_score=0.5&pages=inf",
            &[],
        );
        assert_eq!(
            (request.endpoint(), request.target().as_str()),
            ("GET /a/b", "/a/b?q=x%20y&z=+")
        );
        let call: Value = serde_json::from_slice(&request.tool_call()).unwrap();
        let guard = json!({"limit": 5, "fields": "id,name", "where": "a=1", "min_score": 0.5, "pages": "inf"});
        let arguments = json!({"q": "x y", "z": " ", "_guard": guard});
        assert_eq!(call["params"], json!({"name": "GET /a/b", "arguments": arguments}));
        let texts = "/a?filter_ids=007&fields=1e3&_guard_grep=404&_guard_max_results=3";
        assert_eq!(
            Value::from(RestRequest::parse("GET", texts, &[]).guard_arguments),
            json!({"filter_ids": "007", "fields": "1e3", "grep": "404", "max_results": 3})
        );
        let own = ["limit".to_owned(), "cursor".to_owned()];
        let request = RestRequest::parse("GET", "/a?limit=5&_guard_limit=2&cursor=x", &own);
        assert_eq!(request.target(), "/a?limit=5&cursor=x");
        assert_eq!(Value::from(request.guard_arguments), json!({"limit": 2}));
    }

    #[test]
    fn answers_become_responses() {
        let request = RestRequest::parse("GET", "/a?q=1", &[]);
        let answer = |text: &str, is_error: bool, metadata: Value| {
            let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error,
                "_meta": {"dev.context-guard/result": metadata}});
            request.response(203, json!({"id": 1, "result": result}).to_string().as_bytes())
        };
        let page = answer("[1]", false, json!({"loss": "partial", "nextCursor": "c"}));
        assert_eq!((page.status, page.body.as_slice()), (203, b"[1]".as_slice()));
        let link = "</a?q=1&cursor=c>; rel=\"next\"".to_owned();
        assert_eq!(page.headers, [("x-context-guard", "partial".to_owned()), ("link", link)]);
        let chunk = answer("some text", false, json!({"chunkIndex": 1, "nextCursor": "c"}));
        let chunk: Value = serde_json::from_slice(&chunk.body).unwrap();
        assert_eq!(chunk, json!({"content": "some text", "chunkIndex": 1, "nextCursor": "c"}));
        for (text, status, code) in [
            ("cursor_expired: x", 410, "cursor_expired"),
            ("cursor_unavailable: x", 503, "cursor_unavailable"),
            ("cursor_invalid: x", 400, "cursor_invalid"),
            ("data_changed: x", 409, "data_changed"),
            ("limit exceeds maximum", 400, "bad_request"),
        ] {
            let refused = answer(text, true, Value::Null);
            let problem: Value = serde_json::from_slice(&refused.body).unwrap();
            assert_eq!((refused.status, &problem["code"]), (status, &json!(code)));
            assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()));
        }
        for (code, status, name) in [(-32602, 400, "bad_request"), (-32603, 500, "guard_error")] {
            let error = json!({"id": 1, "error": {"code": code, "message": "not possible"}});
            let failed = request.response(200, error.to_string().as_bytes());
            let problem: Value = serde_json::from_slice(&failed.body).unwrap();
            assert_eq!((failed.status, &problem["code"]), (status, &json!(name)));
            assert_eq!(problem["detail"], "not possible");
        }
        // The endpoint's own `cursor` would otherwise receive the guard's.
        let own = RestRequest::parse("GET", "/a", &["cursor".to_owned()]);
        let result = json!({"_meta": {"dev.context-guard/result": {"nextCursor": "c"}}});
        let page = own.response(200, json!({"result": result}).to_string().as_bytes());
        assert_eq!(page.headers, [("link", "</a?_guard_cursor=c>; rel=\"next\"".to_owned())]);
    }

    #[test]
    fn only_whole_texts_are_shaped() {
        let head = |status, content_type, is_encoded| ResponseHead {
            status,
            content_type,
            is_encoded,
            content_length: None,
        };
        assert!(can_shape(&head(200, "application/json", false)));
        assert!(can_shape(&head(203, "Text/CSV", false)));
        for other in [
            head(206, "application/json", false),
            head(404, "application/json", false),
            head(200, "application/json", true),
            head(200, "image/png", false),
            head(200, "text/event-stream", false),
        ] {
            assert!(!can_shape(&other), "{other:?}");
        }
    }
}
