//! A JSON-RPC message, as far as a gateway looks into it. The rest is passed over, and spans are edited in the bytes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The first stateless revision.
pub(crate) const MODERN: &str = "2026-07-28";
/// The `_meta` member that names the revision of a stateless request.
pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` member with the capabilities of the client.
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` member with the name of the client.
pub(crate) const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
/// The `_meta` member with the level of log messages that a client wants.
pub(crate) const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// The `_meta` member that ties a notification to its subscription.
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// The `_meta` member that names the server.
pub(crate) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The head of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Head<'a> {
    /// As it is spelt.
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    /// Requests and notifications have one.
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    /// As it is spelt.
    #[serde(borrow, default, deserialize_with = "spelt")]
    pub(crate) result: Option<&'a str>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has a method and an id.
    Request,
    /// It has a method.
    Notification,
    /// It has an id.
    Response,
}

impl<'a> Head<'a> {
    /// The head of a message; none where it is no JSON object. O(n); of long responses, all is looked at for its UTF-8, and only both ends are read.
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        Self::by_ends(message).or_else(|| serde_json::from_slice(message).ok())
    }

    /// The head of a long response, by what stands round its result; none where that is not an object, with nothing but version and id beside it. What the result holds is
    /// for others to judge.
    pub(crate) fn by_ends(message: &'a [u8]) -> Option<Self> {
        const LONG: usize = 4_096;
        if message.len() < LONG {
            return None;
        }
        let text = std::str::from_utf8(message).ok()?;
        let mut result = text.trim_ascii().strip_prefix('{')?.strip_suffix('}')?;
        let mut id = None;
        // What stands before the result.
        loop {
            result = result.trim_ascii_start();
            if let Some(value) = value_of(result, "result") {
                result = value;
                break;
            }
            let comma = result.get(..result.floor_char_boundary(NEAR))?.find(',')?;
            beside(result.get(..comma)?, &mut id)?;
            result = result.get(comma + 1..)?;
        }
        // What stands after it.
        loop {
            result = result.trim_ascii_end();
            if result.ends_with('}') {
                break;
            }
            let near = result.floor_char_boundary(result.len().checked_sub(NEAR)?);
            let comma = near + result.get(near..)?.rfind(',')?;
            beside(result.get(comma + 1..)?, &mut id)?;
            result = result.get(..comma)?;
        }
        let (id, result) = (Some(id?), Some(result).filter(|result| result.starts_with('{')));
        result.is_some().then_some(Self { id, method: None, params: None, result, error: None })
    }

    /// None where it is nothing that JSON-RPC knows.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let has_id = self.id.is_some_and(|id| id.get() != "null");
        match (&self.method, has_id) {
            (Some(_), true) => Some(Kind::Request),
            (Some(_), false) => Some(Kind::Notification),
            (None, true) => Some(Kind::Response),
            (None, false) => self.error.is_some().then_some(Kind::Response),
        }
    }

    /// The method, or nothing.
    pub(crate) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// The members of `params` that requests are routed by.
    pub(crate) fn parameters(&self) -> Parameters<'a> {
        self.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }

    /// What a stateless request is about, as the header Mcp-Name has it: a tool, prompt, resource or task.
    pub(crate) fn subject(&self) -> Option<Cow<'a, str>> {
        let parameters = self.parameters();
        match self.method() {
            "tools/call" | "prompts/get" => parameters.name,
            "resources/read" => parameters.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => parameters.task_id,
            _ => None,
        }
    }

    /// The id as it is spelt, or null.
    pub(crate) fn raw_id(&self) -> &'a str {
        self.id.map_or("null", RawValue::get)
    }
}

/// Bytes within which a member beside the result stands.
const NEAR: usize = 96;

/// The value of a member that begins here, and all that follows; none where it has another name.
fn value_of<'a>(member: &'a str, name: &str) -> Option<&'a str> {
    let rest =
        member.trim_ascii_start().strip_prefix('"')?.strip_prefix(name)?.strip_prefix('"')?;
    Some(rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start())
}

/// Reads a member that may stand beside a result: the version, or the id.
fn beside<'a>(member: &'a str, id: &mut Option<&'a RawValue>) -> Option<()> {
    if value_of(member, "jsonrpc").is_some_and(|version| version.trim_ascii_end() == "\"2.0\"") {
        return Some(());
    }
    let value = value_of(member, "id").filter(|value| !value.starts_with(['{', '[']))?;
    *id = Some(serde_json::from_str(value).ok()?);
    Some(())
}

fn spelt<'de: 'a, 'a, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'a str>, D::Error> {
    Ok(Option::<&RawValue>::deserialize(from)?.map(RawValue::get))
}

/// Members of `params`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Parameters<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) task_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) cursor: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

impl Parameters<'_> {
    /// A member of `_meta`.
    pub(crate) fn meta(&self, name: &str) -> Option<serde_json::Value> {
        let meta: serde_json::Value = serde_json::from_str(self.meta?.get()).ok()?;
        meta.get(name).cloned()
    }

    /// The revision that a stateless request names.
    pub(crate) fn version(&self) -> Option<String> {
        self.meta(VERSION_KEY)?.as_str().map(str::to_owned)
    }
}

/// Whether a revision is stateless. Revisions are dates: their order is that of text.
pub(crate) fn is_modern(version: &str) -> bool {
    version >= MODERN
}

/// The messages of a batch, or the one there is.
pub(crate) fn each(body: &[u8]) -> Vec<&[u8]> {
    if body.trim_ascii_start().first() == Some(&b'[')
        && let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(body)
    {
        return messages.into_iter().map(|message| message.get().as_bytes()).collect();
    }
    vec![body]
}

/// A message that is text: what of it is no UTF-8 becomes U+FFFD, so that one bad byte in an answer does not lose the answer.
pub(crate) fn as_text(message: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(message) {
        Cow::Borrowed(_) => Cow::Borrowed(message),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// A message with another part in the place of one. The part must lie in the message.
pub(crate) fn splice(message: &[u8], part: &str, by: &str) -> Vec<u8> {
    let start = (part.as_ptr() as usize).saturating_sub(message.as_ptr() as usize);
    let (Some(before), Some(after)) = (message.get(..start), message.get(start + part.len()..))
    else {
        return message.to_vec();
    };
    [before, by.as_bytes(), after].concat()
}

/// A message under another id.
pub(crate) fn with_id(message: &[u8], id: &str) -> Vec<u8> {
    match Head::read(message).and_then(|head| head.id) {
        Some(old) => splice(message, old.get(), id),
        None => message.to_vec(),
    }
}

/// An object with more members at its end: `members` is `"name":value`, joined by commas.
pub(crate) fn append(object: &str, members: &str) -> String {
    let body = object.trim().strip_suffix('}').unwrap_or(object).trim_end();
    let comma = if members.is_empty() || body.ends_with('{') { "" } else { "," };
    format!("{body}{comma}{members}}}")
}

/// The members of an object in their order, values as they are spelt.
pub(crate) fn members(object: &str) -> Vec<(String, &RawValue)> {
    struct Members<'a>(Vec<(String, &'a RawValue)>);
    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Vec<(String, &'de RawValue)>;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Self::Value, A::Error> {
                    let mut members = Vec::new();
                    while let Some(member) = map.next_entry()? {
                        members.push(member);
                    }
                    Ok(members)
                }
            }
            deserializer.deserialize_map(Visitor).map(Members)
        }
    }
    serde_json::from_str::<Members<'_>>(object).map(|members| members.0).unwrap_or_default()
}

/// A member of an object, as it is spelt.
pub(crate) fn member<'a>(object: &'a str, name: &str) -> Option<&'a RawValue> {
    // Where no letter is spelt in digits, and the name stands nowhere, nothing has to be read.
    let holds = |text: &str| memchr::memmem::find(object.as_bytes(), text.as_bytes()).is_some();
    if !holds(name) && !holds("\\u") {
        return None;
    }
    members(object).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// An object of these members.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// An object with a member set, added or (by none) removed; the others stay as they are spelt, in their order.
pub(crate) fn with_member(json: &str, name: &str, value: Option<&str>) -> String {
    let mut found = false;
    let mut kept: Vec<(String, &str)> = Vec::new();
    for (key, old) in members(json) {
        if key != name {
            kept.push((key, old.get()));
        } else if let Some(value) = value.filter(|_| !found) {
            found = true;
            kept.push((key, value));
        }
    }
    if let Some(value) = value.filter(|_| !found) {
        kept.push((name.to_owned(), value));
    }
    object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_responses_are_told_by_their_ends() {
        let long = "é,\\\"id\\\":9}".repeat(500);
        let result =
            format!(r#"{{"structuredContent":{{"id":8,"jsonrpc":"2.0"}},"text":"{long}","id":7}}"#);
        for message in [
            format!(r#"{{"result":{result},"jsonrpc":"2.0","id":3}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":3,"result":{result}}}"#),
            format!(r#" {{ "id" : 3 , "result" : {result} , "jsonrpc" : "2.0" }} "#),
        ] {
            let head = Head::by_ends(message.as_bytes()).unwrap();
            assert_eq!((head.kind(), head.raw_id()), (Some(Kind::Response), "3"), "{message:.80}");
            assert_eq!(head.result, Some(result.as_str()));
            let read: Head<'_> = serde_json::from_str(&message).unwrap();
            assert_eq!((head.raw_id(), head.result), (read.raw_id(), read.result));
            assert!(with_id(message.as_bytes(), "44").len() == message.len() + 1);
        }
        for other in [
            format!(r#"{{"jsonrpc":"2.0","method":"x","params":{result}}}"#),
            format!(r#"{{"id":"a,b","result":{result}}}"#),
            format!(r#"{{"result":{result},"id":"a,b"}}"#),
            format!(r#"{{"result":{result}}}"#),
            format!(r#"{{"id":1,"result":"{long}"}}"#),
            format!(r#"{{"id":1,"error":{result}}}"#),
            format!("[{result}]"),
            long,
        ] {
            assert!(Head::by_ends(other.as_bytes()).is_none(), "{other:.80}");
        }
    }

    #[test]
    fn heads_are_told_apart_and_ids_exchanged_in_place() {
        let message = br#"{"result":{"id":5,"n":1.50},"id": "a\u0062" ,"jsonrpc":"2.0"}"#;
        let head = Head::read(message).unwrap();
        assert_eq!(head.kind(), Some(Kind::Response));
        assert_eq!(
            with_id(message, "7"),
            br#"{"result":{"id":5,"n":1.50},"id": 7 ,"jsonrpc":"2.0"}"#
        );
        let call = br#"{"id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let head = Head::read(call).unwrap();
        assert_eq!(head.kind(), Some(Kind::Request));
        assert_eq!(head.parameters().version().as_deref(), Some(MODERN));
        assert_eq!(Head::read(br#"{"method":"x"}"#).unwrap().kind(), Some(Kind::Notification));
        assert!(Head::read(b"no").is_none());
    }

    #[test]
    fn members_are_set_added_and_removed_and_the_rest_keeps_its_spelling() {
        let object = r#"{"b": 1.0, "a":{"x":[1, 2]} }"#;
        assert_eq!(with_member(object, "b", Some("2")), r#"{"b":2,"a":{"x":[1, 2]}}"#);
        assert_eq!(with_member(object, "c", Some("2")), r#"{"b":1.0,"a":{"x":[1, 2]},"c":2}"#);
        assert_eq!(with_member(object, "a", None), r#"{"b":1.0}"#);
        assert_eq!(append("{ }", r#""a":1"#), r#"{"a":1}"#);
        assert_eq!(append(r#"{"b":1} "#, r#""a":1"#), r#"{"b":1,"a":1}"#);
    }
}
