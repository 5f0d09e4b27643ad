//! The head of a JSON-RPC message: the members that are needed for routing. Other members are not
//! parsed.

use std::borrow::Cow;

use context_guard_json::scan::Scanner;
use context_guard_json::text::Form;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::cut_name;
use crate::header;
use crate::id::RequestId;
use crate::non_finite;

/// The first MCP revision that is stateless, without sessions.
pub const STATELESS_VERSION: &str = "2026-07-28";
/// The `_meta` member that names the revision of a stateless request.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` member with the capabilities of the client.
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` member with the name of the client.
pub const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
/// The `_meta` member with the minimum level of the log messages that the client requests.
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// The `_meta` member with the id of the subscription to which a notification belongs.
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// The `_meta` member that names the server.
pub const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Minimum size, in bytes, of a message that [`Head::read_ends`] accepts.
const MIN_END_SCAN_BYTES: usize = 4_096;
/// Maximum size, in bytes, of a member other than the result that [`Head::read_ends`] accepts.
const MAX_END_MEMBER_BYTES: usize = 96;

/// Returns true if a protocol revision is stateless. Revisions are dates in a form that sorts as
/// text.
#[must_use]
pub fn is_stateless_version(version: &str) -> bool {
    version >= STATELESS_VERSION
}

/// The kind of a JSON-RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message with a method and an id.
    Request,
    /// A message with a method and without an id.
    Notification,
    /// A message with an id or an error, and without a method. A message with a method, an id, and
    /// a result or error is a response, too: some servers repeat the method.
    Response,
}

/// The id and the method of a JSON-RPC message. Unlike [`Head`], it accepts invalid UTF-8 in other
/// members, which the guard validates.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    /// The method of a request or notification.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
}

impl<'a> Envelope<'a> {
    /// Reads the id and the method of a message. Returns `None` if the message is not a JSON
    /// object, or its method not a string. Accepts numbers such as `NaN`. O(n).
    #[must_use]
    pub fn read(message: &'a [u8]) -> Option<Self> {
        if !is_object(message) {
            return None;
        }
        match Head::read_ends(message) {
            Some(head) => Some(Self { id: head.id, method: None }),
            None => serde_json::from_slice(message).ok().or_else(|| Self::read_non_finite(message)),
        }
    }

    /// Reads the id and the method of a message with numbers such as `NaN`. Returns `None` for
    /// other invalid messages.
    fn read_non_finite(message: &'a [u8]) -> Option<Self> {
        let valid = non_finite::replaced(message)?;
        let envelope: Envelope<'_> = serde_json::from_slice(&valid).ok()?;
        let id = envelope.id.and_then(|id| non_finite::verbatim(message, &valid, id.get()));
        Some(Self {
            id: id.and_then(|id| serde_json::from_str(id).ok()),
            method: envelope.method.map(|method| Cow::Owned(method.into_owned())),
        })
    }

    /// Returns the id of the message. `None` if it is absent or null.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        RequestId::parse(self.id?.get())
    }
}

/// The members of a JSON-RPC message that a gateway needs for routing. All values except the method
/// are verbatim JSON.
#[derive(Debug, Deserialize)]
pub struct Head<'a> {
    /// The id of a request or response.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// The method of a request or notification.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    /// The parameters of a request or notification.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    /// The result of a response.
    #[serde(borrow, default, deserialize_with = "raw_text")]
    pub result: Option<&'a str>,
    /// The error of a response.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    /// Reads the members of a message. Returns `None` if the message is not a JSON object, or its
    /// method not a string. O(n), but only checks that a long result is UTF-8.
    #[must_use]
    pub fn read(message: &'a [u8]) -> Option<Self> {
        if !is_object(message) {
            return None;
        }
        Self::read_ends(message)
            .or_else(|| serde_json::from_slice(message).ok())
            .or_else(|| Self::read_non_finite(message))
    }

    /// Reads the members of a message with numbers such as `NaN`, which the guard also accepts.
    /// Returns `None` for other invalid messages.
    fn read_non_finite(message: &'a [u8]) -> Option<Self> {
        let valid = non_finite::replaced(message)?;
        let head: Head<'_> = serde_json::from_slice(&valid).ok()?;
        let verbatim = |text: &str| non_finite::verbatim(message, &valid, text);
        let raw = |value: &RawValue| serde_json::from_str(verbatim(value.get())?).ok();
        Some(Self {
            id: head.id.and_then(raw),
            method: head.method.map(|method| Cow::Owned(method.into_owned())),
            params: head.params.and_then(raw),
            result: head.result.and_then(verbatim),
            error: head.error.and_then(raw),
        })
    }

    /// Reads the members of a long response from its two ends, without parsing the result in
    /// between: only its brackets and quotes are read. Returns `None` for a short message. Also
    /// returns `None` unless the result has the form of one object, and `jsonrpc` and `id` are the
    /// only other members. O(n).
    #[must_use]
    pub fn read_ends(message: &'a [u8]) -> Option<Self> {
        Self::scan_ends(message).map(|(head, _)| head)
    }

    /// Reads a long response as [`Self::read_ends`] does. Also returns true if the response has the
    /// member `jsonrpc`.
    pub(crate) fn scan_ends(message: &'a [u8]) -> Option<(Self, bool)> {
        if message.len() < MIN_END_SCAN_BYTES {
            return None;
        }
        let text = std::str::from_utf8(message).ok()?;
        let mut result = text.trim_ascii().strip_prefix('{')?.strip_suffix('}')?;
        let (mut id, mut has_version) = (None, false);
        // Members before the result. A comma inside a string id ends the scan: the part before it
        // is no valid member.
        loop {
            result = result.trim_ascii_start();
            if let Some(value) = value_of(result, "result") {
                result = value;
                break;
            }
            let near = result.get(..result.floor_char_boundary(MAX_END_MEMBER_BYTES))?;
            let comma = near.find(',')?;
            has_version |= read_side_member(result.get(..comma)?, &mut id)?;
            result = result.get(comma + 1..)?;
        }
        // Members after the result, from the last to the first. The result ends where a brace does:
        // the members beside it are no objects.
        loop {
            result = result.trim_ascii_end();
            if result.ends_with('}') {
                break;
            }
            let window = result.len().checked_sub(MAX_END_MEMBER_BYTES)?;
            let near = result.floor_char_boundary(window);
            let comma = near + result.get(near..)?.rfind(',')?;
            has_version |= read_side_member(result.get(comma + 1..)?, &mut id)?;
            result = result.get(..comma)?;
        }
        let (id, result) = (Some(id?), Some(result).filter(|result| is_one_object(result)));
        result?;
        Some((Self { id, method: None, params: None, result, error: None }, has_version))
    }

    /// Returns the kind of the message. `None` if the message has no method, no id and no error.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        let has_id = self.id.is_some_and(|id| id.get() != "null");
        match (&self.method, has_id) {
            (Some(_), true) if self.result.is_some() || self.error.is_some() => {
                Some(Kind::Response)
            }
            (Some(_), true) => Some(Kind::Request),
            (Some(_), false) => Some(Kind::Notification),
            (None, true) => Some(Kind::Response),
            // A server that could not read the request's id answers with an error under `null`.
            (None, false) => self.error.is_some().then_some(Kind::Response),
        }
    }

    /// Returns the verbatim JSON of the id, or `null` if the id is absent.
    #[must_use]
    pub fn raw_id(&self) -> &'a str {
        self.id.map_or("null", RawValue::get)
    }

    /// Returns the id in a form that compares by value. `None` if the id is absent or null.
    #[must_use]
    pub fn request_id(&self) -> Option<RequestId> {
        RequestId::parse(self.id?.get())
    }

    /// Returns the method of a request or notification, or an empty string.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// Returns the members of `params` that are needed for routing. A member is `None` if it is
    /// absent or of another type. All are `None` if `params` is no object or repeats one of these
    /// members.
    #[must_use]
    pub fn parameters(&self) -> Parameters<'a> {
        let params = self.params.filter(|params| is_object(params.get().as_bytes()));
        params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }

    /// Returns true if the request names a stateless revision.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        self.parameters().version().is_some_and(|version| is_stateless_version(&version))
    }

    /// Returns the value of the request's `Mcp-Name` header: the name, URI or id of its tool,
    /// prompt, resource or task. `None` for other methods.
    #[must_use]
    pub fn subject(&self) -> Option<Cow<'a, str>> {
        let parameters = self.parameters();
        match self.method() {
            "tools/call" | "prompts/get" => parameters.name,
            "resources/read" => parameters.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => parameters.task_id,
            _ => None,
        }
    }

    /// Returns the headers that repeat parts of a stateless request, `Mcp-Method` and `Mcp-Name`,
    /// with their values. `None` for a header that the request must not have.
    #[must_use]
    pub fn routing_headers(&self) -> [(&'static str, Option<String>); 2] {
        let encoded = |value: &str| header::encode_value(value).into_owned();
        let name = self.subject().map(|name| encoded(&name));
        [(header::MCP_METHOD, Some(encoded(self.method()))), (header::MCP_NAME, name)]
    }
}

/// Returns true if a JSON text can only be an object. The check is needed because Serde also reads
/// the members of a struct from an array, by their position.
fn is_object(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'{')
}

/// Returns true if a text has the form of exactly one JSON object, by its brackets and quotes. Text
/// such as `{},"error":{}` is a part of an object with more members. O(n).
fn is_one_object(text: &str) -> bool {
    let end = Scanner::new(text.as_bytes(), Form::Raw).skip_unchecked();
    text.starts_with('{') && end.is_ok_and(|span| span.end == text.len())
}

/// Returns the text after `"name":` in `member`, where `name` is the parameter. `None` if `member`
/// does not begin with that.
fn value_of<'a>(member: &'a str, name: &str) -> Option<&'a str> {
    let rest =
        member.trim_ascii_start().strip_prefix('"')?.strip_prefix(name)?.strip_prefix('"')?;
    Some(rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start())
}

/// Reads `member`, the JSON text of a member other than the result. Returns true for `jsonrpc`,
/// false for the id, which it writes to `id`, and `None` for any other member.
fn read_side_member<'a>(member: &'a str, id: &mut Option<&'a RawValue>) -> Option<bool> {
    if value_of(member, "jsonrpc").is_some_and(|version| version.trim_ascii_end() == "\"2.0\"") {
        return Some(true);
    }
    let value = value_of(member, "id").filter(|value| !value.starts_with(['{', '[']))?;
    *id = Some(serde_json::from_str(value).ok()?);
    Some(false)
}

fn raw_text<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<&'a str>, D::Error> {
    Ok(Option::<&RawValue>::deserialize(from)?.map(RawValue::get))
}

/// Reads a string. Values of another type become `None`.
fn text_or_none<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'t>(#[serde(borrow)] Cow<'t, str>);
    let value = <&RawValue>::deserialize(from)?;
    Ok(serde_json::from_str(value.get()).ok().map(|Text(text)| text))
}

/// The members of `params` that are needed for routing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameters<'a> {
    /// The name of a tool or prompt.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub name: Option<Cow<'a, str>>,
    /// The URI of a resource.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub uri: Option<Cow<'a, str>>,
    /// The id of a task.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// The cursor of a list request.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub cursor: Option<Cow<'a, str>>,
    /// The id of the request that a cancellation refers to.
    #[serde(borrow, default)]
    pub request_id: Option<&'a RawValue>,
    /// The token of the request to which a progress notification belongs.
    #[serde(borrow, default)]
    pub progress_token: Option<&'a RawValue>,
    /// The `_meta` object.
    #[serde(borrow, default, rename = "_meta")]
    pub meta: Option<&'a RawValue>,
}

impl Parameters<'_> {
    /// Returns the member `name` of `_meta`. `None` if it is absent.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<serde_json::Value> {
        let meta: serde_json::Value = serde_json::from_str(self.meta?.get()).ok()?;
        meta.get(name).cloned()
    }

    /// Returns the name in the `clientInfo` that a stateless request has in `_meta`. `None` for
    /// other messages.
    #[must_use]
    pub fn client_name(&self) -> Option<String> {
        cut_name(self.meta(CLIENT_KEY)?.get("name")?.as_str()?)
    }

    /// Returns the MCP revision that a stateless request names in `_meta`. `None` for other
    /// messages.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        self.meta(VERSION_KEY)?.as_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_response_is_read_from_its_ends() {
        let long = "é,\\\"id\\\":9}".repeat(500);
        let result =
            format!(r#"{{"structuredContent":{{"id":8,"jsonrpc":"2.0"}},"text":"{long}","id":7}}"#);
        for message in [
            format!(r#"{{"result":{result},"jsonrpc":"2.0","id":3}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":3,"result":{result}}}"#),
            format!(r#" {{ "id" : 3 , "result" : {result} , "jsonrpc" : "2.0" }} "#),
        ] {
            let head = Head::read_ends(message.as_bytes()).unwrap();
            assert_eq!((head.kind(), head.raw_id()), (Some(Kind::Response), "3"), "{message:.80}");
            assert_eq!(head.result, Some(result.as_str()));
            let read: Head<'_> = serde_json::from_str(&message).unwrap();
            assert_eq!((head.raw_id(), head.result), (read.raw_id(), read.result));
        }
        for other in [
            format!(r#"{{"jsonrpc":"2.0","method":"x","params":{result}}}"#),
            format!(r#"{{"id":"a,b","result":{result}}}"#),
            format!(r#"{{"result":{result},"id":"a,b"}}"#),
            format!(r#"{{"result":{result}}}"#),
            format!(r#"{{"id":1,"result":"{long}"}}"#),
            format!(r#"{{"id":1,"error":{result}}}"#),
            format!(r#"{{"id":1,"result":{result},"error":{{"code":1,"message":"x"}}}}"#),
            format!(r#"{{"id":1,"result":{result},"x":{{}},"jsonrpc":"2.0"}}"#),
            format!("[{result}]"),
            long,
        ] {
            assert!(Head::read_ends(other.as_bytes()).is_none(), "{other:.80}");
        }
    }

    #[test]
    fn array_is_no_message() {
        let message = br#" [1,"tools/call",{"name":"x"}]"#;
        assert!(Head::read(message).is_none() && Envelope::read(message).is_none());
        let head = Head::read(br#"{"id":1,"method":"tools/call","params":["x","y:"]}"#).unwrap();
        assert!(head.parameters().name.is_none() && head.subject().is_none());
    }

    #[test]
    fn non_finite_numbers_are_read() {
        let message = br#"{"jsonrpc":"2.0","id":"x","result":{"structuredContent":{"a":NaN}}}"#;
        let head = Head::read(message).unwrap();
        assert_eq!((head.kind(), head.raw_id()), (Some(Kind::Response), "\"x\""));
        assert_eq!(head.result, Some(r#"{"structuredContent":{"a":NaN}}"#));
        let envelope = Envelope::read(message).unwrap();
        assert_eq!((envelope.id(), envelope.method), (RequestId::parse("\"x\""), None));
        for invalid in [br#"{"id":1,"result":[nan]}"#.as_slice(), br#"{"id":1,"x":[NaN}"#] {
            assert!(Head::read(invalid).is_none() && Envelope::read(invalid).is_none());
        }
    }

    #[test]
    fn kinds_and_parameters_are_read() {
        let kind = |message: &str| Head::read(message.as_bytes()).and_then(|head| head.kind());
        assert_eq!(kind(r#"{"result":{"id":5},"id": "ab"}"#), Some(Kind::Response));
        assert_eq!(kind(r#"{"method":"x"}"#), Some(Kind::Notification));
        assert_eq!(kind(r#"{"error":{},"id":null}"#), Some(Kind::Response));
        assert_eq!((kind("{}"), kind("no"), kind(r#"{"id":null}"#)), (None, None, None));
        let call = br#"{"id":1,"method":"tools/call","params":{"name":"x","uri":"y","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let head = Head::read(call).unwrap();
        assert_eq!((head.kind(), head.is_stateless()), (Some(Kind::Request), true));
        assert_eq!(head.subject().as_deref(), Some("x"));
        let odd = br#"{"method":"x","params":{"name":"\u0061","uri":7,"taskId":{"a":1},"cursor":null,"requestId":2}}"#;
        let parameters = Head::read(odd).unwrap().parameters();
        assert_eq!(parameters.name.as_deref(), Some("a"));
        assert_eq!(parameters.request_id.map(RawValue::get), Some("2"));
        assert!(parameters.uri.or(parameters.task_id).or(parameters.cursor).is_none());
    }

    #[test]
    fn envelope_accepts_invalid_utf8() {
        let id = |message: &[u8]| Envelope::read(message).and_then(|envelope| envelope.id());
        assert_eq!(id(br#"{"result":{"id":9},"id": 7 }"#), RequestId::parse("7"));
        assert_eq!(id(b"{\"id\":1,\"result\":\"\xff\"}"), RequestId::parse("1"));
        assert_eq!((id(br#"{"id":null}"#), id(b"log line")), (None, None));
    }
}
