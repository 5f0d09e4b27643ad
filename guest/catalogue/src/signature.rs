//! Signatures of tools: one line with a tool's name, parameters and purpose.
//!
//! ```
//! use context_guard_catalogue::signature;
//! use context_guard_catalogue::tool::Tool;
//!
//! let definition = r#"{"name": "log", "description": "Show commits", "inputSchema": {
//!     "properties": {"max_count": {"type": "integer", "default": 10}}}}"#;
//! let tool = Tool::parse("git", "git__log", definition).unwrap();
//! assert_eq!(signature::short(&tool), "git__log(max_count?:int=10) // Show commits");
//! ```

mod form;
mod note;
mod types;

use crate::document::{Json, quoted};
use crate::sentence::split_first;
use crate::tool::Tool;

use self::form::Form;
use self::note::{clean, note};
use self::types::TypeWriter;
pub(crate) use self::types::type_text;

/// Maximum number of characters of the sentence of a signature.
const MAX_SENTENCE_CHARACTERS: usize = 160;
/// Maximum number of characters of a default value.
const MAX_DEFAULT_CHARACTERS: usize = 23;

/// Returns the signature of a tool, with shortened notes and lists of values.
#[must_use]
pub fn short(tool: &Tool<'_>) -> String {
    write(tool, Form::Short)
}

/// Returns the signature of a tool, with as many parameters as `fits` accepts. Required ones come
/// first then. A last element such as `…+12` counts the omitted ones.
#[must_use]
pub fn fitted(tool: &Tool<'_>, fits: &dyn Fn(&str) -> bool) -> String {
    let text = short(tool);
    if fits(&text) {
        return text;
    }
    let schema = tool.document.get("inputSchema").unwrap_or(&Json::Null);
    let mut parameters = TypeWriter::new(schema, Form::Short).parameters(schema);
    parameters.sort_by_key(|(_, _, required)| !required);
    let total = parameters.len();
    loop {
        parameters.truncate(parameters.len() / 2);
        let mut types = TypeWriter::new(schema, Form::Short);
        let list = parameter_list(&mut types, parameters.clone(), 1);
        let comma = if list.is_empty() { "" } else { ", " };
        let omitted = total - parameters.len();
        let sentence = sentence(tool, Form::Short);
        let text = format!("{}({list}{comma}…+{omitted}){sentence}", tool.wire_name);
        if parameters.is_empty() || fits(&text) {
            return text;
        }
    }
}

/// Returns the signature of a tool without length limits, and with `null` and constraints.
#[must_use]
pub fn complete(tool: &Tool<'_>) -> String {
    write(tool, Form::Complete)
}

/// Returns the name of a tool and the first sentence of its description.
#[must_use]
pub fn summary(tool: &Tool<'_>) -> String {
    format!("{}{}", tool.wire_name, sentence(tool, Form::Short))
}

/// Returns the first sentence of a description on one line, without a full stop at its end. Cuts it
/// at 160 characters.
#[must_use]
pub fn first_sentence(tool: &Tool<'_>) -> String {
    let sentence = clean(tool.first_sentence());
    let sentence = sentence.strip_suffix('.').filter(|text| !text.ends_with('.'));
    let sentence = sentence.map_or_else(|| clean(tool.first_sentence()), str::to_owned);
    note::cut(&sentence, MAX_SENTENCE_CHARACTERS)
}

/// Returns up to `count` sentences of the description on one line, cut at 160 characters for each.
#[must_use]
pub fn first_sentences(tool: &Tool<'_>, count: usize) -> String {
    let mut rest = tool.description();
    let mut sentences = Vec::new();
    while sentences.len() < count && !rest.trim().is_empty() {
        let (first, after) = split_first(rest);
        sentences.push(clean(first));
        rest = after;
    }
    note::cut(&sentences.join(" "), count * MAX_SENTENCE_CHARACTERS)
}

/// Returns a text on one line, without control, bidirectional and other invisible characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    clean(text)
}

/// Returns the names and types of a tool's parameters, such as `string (required)`. If the
/// parameter's schema has a `type`, that is used.
#[must_use]
pub fn parameters(tool: &Tool<'_>) -> Vec<(String, String)> {
    let schema = tool.document.get("inputSchema").unwrap_or(&Json::Null);
    let mut types = TypeWriter::new(schema, Form::Short);
    let parameters = types.parameters(schema);
    let mut described = Vec::new();
    for (name, property, required) in parameters {
        let kind = if required { "required" } else { "optional" };
        let text = match property.get("type").and_then(Json::as_str) {
            Some(name) => clean(name),
            None => types.text(property, 1),
        };
        described.push((name, format!("{text} ({kind})")));
    }
    described
}

fn write(tool: &Tool<'_>, form: Form) -> String {
    let schema = tool.document.get("inputSchema").unwrap_or(&Json::Null);
    let mut types = TypeWriter::new(schema, form);
    let parameters = types.parameters(schema);
    let list = parameter_list(&mut types, parameters, 1);
    format!("{}({list}){}", tool.wire_name, sentence(tool, form))
}

fn sentence(tool: &Tool<'_>, form: Form) -> String {
    let sentence = match form {
        Form::Short => first_sentence(tool),
        Form::Complete => clean(tool.description()),
    };
    if sentence.is_empty() { sentence } else { format!(" // {sentence}") }
}

/// Returns parameters as text, separated by commas. Each has a name, a schema, and true if it is
/// required.
fn parameter_list<'s>(
    types: &mut TypeWriter<'s>,
    parameters: Vec<(String, &'s Json, bool)>,
    depth: usize,
) -> String {
    let mut list = Vec::new();
    for (name, property, required) in parameters {
        let mut text = written_name(&name);
        if !required {
            text.push('?');
        }
        text.push(':');
        text.push_str(&types.text(property, depth));
        if let Some(value) = default_value(property, types.form()) {
            text.push('=');
            text.push_str(&value);
        }
        if let Some(note) = note(&name, property, types.form()) {
            text.push_str(" /*");
            text.push_str(&note);
            text.push_str("*/");
        }
        list.push(text);
    }
    list.join(", ")
}

/// Returns a name, as a JSON string unless it consists of letters, digits, `_` and `$`.
fn written_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
    if !name.is_empty() && name.bytes().all(is_plain) {
        name.to_owned()
    } else {
        quoted(&clean(name))
    }
}

fn default_value(property: &Json, form: Form) -> Option<String> {
    let value = property.get("default").filter(|value| **value != Json::Null)?;
    let text = clean(&value.to_string());
    (form == Form::Complete || text.chars().count() <= MAX_DEFAULT_CHARACTERS).then_some(text)
}
