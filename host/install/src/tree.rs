//! A syntax tree of JSON and TOML with the span of every value.

use std::ops::Range;

use jsonc_parser::ast::{ObjectPropName, Value as JsonValue};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Error, Result};

/// The maximum depth to which values are read. In known files, servers are at most six levels deep.
const MAX_DEPTH: usize = 64;

/// The format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// JSON. Comments and trailing commas are accepted.
    Json,
    /// TOML 1.1.
    Toml,
}

/// A value and its span in the text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Node>),
    Table(Vec<Member>),
    Null,
    /// A number or boolean, or a date of TOML. A number of TOML is without its underscores.
    Word(String),
    /// A value that is nested too deeply.
    Other,
}

/// A member of a table or object.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) key: Range<usize>,
    pub(crate) node: Node,
}

impl Node {
    /// Returns the member with this name, or the last one of several, as in JavaScript. `None` if
    /// there is none.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members().iter().rev().find(|member| member.name == name)
    }

    /// Returns the value of the member with this name. `None` if there is none.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.member(name).map(|member| &member.node)
    }

    /// Returns the value at a path of member names. `None` if there is none.
    pub(crate) fn descendant(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    pub(crate) fn members(&self) -> &[Member] {
        match &self.value {
            Value::Table(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses `text`, which must not have a byte-order mark.
pub(crate) fn parse(syntax: Syntax, text: &str) -> Result<Node> {
    match syntax {
        Syntax::Json => parse_json(text),
        Syntax::Toml => parse_toml(text),
    }
}

fn parse_json(text: &str) -> Result<Node> {
    // What clients accept: JSON, comments and trailing commas. They reject the rest of JSON5.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| Error::Format(format!("invalid JSON: {}", lower_first(&error))))?;
    match parsed.value {
        Some(value) => Ok(json_node(&value, 0)),
        // An empty file, or one with comments only.
        None => Ok(Node { span: 0..text.len(), value: Value::Null }),
    }
}

/// Returns the text of an error with a lower-case first letter, as the second half of a message.
fn lower_first(error: &impl ToString) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + characters.as_str().trim_end_matches('.')
    })
}

fn json_node(value: &JsonValue<'_>, depth: usize) -> Node {
    let range = value.range();
    let span = range.start..range.end;
    if depth > MAX_DEPTH {
        return Node { span, value: Value::Other };
    }
    let value = match value {
        JsonValue::StringLit(text) => Value::Text(text.value.clone().into_owned()),
        JsonValue::NullKeyword(_) => Value::Null,
        JsonValue::NumberLit(number) => Value::Word(number.value.to_owned()),
        JsonValue::BooleanLit(boolean) => Value::Word(boolean.value.to_string()),
        JsonValue::Array(array) => {
            Value::List(array.elements.iter().map(|one| json_node(one, depth + 1)).collect())
        }
        JsonValue::Object(object) => Value::Table(
            object
                .properties
                .iter()
                .map(|property| {
                    let key = match &property.name {
                        ObjectPropName::String(name) => name.range,
                        ObjectPropName::Word(name) => name.range,
                    };
                    Member {
                        name: property.name.as_str().to_owned(),
                        key: key.start..key.end,
                        node: json_node(&property.value, depth + 1),
                    }
                })
                .collect(),
        ),
    };
    Node { span, value }
}

fn parse_toml(text: &str) -> Result<Node> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let before = text.get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Error::Format(format!(
            "invalid TOML: {} on line {line} column {column}",
            lower_first(&error.message())
        ))
    })?;
    Ok(Node { span: 0..text.len(), value: Value::Table(toml_members(table.get_ref(), 0)) })
}

fn toml_members(table: &DeTable<'_>, depth: usize) -> Vec<Member> {
    let member = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| Member {
        name: AsRef::<str>::as_ref(name.get_ref()).to_owned(),
        key: name.span(),
        node: toml_node(value, depth + 1),
    };
    table
        .iter()
        .map(|(name, value): (&Spanned<std::borrow::Cow<'_, str>>, _)| member((name, value)))
        .collect()
}

fn toml_node(value: &Spanned<DeValue<'_>>, depth: usize) -> Node {
    let span = value.span();
    if depth > MAX_DEPTH {
        return Node { span, value: Value::Other };
    }
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Array(array) => {
            Value::List(array.iter().map(|one| toml_node(one, depth + 1)).collect())
        }
        DeValue::Table(table) => Value::Table(toml_members(table, depth)),
        DeValue::Boolean(boolean) => Value::Word(boolean.to_string()),
        DeValue::Integer(number) => Value::Word(number.to_string()),
        DeValue::Float(number) => Value::Word(number.to_string()),
        DeValue::Datetime(time) => Value::Word(time.to_string()),
    };
    Node { span, value }
}
