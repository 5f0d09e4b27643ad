//! Headers of stateless requests: they must say what the body says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use super::{METHOD, NAME, PROTOCOL_VERSION};
use crate::gateway::wire::message::{Head, Kind, is_modern};

/// What does not fit, if anything.
pub(crate) fn mismatch(headers: &HeaderMap, head: &Head<'_>) -> Option<String> {
    let parameters = head.parameters();
    let version = parameters.version()?;
    if !is_modern(&version) || head.kind() != Some(Kind::Request) {
        return None;
    }
    let header = |name: &http::HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    };
    let name = match head.method() {
        "tools/call" | "prompts/get" => parameters.name.as_deref(),
        "resources/read" => parameters.uri.as_deref(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => parameters.task_id.as_deref(),
        _ => None,
    };
    let wanted =
        [(PROTOCOL_VERSION, Some(version.as_str())), (METHOD, Some(head.method())), (NAME, name)];
    for (header_name, body) in wanted {
        let Some(body) = body else { continue };
        match header(&header_name) {
            None => {
                return Some(format!(
                    "the header {header_name} is missing; the body says `{body}`"
                ));
            }
            Some(value) if decoded(value).as_deref() != Some(body) => {
                return Some(format!("the header {header_name} says `{value}`, the body `{body}`"));
            }
            Some(_) => {}
        }
    }
    None
}

/// A header value as it is meant: `=?base64?…?=` stands for what cannot be written plainly.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_must_say_what_the_body_says() {
        let body = r#"{"id":1,"method":"tools/call","params":{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let head = Head::read(body.as_bytes()).unwrap();
        let headers = |name: &str, method: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(PROTOCOL_VERSION, "2026-07-28".parse().unwrap());
            headers.insert(METHOD, method.parse().unwrap());
            headers.insert(NAME, name.parse().unwrap());
            headers
        };
        assert_eq!(mismatch(&headers("=?base64?Z3LDtsOfZQ==?=", "tools/call"), &head), None);
        assert!(mismatch(&headers("=?base64?!!?=", "tools/call"), &head).is_some());
        assert!(mismatch(&headers("other", "tools/call"), &head).unwrap().contains("mcp-name"));
        assert!(mismatch(&headers("=?base64?Z3LDtsOfZQ==?=", "TOOLS/CALL"), &head).is_some());
        assert!(mismatch(&HeaderMap::new(), &head).is_some());
        let legacy =
            Head::read(br#"{"id":1,"method":"tools/call","params":{"name":"x"}}"#).unwrap();
        assert_eq!(mismatch(&HeaderMap::new(), &legacy), None);
    }
}
