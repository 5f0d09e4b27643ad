//! YAML documents as JSON.
//!
//! Plain scalars that are numbers, booleans or null in JSON keep these types; all others become
//! texts. Keys become texts. Aliases are copied, and `<<` merges mappings.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use yaml_rust2::Event;
use yaml_rust2::parser::{Parser, Tag};
use yaml_rust2::scanner::TScalarStyle;

use crate::json::scan::is_json;
use crate::json::text::{Form, quoted};
use crate::text::kind::Kind;
use crate::text::lines::IndexedText;

/// The maximum size of a text, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// The maximum depth of values, including those that aliases repeat. Writing is recursive.
const MAX_DEPTH: usize = 60;
/// The maximum size of a document as JSON, in bytes, including values that aliases repeat.
const MAX_JSON_BYTES: usize = 48 * 1024 * 1024;

/// A value of a document.
struct YamlNode {
    value: YamlValue,
    /// The number of nested levels in this value.
    depth: usize,
    /// The maximum number of bytes of the value as JSON.
    bytes: usize,
}

enum YamlValue {
    /// A scalar as JSON.
    Scalar(String),
    Sequence(Vec<Rc<YamlNode>>),
    Mapping(Vec<(String, Rc<YamlNode>)>),
}

/// A list or mapping whose end was not read yet.
struct OpenContainer {
    anchor: usize,
    /// The elements of a list, or alternating keys and values of a mapping.
    parts: Vec<Rc<YamlNode>>,
    /// For each part of a mapping, true if it is an unquoted `<<`.
    merges: Vec<bool>,
    is_mapping: bool,
}

/// Converts a YAML text to JSON: the document, or a list of several. `None` if the text is not
/// YAML, may have another format, or exceeds a limit. O(text + repeated values).
pub(super) fn to_json(text: &str) -> Option<Vec<u8>> {
    let is_marked = text.starts_with("---") || text.starts_with("%YAML");
    let indexed = IndexedText::new(text.as_bytes(), Form::Raw);
    if text.len() > MAX_TEXT_BYTES
        || matches!(Kind::detect(&indexed), Kind::Log | Kind::Diff | Kind::Markup)
    {
        return None;
    }
    let documents = read(text)?;
    if documents.is_empty() || !(is_marked || documents.iter().all(|node| is_evident(node))) {
        return None;
    }
    let bytes = documents.iter().map(|node| node.bytes).fold(2, usize::saturating_add);
    if bytes > MAX_JSON_BYTES {
        return None;
    }
    let mut out = Vec::new();
    match documents.as_slice() {
        [document] => write(document, &mut out),
        documents => write_list(documents, &mut out),
    }
    Some(out)
}

/// Returns true if a document without a marker can only be YAML: a mapping whose keys are words,
/// with several members or a container, or a list of containers. A list of texts may be Markdown,
/// and a single line may be a sentence with a colon.
fn is_evident(document: &YamlNode) -> bool {
    let is_container = |node: &Rc<YamlNode>| !matches!(node.value, YamlValue::Scalar(_));
    match &document.value {
        YamlValue::Scalar(_) => false,
        YamlValue::Sequence(elements) => !elements.is_empty() && elements.iter().all(is_container),
        YamlValue::Mapping(members) => {
            let are_words = members.iter().all(|(key, _)| !key.contains(char::is_whitespace));
            are_words && (members.len() > 1 || members.iter().any(|(_, node)| is_container(node)))
        }
    }
}

/// Reads the non-empty documents of a text. `None` if it is invalid or exceeds a limit.
fn read(text: &str) -> Option<Vec<Rc<YamlNode>>> {
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    let mut anchors: HashMap<usize, Rc<YamlNode>> = HashMap::new();
    let mut open: Vec<OpenContainer> = Vec::new();
    loop {
        let mut is_merge = false;
        let (node, anchor) = match parser.next_token().ok()?.0 {
            Event::StreamEnd => return Some(documents),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MAX_DEPTH => {
                return None;
            }
            Event::SequenceStart(anchor, _) => {
                open.push(OpenContainer::new(anchor, false));
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push(OpenContainer::new(anchor, true));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let container = open.pop()?;
                let anchor = container.anchor;
                (Rc::new(container.into_node()?), anchor)
            }
            Event::Scalar(text, style, anchor, tag) => {
                is_merge = style == TScalarStyle::Plain && text == "<<";
                let json = scalar(&text, style, tag.as_ref());
                let bytes = json.len();
                (Rc::new(YamlNode { value: YamlValue::Scalar(json), depth: 1, bytes }), anchor)
            }
            // An alias to a value that contains it has no anchor yet.
            Event::Alias(anchor) => (Rc::clone(anchors.get(&anchor)?), 0),
            Event::Nothing | Event::StreamStart | Event::DocumentStart | Event::DocumentEnd => {
                continue;
            }
        };
        if anchor > 0 {
            anchors.insert(anchor, Rc::clone(&node));
        }
        match open.last_mut() {
            Some(container) => {
                container.parts.push(node);
                container.merges.push(is_merge);
            }
            None if matches!(&node.value, YamlValue::Scalar(json) if json == "null") => {}
            None => documents.push(node),
        }
    }
}

impl OpenContainer {
    fn new(anchor: usize, is_mapping: bool) -> Self {
        Self { anchor, parts: Vec::new(), merges: Vec::new(), is_mapping }
    }

    /// Completes the container. `None` if a key occurs twice, or a limit is exceeded.
    fn into_node(self) -> Option<YamlNode> {
        let Self { parts, merges, is_mapping, .. } = self;
        let value = if is_mapping {
            YamlValue::Mapping(members(&parts, &merges)?)
        } else {
            YamlValue::Sequence(parts)
        };
        let (mut depth, mut bytes) = (1, 2usize);
        let mut add = |key: usize, node: &YamlNode| {
            depth = depth.max(node.depth + 1);
            bytes = bytes.saturating_add(node.bytes).saturating_add(key);
        };
        match &value {
            YamlValue::Scalar(_) => {}
            YamlValue::Sequence(elements) => elements.iter().for_each(|node| add(1, node)),
            YamlValue::Mapping(members) => {
                members.iter().for_each(|(key, node)| add(quoted(key).len() + 2, node));
            }
        }
        (depth <= MAX_DEPTH && bytes <= MAX_JSON_BYTES).then_some(YamlNode { value, depth, bytes })
    }
}

/// Returns the members of a mapping from its alternating keys and values. Applies merges. `None` if
/// the mapping is invalid.
fn members(parts: &[Rc<YamlNode>], merges: &[bool]) -> Option<Vec<(String, Rc<YamlNode>)>> {
    let (mut members, mut merged) = (Vec::new(), Vec::new());
    let mut known = HashSet::new();
    for (pair, is_merge) in parts.chunks(2).zip(merges.iter().step_by(2)) {
        let [key, value] = pair else { return None };
        match (&value.value, is_merge) {
            (YamlValue::Mapping(_), true) => merged.push(Rc::clone(value)),
            (YamlValue::Sequence(several), true) => merged.extend(several.iter().cloned()),
            _ => {
                let key = key_text(key)?;
                if !known.insert(key.clone()) {
                    return None;
                }
                members.push((key, Rc::clone(value)));
            }
        }
    }
    // Own members and earlier mappings come before merged ones.
    for mapping in merged {
        let YamlValue::Mapping(inherited) = &mapping.value else { return None };
        for (key, value) in inherited {
            if known.insert(key.clone()) {
                members.push((key.clone(), Rc::clone(value)));
            }
        }
    }
    Some(members)
}

/// Returns a key as text. A container becomes its JSON. `None` if that is too long.
fn key_text(key: &YamlNode) -> Option<String> {
    let mut json = Vec::new();
    if key.bytes > 4_096 && !matches!(key.value, YamlValue::Scalar(_)) {
        return None;
    }
    write(key, &mut json);
    let text = String::from_utf8(json).ok()?;
    Some(serde_json::from_str::<String>(&text).unwrap_or(text))
}

/// Returns a scalar as JSON.
fn scalar(text: &str, style: TScalarStyle, tag: Option<&Tag>) -> String {
    let is_text = style != TScalarStyle::Plain
        || tag.is_some_and(|tag| tag.suffix == "str" || tag.suffix == "binary");
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && is_json(text.as_bytes(), Form::Raw);
    match text {
        _ if is_text => String::from_utf8(quoted(text)).unwrap_or_default(),
        "" | "~" | "null" | "Null" | "NULL" => "null".to_owned(),
        "true" | "True" | "TRUE" => "true".to_owned(),
        "false" | "False" | "FALSE" => "false".to_owned(),
        text if is_number && text != "-Infinity" => text.to_owned(),
        text => String::from_utf8(quoted(text)).unwrap_or_default(),
    }
}

fn write_list(elements: &[Rc<YamlNode>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, element) in elements.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

fn write(node: &YamlNode, out: &mut Vec<u8>) {
    match &node.value {
        YamlValue::Scalar(json) => out.extend_from_slice(json.as_bytes()),
        YamlValue::Sequence(elements) => write_list(elements, out),
        YamlValue::Mapping(members) => {
            out.push(b'{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend(quoted(key));
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        to_json(text).map_or("none".to_owned(), |json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn values_have_the_types_of_json() {
        assert_eq!(
            json(
                "# Pods\na: 1\nb: [x, 2.50, 007, ~]\n? c d\n: |\n  x\n  y\ne: '1'\nf: !!str 1\n1: yes\n"
            ),
            "none"
        );
        assert_eq!(
            json(
                "---\na: 1\nb: [x, 2.50, 007, ~]\n\"c d\": |\n  x\n  y\ne: '1'\nf: !!str 1\n1: True\ng: .inf\n"
            ),
            r#"{"a":1,"b":["x",2.50,"007",null],"c d":"x\ny\n","e":"1","f":"1","1":true,"g":".inf"}"#
        );
    }

    #[test]
    fn streams_are_lists() {
        assert_eq!(
            json("kind: Pod\nname: a\n---\nkind: Job\nname: b\n---\n"),
            r#"[{"kind":"Pod","name":"a"},{"kind":"Job","name":"b"}]"#
        );
    }

    #[test]
    fn aliases_are_copied_and_merged() {
        assert_eq!(
            json("base: &b\n  x: 1\n  y: 2\none:\n  y: 3\n  <<: *b\ntwo: [*b]\n"),
            r#"{"base":{"x":1,"y":2},"one":{"y":3,"x":1},"two":[{"x":1,"y":2}]}"#
        );
    }

    #[test]
    fn other_texts_are_not_converted() {
        for text in [
            "just words",
            "Note: a sentence",
            "A heading: words\nAnother one: words\n",
            "- one\n- two\n",
            "a: 1\na: 2\n",
            "a: [1\n",
            "INFO: a: b\n",
            "a: &a [*a]\nb: 1\n",
            "",
        ] {
            assert_eq!(json(text), "none", "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_json_or_refused(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", ": ", "\n", "  ", "- ", "[", "]", "{", "}", ",", "&a ", "*a", "!!str ", "|\n",
                    ">-\n", "'", "\"", "? ", "<<: ", "---\n", "...\n", "#", "\t", "%YAML", "1", "é",
                    "\u{feff}", "\r\n", "~", "\\x41", "@", "\u{0}",
                ]),
                0..40,
            ),
        ) {
            let text = format!("---\n{}", parts.concat());
            if let Some(json) = to_json(&text) {
                proptest::prop_assert!(is_json(&json, Form::Raw), "{text:?}");
            }
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..20 {
            let before = level - 1;
            let aliases = vec![format!("*a{before}"); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert_eq!(json(&bomb), "none");
        let mut chain = "---\nb0: &b0 [x]\n".to_owned();
        for level in 1..5_000 {
            chain.push_str(&format!("b{level}: &b{level} [*b{}]\n", level - 1));
        }
        assert_eq!(json(&chain), "none");
        for part in ["[", "{", "- ", "? ", "a: ", "&a ", "!a ", "{a: ", "*", "\"", "|\n ", "- - "] {
            let text = format!("---\n{}", part.repeat(20_000));
            assert!(json(&text).len() < 100_000, "{part}");
        }
    }
}
