//! Answers the tools that call other tools, and calls of tools by names that the client's list
//! lacks.

use context_guard_catalogue::document::Json;
use context_guard_catalogue::{arguments, signature};
use context_guard_protocol::argument::{ARGUMENT_NAMES, ARGUMENT_PREFIX};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CallParameters, Catalogue, CatalogueResult};
use crate::catalogue::definitions::MetaTool;
use crate::catalogue::resolve::resolve;
use crate::catalogue::stored::tool;
use crate::catalogue::{CatalogueAnswer, CatalogueError, CatalogueStep, INVALID_PARAMS};
use crate::json::text::quoted;
use crate::mcp::reply::Envelope;

/// The arguments of `context_guard_call` and `context_guard_call_read`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallArguments<'m> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'m RawValue>,
}

/// Converts a call of `context_guard_call` to a call of the tool that its arguments name. Does not
/// check the arguments of that tool. Returns `None` if the arguments of `context_guard_call` are
/// invalid.
#[must_use]
pub fn direct_call(upstream: &str, parameters: &[u8], envelope: &Envelope<'_>) -> Option<Vec<u8>> {
    let parameters: CallParameters<'_> = serde_json::from_slice(parameters).ok()?;
    let call: CallArguments<'_> = serde_json::from_str(parameters.arguments?.get()).ok()?;
    let qualified = call.name.strip_prefix(upstream).and_then(|name| name.strip_prefix("::"));
    let name = qualified.unwrap_or(&call.name);
    let arguments = argument_text(call.arguments)?;
    Some(forwarded(envelope, name, Some(&arguments), parameters.meta))
}

impl Catalogue<'_> {
    /// Answers a call of a call tool: with the call that the host makes instead, or with an error
    /// for the model.
    pub(super) fn call(
        &self,
        parameters: &CallParameters<'_>,
        reads_only: bool,
    ) -> CatalogueResult<CatalogueStep> {
        let own = if reads_only { MetaTool::CallRead } else { MetaTool::Call };
        let arguments: CallArguments<'_> = self.arguments(own, parameters)?;
        let number = resolve(&self.index, &arguments.name).map_err(|error| self.error(&error))?;
        let found = self.index.tool(number).ok_or(CatalogueStep::Compile)?;
        if reads_only && !found.read_only {
            let text =
                format!("{} is not marked read-only: use context_guard_call", found.wire_name);
            return Err(self.error(&CatalogueError::new(text)));
        }
        let definition = self.reader.definitions(&[number])?.pop().unwrap_or_default();
        let tool = tool(&self.index, number, &definition).ok_or(CatalogueStep::Compile)?;
        let Some(given) = argument_text(arguments.arguments) else {
            let text = "arguments: expected an object, such as {\"name\": \"value\"}";
            return Err(self.error(&CatalogueError::new(text)));
        };
        let schema = tool.document.get("inputSchema").cloned().unwrap_or_default();
        let value = Json::parse(&given).unwrap_or_default();
        let errors = arguments::check(&schema, &without_guard_arguments(&schema, value));
        if !errors.is_empty() {
            let errors = errors.join("\n");
            let fits = |signature: &str| self.fits_beside(0)(&format!("{errors}\n{signature}"));
            let complete = Some(signature::complete(&tool)).filter(|signature| fits(signature));
            let signature = complete.unwrap_or_else(|| signature::fitted(&tool, &fits));
            let text = format!("{errors}\n{signature}");
            return Err(self.error(&CatalogueError::new(text)));
        }
        let (envelope, name) = (&self.request.envelope, found.wire_name);
        Ok(CatalogueStep::Call(forwarded(envelope, name, Some(&given), parameters.meta)))
    }

    /// Answers a call of a tool that the gateway does not know by this name, such as
    /// `server::tool`.
    pub(super) fn direct(&self, parameters: &CallParameters<'_>) -> CatalogueResult<CatalogueStep> {
        match resolve(&self.index, &parameters.name) {
            Ok(number) => {
                let tool = self.index.tool(number).ok_or(CatalogueStep::Compile)?;
                let arguments = parameters.arguments.map(RawValue::get);
                let envelope = &self.request.envelope;
                let call = forwarded(envelope, tool.wire_name, arguments, parameters.meta);
                Ok(CatalogueStep::Call(call))
            }
            Err(error) => {
                let message = self.request.envelope.error(INVALID_PARAMS, &error.text);
                Ok(CatalogueStep::Answer(CatalogueAnswer {
                    message,
                    is_error: true,
                    needs_shaping: false,
                }))
            }
        }
    }
}

/// Returns the arguments of a call as a JSON object, `{}` if absent. `None` if they are not an
/// object, nor a text that holds one.
fn argument_text(arguments: Option<&RawValue>) -> Option<String> {
    let text = match arguments.map(RawValue::get) {
        None | Some("null") => return Some("{}".to_owned()),
        // Some models write the arguments as a text.
        Some(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        Some(text) => text.to_owned(),
    };
    matches!(Json::parse(&text), Some(Json::Object(_))).then_some(text)
}

/// Returns a `tools/call` request, with the id of `envelope`.
fn forwarded(
    envelope: &Envelope<'_>,
    name: &str,
    arguments: Option<&str>,
    meta: Option<&RawValue>,
) -> Vec<u8> {
    let mut call = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    call.extend_from_slice(envelope.id);
    call.extend_from_slice(b",\"method\":\"tools/call\",\"params\":{\"name\":");
    call.extend(quoted(name));
    if let Some(arguments) = arguments {
        call.extend_from_slice(b",\"arguments\":");
        call.extend_from_slice(arguments.as_bytes());
    }
    if let Some(meta) = meta {
        call.extend_from_slice(b",\"_meta\":");
        call.extend_from_slice(meta.get().as_bytes());
    }
    call.extend_from_slice(b"}}");
    call
}

/// Returns `arguments` without those of the guard, which the guard checks when the call itself
/// arrives.
fn without_guard_arguments(schema: &Json, arguments: Json) -> Json {
    let Json::Object(mut members) = arguments else { return arguments };
    let properties = schema.get("properties").unwrap_or(&Json::Null);
    members.retain(|(name, _)| {
        properties.get(name).is_some()
            || !(name.starts_with(ARGUMENT_PREFIX)
                || name == "_guard"
                || ARGUMENT_NAMES.contains(&name.as_str()))
    });
    Json::Object(members)
}
