//! Removes values that policy strips from JSON: nulls, empty values, repeated objects, named
//! members. The other values keep their order.

use std::collections::BTreeMap;

use crate::fields::minify;
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::quoted;
use crate::policy::Strip;

/// The minimum size, in bytes, of a repeated object that is replaced by a reference to its first
/// occurrence.
const MIN_REPEAT_BYTES: usize = 64;

/// Returns a document as unescaped JSON. Removes members whose values are null or empty, as `strip`
/// says, and those whose names match the patterns `fields`. Replaces repeated objects of at least
/// 64 bytes by a reference to the first. Elements of lists are not removed, and an object that
/// becomes empty remains. O(n).
#[must_use]
pub fn strip(outline: &Outline<'_>, strip: &[Strip], fields: &[String]) -> Vec<u8> {
    let mut stripper = Stripper {
        outline,
        nulls: strip.contains(&Strip::Nulls),
        empty: strip.contains(&Strip::Empty),
        repeats: strip.contains(&Strip::Repeats),
        fields,
        seen: BTreeMap::new(),
        path: String::new(),
    };
    let mut out = Vec::new();
    stripper.write(&mut out, 0);
    out
}

/// Returns a list of objects as a header and rows: `{"columns":[…],"rows":[[…],…]}`. `None` if the
/// value is no list of objects, or if these have no keys, other keys or another order of keys.
#[must_use]
pub fn columns(outline: &Outline<'_>, id: NodeId) -> Option<Vec<u8>> {
    let keys = |id: NodeId| -> Option<Vec<Vec<u8>>> {
        (outline.node(id)?.kind == Kind::Object).then(|| {
            outline
                .children(id)
                .map(|(_, member)| outline.inner(&member.key).into_owned())
                .collect()
        })
    };
    // An object of records would lose its member names in rows.
    outline.node(id).filter(|node| node.kind == Kind::Array)?;
    let mut elements = outline.children(id).map(|(id, _)| id);
    let header = keys(elements.next()?)?;
    if header.is_empty() || elements.any(|id| keys(id).as_ref() != Some(&header)) {
        return None;
    }
    let mut out = b"{\"columns\":[".to_vec();
    let names: Vec<Vec<u8>> =
        header.iter().map(|key| [b"\"", key.as_slice(), b"\""].concat()).collect();
    out.extend(names.join(&b','));
    out.extend_from_slice(b"],\"rows\":[");
    for (at, (row, _)) in outline.children(id).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let values: Vec<Vec<u8>> =
            outline.children(row).map(|(_, value)| minify(&outline.raw(value))).collect();
        out.push(b'[');
        out.extend(values.join(&b','));
        out.push(b']');
    }
    out.extend_from_slice(b"]}");
    Some(out)
}

struct Stripper<'s, 'a> {
    outline: &'s Outline<'a>,
    nulls: bool,
    empty: bool,
    repeats: bool,
    fields: &'s [String],
    /// The path of the first object with each content, by a hash of the content.
    seen: BTreeMap<u128, String>,
    path: String,
}

impl Stripper<'_, '_> {
    fn goes(&self, node: &Node) -> bool {
        let raw = self.outline.raw(node);
        let named = || {
            let name = self.outline.decoded(&node.key);
            self.fields.iter().any(|field| context_guard_protocol::glob::matches(field, &name))
        };
        (self.nulls && raw.as_ref() == b"null")
            || (self.empty
                && node.kind != Kind::Scalar
                && node.children == 0
                && !node.closed
                && node.span.len() <= 2
                && matches!(minify(&raw).as_slice(), b"{}" | b"[]" | b"\"\""))
            || (!self.fields.is_empty() && !node.key.is_empty() && named())
    }

    fn write(&mut self, out: &mut Vec<u8>, id: NodeId) {
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return };
        let container = !node.closed && node.children > 0;
        match node.kind {
            Kind::Object if container => {
                if self.repeats && node.span.len() >= MIN_REPEAT_BYTES {
                    let hash = xxhash_rust::xxh3::xxh3_128(&minify(&outline.raw(node)));
                    if let Some(first) = self.seen.get(&hash) {
                        out.extend_from_slice(b"{\"$ref\":");
                        out.extend(quoted(&format!("#{first}")));
                        return out.push(b'}');
                    }
                    self.seen.insert(hash, self.path.clone());
                }
                let start = out.len();
                out.push(b'{');
                for (child, member) in outline.children(id) {
                    if self.goes(member) {
                        continue;
                    }
                    if out.len() > start + 1 {
                        out.push(b',');
                    }
                    outline.write_key(out, member);
                    let name = outline.step(&member.key);
                    self.inside(out, child, &name);
                }
                out.push(b'}');
            }
            // Elements are never removed, because their position may have a meaning.
            Kind::Array if container => {
                out.push(b'[');
                for (at, (child, _)) in outline.children(id).enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.inside(out, child, &at.to_string());
                }
                out.push(b']');
            }
            _ => out.extend(minify(&outline.raw(node))),
        }
    }

    fn inside(&mut self, out: &mut Vec<u8>, child: NodeId, step: &str) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(step);
        self.write(out, child);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    fn stripped(json: &str, what: &[Strip], fields: &[&str]) -> String {
        let outline = Outline::parse(json.as_bytes(), Form::Raw, &(0..json.len())).unwrap();
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        String::from_utf8(strip(&outline, what, &fields)).unwrap()
    }

    #[test]
    fn policy_members_are_stripped() {
        let json = r#"{"a":null,"b":{},"c":[null,{}],"d":"","debug_sql":"x","e":1.50}"#;
        assert_eq!(
            stripped(json, &[Strip::Nulls], &[]),
            r#"{"b":{},"c":[null,{}],"d":"","debug_sql":"x","e":1.50}"#
        );
        assert_eq!(
            stripped(json, &[Strip::Nulls, Strip::Empty], &["debug_*"]),
            r#"{"c":[null,{}],"e":1.50}"#
        );
    }

    #[test]
    fn repeats_refer_to_first_occurrence() {
        let user = r#"{"login":"octocat","id":583231,"type":"User","site_admin":false,"name":"The Octocat"}"#;
        let json = format!(r#"[{{"user":{user}}},{{"user":{user}}}]"#);
        assert_eq!(
            stripped(&json, &[Strip::Repeats], &[]),
            format!(r##"[{{"user":{user}}},{{"$ref":"#/0"}}]"##)
        );
    }

    #[test]
    fn uniform_list_becomes_columns_and_rows() {
        let json = r#"[{"a":1,"b":"x"},{"a":2.0,"b":null}]"#;
        let outline = Outline::parse(json.as_bytes(), Form::Raw, &(0..json.len())).unwrap();
        assert_eq!(
            columns(&outline, 0).unwrap(),
            br#"{"columns":["a","b"],"rows":[[1,"x"],[2.0,null]]}"#
        );
        let map = r#"{"x":{"a":1},"y":{"a":2}}"#;
        let outline = Outline::parse(map.as_bytes(), Form::Raw, &(0..map.len())).unwrap();
        assert_eq!(columns(&outline, 0), None);
        let odd = r#"[{"a":1},{"b":2}]"#;
        let outline = Outline::parse(odd.as_bytes(), Form::Raw, &(0..odd.len())).unwrap();
        assert_eq!(columns(&outline, 0), None);
    }
}
