//! JSON documents with members in their original order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value. Objects keep the order of their members, because signatures show them in that
/// order.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, in its shortest spelling.
    Number(serde_json::Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: names and values.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a document. Returns `None` if it is not JSON, or nested deeper than 127 levels.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the value of the first member with this name. `None` if the value has no such
    /// member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members().iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// Returns the value to which a local JSON Schema reference such as `#/$defs/Node` points.
    /// `None` if there is no such value, and for references such as `#name`, which name an
    /// `$anchor`.
    #[must_use]
    pub fn resolve(&self, reference: &str) -> Option<&Json> {
        let mut value = self;
        let pointer = reference.strip_prefix('#')?;
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return None;
        }
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            value = match value {
                Json::Array(elements) => elements.get(step.parse::<usize>().ok()?)?,
                object => object.get(&step)?,
            };
        }
        Some(value)
    }

    /// Returns the members of an object. Empty for other values.
    #[must_use]
    pub fn members(&self) -> &[(String, Json)] {
        if let Json::Object(members) = self { members } else { &[] }
    }

    /// Returns the elements of an array. Empty for other values.
    #[must_use]
    pub fn elements(&self) -> &[Json] {
        if let Json::Array(elements) = self { elements } else { &[] }
    }

    /// Returns the text of a string. `None` for other values.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Json::String(text) = self { Some(text) } else { None }
    }

    /// Returns true if the value is `true`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        matches!(self, Json::Bool(true))
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(value) => write!(out, "{value}"),
            Json::String(text) => out.write_str(&quoted(text)),
            Json::Array(elements) => {
                out.write_str("[")?;
                for (at, element) in elements.iter().enumerate() {
                    write!(out, "{}{element}", if at == 0 { "" } else { "," })?;
                }
                out.write_str("]")
            }
            Json::Object(members) => {
                out.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(out, "{comma}{}:{value}", quoted(name))?;
                }
                out.write_str("}")
            }
        }
    }
}

/// Returns a text as a JSON string with quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;

        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number))
            }

            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::String(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Json, E> {
                Ok(Json::String(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = access.next_element()? {
                    elements.push(element);
                }
                Ok(Json::Array(elements))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = access.next_entry()? {
                    members.push(member);
                }
                Ok(Json::Object(members))
            }
        }

        deserializer.deserialize_any(JsonVisitor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn order_of_members_remains() {
        let text = r#"{"z":[1,-2,0.5,null,true],"a":{"ü":"\"x"}}"#;
        assert_eq!(Json::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn references_are_pointers() {
        let root = Json::parse(r##"{"$defs":{"a/b":[{"x":1},7]}}"##).unwrap();
        assert_eq!(root.resolve("#"), Some(&root));
        assert_eq!(root.resolve("#/$defs/a~1b/0/x").unwrap().to_string(), "1");
        for other in ["#anchor", "$defs", "#/$defs/c", "https://x.example/#"] {
            assert_eq!(root.resolve(other), None, "{other}");
        }
    }

    #[test]
    fn deep_documents_are_refused() {
        assert_eq!(Json::parse(&"[".repeat(100_000)), None);
        assert_eq!(Json::parse("{"), None);
    }
}
