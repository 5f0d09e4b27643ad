//! Translates requests and results between the protocol modes of client and upstream. Members that
//! need no translation remain verbatim.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{
    CAPABILITIES_KEY, CLIENT_KEY, Head, LOG_LEVEL_KEY, SERVER_KEY, VERSION_KEY, append_members,
    member, members, object, splice, with_member,
};
use crate::protocol_mode::{ClientInfo, ProtocolMode};

/// Returns a client's request in the upstream's protocol mode. `log_level` is the level that a
/// stateful client has set with `logging/setLevel`.
pub(super) fn request(
    client: ProtocolMode,
    upstream: ProtocolMode,
    message: Vec<u8>,
    client_info: &ClientInfo,
    log_level: Option<&str>,
) -> Vec<u8> {
    match (client, upstream) {
        (ProtocolMode::Stateless, ProtocolMode::Stateful) => without_meta(message),
        (ProtocolMode::Stateful, ProtocolMode::Stateless) => {
            with_meta(message, client_info, log_level)
        }
        _ => message,
    }
}

fn without_meta(message: Vec<u8>) -> Vec<u8> {
    let edited = Head::read(&message).and_then(|head| {
        let meta = head.parameters().meta?;
        let kept = members(meta.get())
            .into_iter()
            .filter(|(name, _)| {
                ![VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY].contains(&name.as_str())
            })
            .map(|(name, value)| (name, value.get()));
        Some(splice(&message, meta.get(), &object(kept)))
    });
    edited.unwrap_or(message)
}

fn with_meta(message: Vec<u8>, client_info: &ClientInfo, log_level: Option<&str>) -> Vec<u8> {
    let level = log_level.map(|level| format!(r#","{LOG_LEVEL_KEY}":{}"#, Value::from(level)));
    let added = client_info.meta() + &level.unwrap_or_default();
    let Some(head) = Head::read(&message) else { return message };
    let params = head.params.map_or("{}", RawValue::get);
    let meta = head.parameters().meta.map_or("{}", RawValue::get);
    let params = with_member(params, "_meta", Some(&append_members(meta, &added)));
    match head.params {
        Some(old) => splice(&message, old.get(), &params),
        None => {
            let text = String::from_utf8_lossy(&message);
            append_members(&text, &format!(r#""params":{params}"#)).into_bytes()
        }
    }
}

/// Returns the upstream's response to a request of `method` in the client's protocol mode.
pub(super) fn response(
    client: ProtocolMode,
    upstream: ProtocolMode,
    method: &str,
    message: Vec<u8>,
) -> Vec<u8> {
    match (client, upstream) {
        (ProtocolMode::Stateless, ProtocolMode::Stateful) => to_stateless(method, message),
        (ProtocolMode::Stateful, ProtocolMode::Stateless) => to_stateful(method, message),
        _ => message,
    }
}

/// The levels of log messages, from the least to the most severe.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Returns true if a notification should be sent to the client that sent `request`. A stateless
/// client receives only log messages of at least the level in its request, and none without a
/// level.
pub(super) fn is_wanted(client: ProtocolMode, request: &[u8], notification: &Head<'_>) -> bool {
    if client == ProtocolMode::Stateful || notification.method() != "notifications/message" {
        return true;
    }
    let rank = |level: &Value| LEVELS.iter().position(|known| level == known);
    let asked = Head::read(request).and_then(|head| head.parameters().meta(LOG_LEVEL_KEY));
    let level = notification.params.and_then(|params| member(params.get(), "level"));
    let level = level.and_then(|level| serde_json::from_str::<Value>(level.get()).ok());
    match (asked.as_ref().and_then(rank), level.as_ref().and_then(rank)) {
        (Some(asked), Some(level)) => level >= asked,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// Returns true if a stateless result of this method must state its cache lifetime.
fn is_cacheable(method: &str) -> bool {
    method.ends_with("/list") || matches!(method, "resources/read" | "server/discover")
}

fn to_stateless(method: &str, message: Vec<u8>) -> Vec<u8> {
    let Some(head) = Head::read(&message) else { return message };
    if let Some(error) = head.error {
        // Stateless versions report a missing resource as an invalid parameter.
        let code = serde_json::from_str::<Value>(error.get()).ok();
        let code = code.as_ref().and_then(|error| error.get("code")?.as_i64());
        return if code == Some(-32002) {
            splice(&message, error.get(), &with_member(error.get(), "code", Some("-32602")))
        } else {
            message
        };
    }
    let Some(result) = head.result else { return message };
    splice(&message, result, &stateless_result(method, result))
}

/// Returns `result`, the result of `method`, with the members that stateless mode requires in every
/// result.
pub(super) fn stateless_result(method: &str, result: &str) -> String {
    let has = members(result);
    let lacks = |name: &str| !has.iter().any(|(key, _)| key == name);
    let mut added = Vec::new();
    if lacks("resultType") {
        added.push(r#""resultType":"complete""#);
    }
    if is_cacheable(method) {
        if lacks("ttlMs") {
            added.push(r#""ttlMs":0"#);
        }
        if lacks("cacheScope") {
            added.push(r#""cacheScope":"private""#);
        }
    }
    if added.is_empty() { result.to_owned() } else { append_members(result, &added.join(",")) }
}

/// The members of results that only stateless versions define.
const STATELESS_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// Returns a response without the parts that stateful versions do not define. Also removes output
/// schemas and structured content that are not objects, because stateful clients reject them.
fn to_stateful(method: &str, message: Vec<u8>) -> Vec<u8> {
    let message = without_stateless_members(message);
    if !matches!(method, "tools/list" | "tools/call") {
        return message;
    }
    let Some(result) = Head::read(&message).and_then(|head| head.result) else { return message };
    if method == "tools/list" {
        let tools = member(result, "tools");
        let changed = tools.and_then(|tools| Some((tools, stateful_tools(tools.get())?)));
        return match changed {
            Some((tools, changed)) => splice(&message, tools.get(), &changed),
            None => message,
        };
    }
    match member(result, "structuredContent") {
        Some(content) if !content.get().trim_start().starts_with('{') => {
            splice(&message, result, &with_member(result, "structuredContent", None))
        }
        _ => message,
    }
}

/// Returns a response without the members of its result that only stateless versions define. They
/// include the server's description, which stateful servers send only once.
fn without_stateless_members(message: Vec<u8>) -> Vec<u8> {
    let Some(result) = Head::read(&message).and_then(|head| head.result) else { return message };
    let all = members(result);
    let meta = all.iter().find(|(name, _)| name == "_meta").map(|(_, meta)| meta.get());
    let described = meta.filter(|meta| member(meta, SERVER_KEY).is_some());
    let kept_meta = described.map(|meta| with_member(meta, SERVER_KEY, None));
    let is_kept = |name: &str| match (name, kept_meta.as_deref()) {
        ("_meta", Some("{}")) => false,
        _ => !STATELESS_MEMBERS.contains(&name),
    };
    if kept_meta.is_none() && all.iter().all(|(name, _)| is_kept(name)) {
        return message;
    }
    let kept = all.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| {
        let edited = kept_meta.as_deref().filter(|_| name == "_meta");
        (name.clone(), edited.unwrap_or(value.get()))
    });
    splice(&message, result, &object(kept))
}

/// Returns a JSON array of tools without those output schemas that are not objects. `None` if no
/// tool has such a schema.
fn stateful_tools(tools: &str) -> Option<String> {
    let listed: Vec<&RawValue> = serde_json::from_str(tools).ok()?;
    let changed: Vec<Option<String>> =
        listed.iter().map(|tool| stateful_tool(tool.get())).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let tools =
        listed.iter().zip(&changed).map(|(tool, changed)| changed.as_deref().unwrap_or(tool.get()));
    Some(format!("[{}]", tools.collect::<Vec<_>>().join(",")))
}

/// Returns a tool (raw JSON) without its output schema, if the schema does not describe objects.
/// `None` if the tool needs no change.
fn stateful_tool(tool: &str) -> Option<String> {
    let schema: Value = serde_json::from_str(member(tool, "outputSchema")?.get()).ok()?;
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    (!is_object).then(|| with_member(tool, "outputSchema", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_info() -> ClientInfo {
        ClientInfo {
            version: "2025-11-25".into(),
            capabilities: r#"{"sampling":{}}"#.into(),
            implementation: r#"{"name":"c","version":"1"}"#.into(),
        }
    }

    fn translated(client: ProtocolMode, upstream: ProtocolMode, message: &str) -> String {
        let message = request(client, upstream, message.into(), &client_info(), Some("info"));
        String::from_utf8(message).unwrap()
    }

    #[test]
    fn request_meta_is_added_and_removed() {
        let stateful = r#"{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1.50},"_meta":{"progressToken":3}}}"#;
        let stateless = translated(ProtocolMode::Stateful, ProtocolMode::Stateless, stateful);
        let head = Head::read(stateless.as_bytes()).unwrap();
        assert_eq!(head.parameters().version().as_deref(), Some("2026-07-28"));
        assert_eq!(head.parameters().meta(LOG_LEVEL_KEY), Some("info".into()));
        assert!(stateless.contains(r#""arguments":{"a":1.50}"#));
        assert_eq!(
            translated(ProtocolMode::Stateless, ProtocolMode::Stateful, &stateless),
            stateful
        );
        assert_eq!(translated(ProtocolMode::Stateful, ProtocolMode::Stateful, stateful), stateful);
        let bare = translated(
            ProtocolMode::Stateful,
            ProtocolMode::Stateless,
            r#"{"id":1,"method":"tools/list"}"#,
        );
        assert!(Head::read(bare.as_bytes()).unwrap().parameters().version().is_some());
    }

    #[test]
    fn results_gain_stateless_members() {
        let stateless = |method, message: &str| {
            String::from_utf8(response(
                ProtocolMode::Stateless,
                ProtocolMode::Stateful,
                method,
                message.into(),
            ))
            .unwrap()
        };
        assert_eq!(
            stateless("tools/call", r#"{"id":1,"result":{"content":[]}}"#),
            r#"{"id":1,"result":{"content":[],"resultType":"complete"}}"#
        );
        assert!(
            stateless("resources/read", r#"{"id":1,"result":{"contents":[]}}"#).contains("ttlMs")
        );
        let missing = r#"{"id":1,"error":{"code":-32002,"message":"x","data":{"uri":"y"}}}"#;
        assert_eq!(stateless("resources/read", missing), missing.replace("-32002", "-32602"));
    }

    #[test]
    fn stateless_client_receives_requested_log_level() {
        let request = |meta: &str| {
            format!(r#"{{"id":1,"method":"tools/call","params":{{"_meta":{{{meta}}}}}}}"#)
        };
        let info = br#"{"method":"notifications/message","params":{"level":"info","data":1}}"#;
        let wanted = |mode, meta: &str| {
            is_wanted(mode, request(meta).as_bytes(), &Head::read(info).unwrap())
        };
        assert!(wanted(ProtocolMode::Stateful, ""));
        assert!(!wanted(ProtocolMode::Stateless, ""));
        assert!(wanted(ProtocolMode::Stateless, r#""io.modelcontextprotocol/logLevel":"debug""#));
        assert!(!wanted(ProtocolMode::Stateless, r#""io.modelcontextprotocol/logLevel":"error""#));
    }

    #[test]
    fn members_of_stateless_results_are_removed() {
        let stateful = |message: &str| {
            let (client, upstream) = (ProtocolMode::Stateful, ProtocolMode::Stateless);
            String::from_utf8(response(client, upstream, "resources/read", message.into())).unwrap()
        };
        let server = r#""io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}"#;
        assert_eq!(
            stateful(&format!(
                r#"{{"id":1,"result":{{"contents":[1.50],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{{{server}}}}}}}"#
            )),
            r#"{"id":1,"result":{"contents":[1.50]}}"#
        );
        assert_eq!(
            stateful(&format!(r#"{{"id":1,"result":{{"_meta":{{"x":1,{server}}},"a":2}}}}"#)),
            r#"{"id":1,"result":{"_meta":{"x":1},"a":2}}"#
        );
        for unchanged in [
            r#"{"id":1,"result":{"contents":[{"resultType":1}], "_meta": {"x": 1}}}"#,
            r#"{"id":1,"error":{"code":1,"message":"resultType"}}"#,
        ] {
            assert_eq!(stateful(unchanged), unchanged);
        }
    }

    #[test]
    fn parts_that_stateful_clients_reject_are_removed() {
        let list = r#"{"id":1,"result":{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}}"#;
        let stateful =
            response(ProtocolMode::Stateful, ProtocolMode::Stateless, "tools/call", list.into());
        assert!(!String::from_utf8(stateful).unwrap().contains("structuredContent"));
        assert!(stateful_tool(r#"{"name":"x","outputSchema":{"type":"array"}}"#).is_some());
        assert!(stateful_tool(r#"{"name":"x","outputSchema":{"type":"object"}}"#).is_none());
        assert!(stateful_tool(r#"{"name":"x"}"#).is_none());
    }
}
