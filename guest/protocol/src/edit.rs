//! Edits of JSON text. All other text remains verbatim.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::head::Head;

/// Returns the message with invalid UTF-8 replaced by U+FFFD. A single invalid byte then does not
/// make the message unusable.
#[must_use]
pub fn replace_invalid_utf8(message: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(message) {
        Cow::Borrowed(_) => Cow::Borrowed(message),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Returns `message` with its slice `part` replaced by the text `by`. `part` must be a slice of
/// `message`.
#[must_use]
pub fn splice(message: &[u8], part: &str, by: &str) -> Vec<u8> {
    // The parser returns slices of its input, so the offset is the distance of the two pointers.
    let start = (part.as_ptr() as usize).saturating_sub(message.as_ptr() as usize);
    let (Some(before), Some(after)) = (message.get(..start), message.get(start + part.len()..))
    else {
        return message.to_vec();
    };
    [before, by.as_bytes(), after].concat()
}

/// Returns a JSON-RPC message with its id replaced by `id`, which is raw JSON. Returns a message
/// without an id, or with the id `null`, unchanged.
#[must_use]
pub fn with_id(message: &[u8], id: &str) -> Vec<u8> {
    match Head::read(message).and_then(|head| head.id) {
        Some(old) => splice(message, old.get(), id),
        None => message.to_vec(),
    }
}

/// Returns the JSON object `object` with `members` appended. `members` is JSON text: `"name":value`
/// pairs, joined by commas.
#[must_use]
pub fn append_members(object: &str, members: &str) -> String {
    let body = object.trim().strip_suffix('}').unwrap_or(object).trim_end();
    let comma = if members.is_empty() || body.ends_with('{') { "" } else { "," };
    format!("{body}{comma}{members}}}")
}

/// Returns the members of a JSON object in order, with verbatim values. Empty if `object` is not an
/// object.
#[must_use]
pub fn members(object: &str) -> Vec<(String, &RawValue)> {
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

/// Returns the verbatim value of the member `name` of a JSON object. `None` if the object lacks it.
#[must_use]
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a RawValue> {
    // An object that holds neither the name nor a `\u` escape cannot have the member: no parsing.
    let holds = |text: &str| memchr::memmem::find(object.as_bytes(), text.as_bytes()).is_some();
    if !holds(name) && !holds("\\u") {
        return None;
    }
    members(object).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Returns a JSON object with these members. Each is a name and the JSON text of its value.
#[must_use]
pub fn object<'a>(members: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Returns the JSON object `json` with its member `name` set to the JSON text `value`, or removed
/// if `value` is `None`. All other members keep their order and the text of their values. A text
/// that is not an object counts as `{}`.
#[must_use]
pub fn with_member(json: &str, name: &str, value: Option<&str>) -> String {
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
    fn id_is_replaced_in_place() {
        let message = br#"{"result":{"id":5,"n":1.50},"id": "a\u0062" ,"jsonrpc":"2.0"}"#;
        assert_eq!(
            with_id(message, "7"),
            br#"{"result":{"id":5,"n":1.50},"id": 7 ,"jsonrpc":"2.0"}"#
        );
        assert_eq!(with_id(b"{}", "7"), b"{}");
    }

    #[test]
    fn other_members_remain_verbatim() {
        let object = r#"{"b": 1.0, "a":{"x":[1, 2]} }"#;
        assert_eq!(with_member(object, "b", Some("2")), r#"{"b":2,"a":{"x":[1, 2]}}"#);
        assert_eq!(with_member(object, "c", Some("2")), r#"{"b":1.0,"a":{"x":[1, 2]},"c":2}"#);
        assert_eq!(with_member(object, "a", None), r#"{"b":1.0}"#);
        assert_eq!(append_members("{ }", r#""a":1"#), r#"{"a":1}"#);
        assert_eq!(append_members(r#"{"b":1} "#, r#""a":1"#), r#"{"b":1,"a":1}"#);
        assert_eq!(member(r#"{"\u0061":1}"#, "a").map(RawValue::get), Some("1"));
    }
}
