//! `tools/list`: relaxes output schemas, adds the guard's arguments and its read tool, and extracts
//! information about each tool.

use std::borrow::Cow;

use context_guard_protocol::argument::{ARGUMENT_NAMES, ARGUMENT_PREFIX, PLAIN_NAME_COUNT};

use super::arguments::READ_ARGUMENTS;
use super::override_definition::override_definition;
use super::tool_info::{OutputSchema, ToolInfo};
use crate::json::Span;
use crate::json::edit::{Edits, append_member, member};
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::Form;
use crate::policy::{Advertise, EndpointSettings, ToolOverride};
use crate::shape::notice::READ_TOOL;

/// The alternative name of the guard's read tool, used if the upstream has a tool of the usual
/// name.
pub const READ_TOOL_RENAMED: &str = "context_guard_read_more";

/// The description of the read tool, as JSON text. Its examples cover the most common questions.
const READ_DESCRIPTION: &str = r#"Reads an answer that context-guard cut: the next part, or what other arguments select from all of it. fields=all: all. Examples: {\"where\":\"state=open AND n>5 order by n desc\",\"fields\":\"id,n\"}, {\"aggregate\":\"count, sum(n) by user.id order by sum desc limit 3\"}, {\"jq\":\".items|map(.n)|add\"}. Other tools take these as JSON in _guard, and {\"$ref\":\"CURSOR#/a/0\"} for a stored value."#;

/// The schema of the argument that holds the guard's arguments. The schema has no description,
/// because every tool repeats it. Its type is string, because some model APIs reject an object
/// without listed members, and others make a list of members strict.
const ARGUMENTS_PROPERTY: &str = r#""_guard":{"type":"string"}"#;

/// Returns the name of the guard's read tool: the alternative name if `renamed`, because the
/// upstream has a tool of the usual name.
#[must_use]
pub fn read_tool_name(renamed: bool) -> &'static str {
    if renamed { READ_TOOL_RENAMED } else { READ_TOOL }
}

/// The reason why clients do not see a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Policy hides the tool.
    Hidden,
    /// Policy withholds the tool because of suspicious texts in its definition.
    Held,
}

/// The members of a tool in `tools/list` that the guard reads or changes.
#[derive(Debug, Default)]
struct ListedTool {
    name: String,
    span: Span,
    input: Option<Span>,
    output: Option<Span>,
    read_only: bool,
}

/// A rewritten response to `tools/list`, with the information to store about its tools.
pub struct ShapedCatalog {
    /// The response for the client.
    pub message: Vec<u8>,
    /// The information about each tool of the upstream, by its name.
    pub tools: Vec<(String, ToolInfo)>,
}

/// Rewrites an upstream's response to `tools/list`: adds the guard's arguments to the tools and, on
/// the first page of the list (`first`), the read tool. `limits` returns the settings of a tool,
/// and `overrides` the operator's changes of its definition. Removes each tool for which `withheld`
/// returns a reason, given the tool's own name and its client-visible definition. Returns `None` if
/// the message has no list of tools.
///
/// # Errors
/// Returns an error if the message is not JSON.
pub fn shape(
    message: &[u8],
    first: bool,
    limits: impl Fn(&str) -> EndpointSettings,
    overrides: impl Fn(&str) -> Option<ToolOverride>,
    withheld: impl Fn(&str, &[u8]) -> Option<Withheld>,
) -> Scan<Option<ShapedCatalog>> {
    let Some((list, tools)) = read(message)? else { return Ok(None) };
    let mut edits = Edits::default();
    let mut infos = Vec::new();
    let withheld = tools.iter().map(|tool| {
        let definition = overridden(message, &tool.span, overrides(&tool.name).as_ref())?;
        Ok(withheld(&tool.name, &definition))
    });
    let withheld: Vec<Option<Withheld>> = withheld.collect::<Scan<_>>()?;
    let is_removed: Vec<bool> = withheld.iter().map(Option::is_some).collect();
    remove(&tools, &is_removed, &mut edits);
    for (tool, withheld) in tools.iter().zip(&withheld) {
        // Calls depend on the names of all tools, also of hidden ones.
        if let Some(reason) = withheld {
            let held = *reason == Withheld::Held;
            infos.push((tool.name.clone(), ToolInfo { held, ..ToolInfo::default() }));
            continue;
        }
        let limits = limits(&tool.name);
        let mut info = ToolInfo { read_only: tool.read_only, ..ToolInfo::default() };
        if let Some(mut changes) = overrides(&tool.name) {
            // Calls of this name reach the upstream's own tool.
            let is_taken = |name: &String| tools.iter().any(|other| other.name == *name);
            changes.name = changes.name.filter(|name| !is_taken(name));
            let hint = changes.annotations.and_then(|annotations| annotations.read_only_hint);
            info.read_only = hint.unwrap_or(info.read_only);
            override_definition(message, &tool.span, &changes, &mut edits)?;
        }
        if let Some(input) = &tool.input {
            info.own_parameters = own_parameters(message, input)?;
            if limits.shape {
                advertise(message, input, limits.advertise, info.own_parameters, &mut edits)?;
            }
        }
        if let Some(output) = tool.output.as_ref().filter(|_| limits.shape) {
            info.output = relax(message, output, &mut edits)?;
        }
        infos.push((tool.name.clone(), info));
    }
    if first {
        let taken = tools.iter().any(|tool| tool.name == READ_TOOL);
        let name = read_tool_name(taken);
        let comma: &[u8] = if is_removed.iter().all(|is_removed| *is_removed) { b"" } else { b"," };
        let at = list.end - 1;
        edits.replace(at..at, [comma, read_tool(name).as_bytes()].concat());
    }
    Ok(Some(ShapedCatalog { message: edits.apply(message), tools: infos }))
}

/// Returns the definition at the span `tool` with the operator's changes.
fn overridden<'m>(
    message: &'m [u8],
    tool: &Span,
    changes: Option<&ToolOverride>,
) -> Scan<Cow<'m, [u8]>> {
    let definition = message.get(tool.clone()).unwrap_or_default();
    let Some(changes) = changes else { return Ok(Cow::Borrowed(definition)) };
    let mut edits = Edits::default();
    override_definition(definition, &(0..definition.len()), changes, &mut edits)?;
    Ok(Cow::Owned(edits.apply(definition)))
}

/// Replaces the list of a `tools/list` response by `tools`, a JSON array. `None` if the message has
/// no list of tools.
#[must_use]
pub fn with_tools(message: &[u8], tools: &[u8]) -> Option<Vec<u8>> {
    let (list, _) = read(message).ok()??;
    let mut edits = Edits::default();
    edits.replace(list, tools.to_vec());
    Some(edits.apply(message))
}

/// Removes the tools for which `is_removed` is true from the list, each with an adjacent comma.
fn remove(tools: &[ListedTool], is_removed: &[bool], edits: &mut Edits) {
    let mut kept_end = None;
    let mut open: Option<usize> = None;
    for (tool, is_removed) in tools.iter().zip(is_removed) {
        match (*is_removed, kept_end) {
            // After a kept tool, the comma before it goes too.
            (true, Some(end)) => {
                edits.replace(end..tool.span.end, b"".as_slice());
                kept_end = Some(tool.span.end);
            }
            (true, None) => {
                open.get_or_insert(tool.span.start);
            }
            (false, _) => {
                if let Some(start) = open.take() {
                    edits.replace(start..tool.span.start, b"".as_slice());
                }
                kept_end = Some(tool.span.end);
            }
        }
    }
    let end = tools.last().map_or(0, |tool| tool.span.end);
    if let Some(start) = open {
        edits.replace(start..end, b"".as_slice());
    }
}

fn read(message: &[u8]) -> Scan<Option<(Span, Vec<ListedTool>)>> {
    let mut found = None;
    let mut scanner = Scanner::new(message, Form::Raw);
    if scanner.kind()? != Kind::Object {
        return Ok(None);
    }
    scanner.object(|scanner, key| {
        if !scanner.is_key(&key, "result") || scanner.kind()? != Kind::Object {
            return scanner.skip_value().map(drop);
        }
        scanner.object(|scanner, key| {
            if !scanner.is_key(&key, "tools") || scanner.kind()? != Kind::Array {
                return scanner.skip_value().map(drop);
            }
            let start = scanner.position();
            let mut tools = Vec::new();
            scanner.array(|scanner| {
                tools.push(tool(scanner)?);
                Ok(())
            })?;
            found = Some((start..scanner.position(), tools));
            Ok(())
        })
    })?;
    scanner.end()?;
    Ok(found)
}

fn tool(scanner: &mut Scanner<'_>) -> Scan<ListedTool> {
    let mut tool = ListedTool::default();
    if scanner.kind()? != Kind::Object {
        tool.span = scanner.skip_value()?;
        return Ok(tool);
    }
    let start = scanner.position();
    scanner.object(|scanner, key| {
        let kind = scanner.kind()?;
        if kind == Kind::String && scanner.is_key(&key, "name") {
            let name = scanner.string()?;
            tool.name = scanner.decode(&name);
        } else if kind == Kind::Object && scanner.is_key(&key, "inputSchema") {
            tool.input = Some(scanner.skip_value()?);
        } else if kind == Kind::Object && scanner.is_key(&key, "outputSchema") {
            tool.output = Some(scanner.skip_value()?);
        } else if kind == Kind::Object && scanner.is_key(&key, "annotations") {
            scanner.object(|scanner, key| {
                let value = scanner.skip_value()?;
                tool.read_only |=
                    scanner.is_key(&key, "readOnlyHint") && scanner.bytes(&value) == b"true";
                Ok(())
            })?;
        } else {
            scanner.skip_value()?;
        }
        Ok(())
    })?;
    tool.span = start..scanner.position();
    Ok(tool)
}

/// Returns the kind and span of the member `name` of an object that is known to be valid JSON.
/// `None` if the object has no such member.
fn value_of(bytes: &[u8], object: &Span, name: &str) -> Scan<Option<(Kind, Span)>> {
    let mut found = None;
    Scanner::starting_at(bytes, Form::Raw, object.start).object(|scanner, key| {
        let kind = scanner.kind()?;
        let value = scanner.skip_unchecked()?;
        if scanner.is_key(&key, name) {
            found = Some((kind, value));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the guard's argument names that are also parameters of the tool, as a bit set.
fn own_parameters(message: &[u8], input: &Span) -> Scan<u16> {
    let mut own = 0;
    if let Some((Kind::Object, properties)) = value_of(message, input, "properties")? {
        Scanner::starting_at(message, Form::Raw, properties.start).object(|scanner, key| {
            // The other names need a prefix, so that they are never a parameter of the tool.
            let mut names = ARGUMENT_NAMES.iter().take(PLAIN_NAME_COUNT);
            if let Some(at) = names.position(|name| scanner.is_key(&key, name)) {
                own |= 1 << at;
            }
            scanner.skip_unchecked().map(drop)
        })?;
    }
    Ok(own)
}

/// Adds the guard's arguments to the root `properties` of a tool's input schema. `own` is a bit set
/// of the argument names that are parameters of the tool, which are not added.
fn advertise(
    message: &[u8],
    input: &Span,
    advertise: Advertise,
    own: u16,
    edits: &mut Edits,
) -> Scan<()> {
    // Strict clients send a schema that is strict as it is, without converting it.
    if advertise == Advertise::None || is_strict(message, input)? {
        return Ok(());
    }
    let members = if advertise == Advertise::Compact {
        ARGUMENTS_PROPERTY.to_owned()
    } else {
        let names = ARGUMENT_NAMES.iter().take(PLAIN_NAME_COUNT).enumerate();
        properties(names.map(|(at, name)| {
            let prefix = if own & (1 << at) == 0 { "" } else { ARGUMENT_PREFIX };
            (prefix.to_owned(), *name)
        }))
    };
    let (span, bytes) = match value_of(message, input, "properties")? {
        Some((Kind::Object, properties)) => {
            append_member(message, &properties, members.as_bytes())?
        }
        Some(_) => return Ok(()),
        None => append_member(message, input, format!(r#""properties":{{{members}}}"#).as_bytes())?,
    };
    edits.replace(span, bytes);
    Ok(())
}

/// Returns true if an input schema is closed and requires all of its parameters. An optional
/// parameter for the guard would make such a schema invalid for clients with strict schemas.
fn is_strict(message: &[u8], input: &Span) -> Scan<bool> {
    let value = |name| value_of(message, input, name);
    let closed = value("additionalProperties")?
        .is_some_and(|(_, value)| message.get(value) == Some(b"false".as_slice()));
    let (Some((_, properties)), Some((Kind::Array, required)), true) =
        (value("properties")?, value("required")?, closed)
    else {
        return Ok(false);
    };
    let count = |span: Span| -> usize {
        let json = message.get(span).unwrap_or_default();
        match serde_json::from_slice(json) {
            Ok(serde_json::Value::Object(members)) => members.len(),
            Ok(serde_json::Value::Array(elements)) => elements.len(),
            _ => 0,
        }
    };
    Ok(count(properties) == count(required))
}

/// Returns the schemas of guard arguments as members of `properties`. Each argument has a prefix
/// and a name.
///
/// Every array has `items`, and schemas have no keywords other than `type` and `description`. Model
/// APIs reject requests with other schemas.
fn properties<'n>(arguments: impl Iterator<Item = (String, &'n str)>) -> String {
    let property = |(prefix, name): (String, &str)| {
        let (schema, description) = match name {
            "cursor" => (r#""string""#, "nextCursor"),
            "limit" | "pages" | "startLine" | "endLine" | "context" => (r#""integer""#, ""),
            "ignoreCase" => (r#""boolean""#, ""),
            "response_mode" => (r#""string""#, "ids_only, metadata, preview, full"),
            "filter_ids" => (r#""array","items":{"type":"string"}"#, ""),
            "min_score" => (r#""number""#, ""),
            "path" => (r#""string""#, "/items/0/name"),
            "grep" => (r#""string""#, "regex"),
            // The description of the tool has examples.
            _ => (r#""string""#, ""),
        };
        let description = match description {
            "" => String::new(),
            text => format!(r#","description":"{text}""#),
        };
        format!(r#""{prefix}{name}":{{"type":{schema}{description}}}"#)
    };
    arguments.map(property).collect::<Vec<_>>().join(",")
}

/// Relaxes a tool's output schema in place, so that an excerpt conforms to it. No root member
/// remains required, and `context_guard` is allowed. For a schema that is not a plain object, an
/// `anyOf` also allows an object with the excerpt inside `context_guard`. A schema with `$ref` is
/// replaced, because its references would break inside `anyOf`.
fn relax(message: &[u8], output: &Span, edits: &mut Edits) -> Scan<OutputSchema> {
    const METADATA_PROPERTY: &[u8] = br#""context_guard":{"type":"object"}"#;
    let mut combined = false;
    for name in ["anyOf", "oneOf", "allOf", "not", "$ref", "if", "enum", "const"] {
        combined |= value_of(message, output, name)?.is_some();
    }
    let kind = value_of(message, output, "type")?;
    let is_object =
        kind.as_ref().is_some_and(|(_, value)| message.get(value.clone()) == Some(b"\"object\""));
    if combined || !is_object {
        let schema = message.get(output.clone()).unwrap_or_default();
        if memchr::memmem::find(schema, b"\"$ref\"").is_some() {
            edits.replace(output.clone(), b"{\"type\":\"object\"}".as_slice());
            return Ok(OutputSchema::Free);
        }
        // A dialect is declared at the root of a schema only.
        let dialect = value_of(message, output, "$schema")?.map_or(Vec::new(), |(_, value)| {
            [b"\"$schema\":", message.get(value).unwrap_or_default(), b","].concat()
        });
        let kind: &[u8] = if is_object { b"\"type\":\"object\"," } else { b"" };
        let root = [b"{", dialect.as_slice(), kind, b"\"anyOf\":["].concat();
        let envelope: &[u8] = br#",{"type":"object","properties":{"context_guard":{"type":"object"}},"required":["context_guard"]}]}"#;
        edits.replace(output.clone(), [root.as_slice(), schema, envelope].concat());
        return Ok(OutputSchema::Widened);
    }
    if let Some(required) = member(message, output, "required")? {
        edits.replace(required, b"".as_slice());
    }
    let mut closed = false;
    for name in
        ["additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames"]
    {
        let value = value_of(message, output, name)?;
        closed |= value.is_some_and(|(_, value)| message.get(value) != Some(b"true"));
    }
    match value_of(message, output, "properties")? {
        Some((Kind::Object, properties)) => {
            let (span, bytes) = append_member(message, &properties, METADATA_PROPERTY)?;
            edits.replace(span, bytes);
        }
        _ => edits.replace(
            output.start + 1..output.start + 1,
            [b"\"properties\":{", METADATA_PROPERTY, b"},"].concat(),
        ),
    }
    Ok(if closed { OutputSchema::Closed } else { OutputSchema::Open })
}

/// Returns the definition of the guard's read tool.
#[must_use]
pub fn read_tool(name: &str) -> String {
    // Notices name the tool. Clients that load tools on demand must have it then.
    let properties = properties(READ_ARGUMENTS.iter().map(|name| (String::new(), *name)));
    format!(
        r#"{{"name":"{name}","description":"{READ_DESCRIPTION}","inputSchema":{{"type":"object","properties":{{{properties}}},"required":["cursor"]}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}},"_meta":{{"anthropic/alwaysLoad":true}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn hidden_tools_are_not_listed() {
        let odd = r#"7, {"name":"a"}"#;
        assert_eq!(shaped_without(odd, |name| name == "a").0["result"]["tools"][0], 7);
        let list = r#"{"name":"a"}, {"name":"b","inputSchema":{}} ,{"name":"c"},{"name":"d"}"#;
        for hidden in ["", "a", "b", "d", "ab", "bc", "cd", "ad", "abc", "bcd", "abcd"] {
            let (shaped, infos) = shaped_without(list, |name| hidden.contains(name));
            let tools = shaped["result"]["tools"].as_array().unwrap();
            let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            let expected: Vec<_> =
                ["a", "b", "c", "d"].into_iter().filter(|name| !hidden.contains(name)).collect();
            assert_eq!(names, [expected.as_slice(), &[READ_TOOL]].concat(), "{hidden}");
            assert_eq!(infos.len(), 4);
        }
    }

    fn shaped(tools: &str) -> (Value, Vec<(String, ToolInfo)>) {
        shaped_without(tools, |_| false)
    }

    fn shaped_without(
        tools: &str,
        is_hidden: impl Fn(&str) -> bool,
    ) -> (Value, Vec<(String, ToolInfo)>) {
        let message = format!(r#"{{"result":{{"tools":[{tools}]}},"jsonrpc":"2.0","id":1}}"#);
        let settings =
            EndpointSettings { advertise: Advertise::Compact, ..EndpointSettings::default() };
        let withheld = |name: &str, _: &[u8]| is_hidden(name).then_some(Withheld::Hidden);
        let catalog = shape(message.as_bytes(), true, |_| settings.clone(), |_| None, withheld)
            .unwrap()
            .unwrap();
        (serde_json::from_slice(&catalog.message).unwrap(), catalog.tools)
    }

    #[test]
    fn plain_object_schemas_are_relaxed() {
        let (list, facts) = shaped(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"limit":{}},"required":["limit"]},
                "outputSchema":{"type":"object","required":["x"],"properties":{"x":{"type":"array"}},"additionalProperties":false}}"#,
        );
        let tool = &list["result"]["tools"][0];
        assert_eq!(tool["outputSchema"].get("required"), None);
        assert_eq!(tool["outputSchema"]["properties"]["context_guard"]["type"], "object");
        assert_eq!(tool["inputSchema"]["required"][0], "limit");
        assert!(tool["inputSchema"]["properties"].get("_guard").is_some());
        assert_eq!(
            facts[0].1,
            ToolInfo { own_parameters: 0b10, output: OutputSchema::Closed, ..ToolInfo::default() }
        );
        assert_eq!(list["result"]["tools"][1]["name"], READ_TOOL);
    }

    #[test]
    fn other_schemas_are_widened() {
        let (list, facts) = shaped(
            r#"{"name":"a","inputSchema":{},"outputSchema":{"type":"object","oneOf":[{}]}},{"name":"b","outputSchema":{"type":"array"}}"#,
        );
        assert_eq!(
            list["result"]["tools"][0]["outputSchema"]["anyOf"].as_array().map(Vec::len),
            Some(2)
        );
        assert_eq!(list["result"]["tools"][0]["outputSchema"]["type"], "object");
        assert_eq!(facts[1].1.output, OutputSchema::Widened);
    }

    #[test]
    fn taken_read_tool_name_is_avoided() {
        let (list, _) = shaped(&format!(r#"{{"name":"{READ_TOOL}"}}"#));
        assert_eq!(list["result"]["tools"][1]["name"], READ_TOOL_RENAMED);
    }

    #[test]
    fn strict_schemas_are_unchanged() {
        let strict = r#"{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}"#;
        let (list, _) = shaped(&format!(r#"{{"name":"a","inputSchema":{strict}}}"#));
        assert_eq!(list["result"]["tools"][0]["inputSchema"].to_string().len(), strict.len());
    }

    #[test]
    fn dialect_moves_to_the_root() {
        let (list, _) = shaped(
            r#"{"name":"a","outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","oneOf":[{}]}}"#,
        );
        let output = &list["result"]["tools"][0]["outputSchema"];
        assert_eq!(output["$schema"], "http://json-schema.org/draft-07/schema#");
    }

    #[test]
    fn additions_are_cheap() {
        let price = |text: &str| crate::tokens::Estimator::default().price(text.as_bytes());
        // Estimates have a safety margin: these are 246 and 7 tokens of o200k_base.
        assert!(price(&read_tool(READ_TOOL)) <= 260, "{}", price(&read_tool(READ_TOOL)));
        assert!(price(&format!("{ARGUMENTS_PROPERTY},")) <= 8);
    }
}
