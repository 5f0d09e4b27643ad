//! Documents whose records are the members of an object, such as hosts by their names.

use std::collections::HashMap;

use super::RecordSet;
use crate::json::outline::{Node, NodeId};
use crate::json::scan::Kind;
use crate::json::text::Form;

/// The maximum nesting depth of the object whose members are records.
const MAX_LEVELS: usize = 6;
/// The names for the member that holds the key of a record. The first that no record has is used.
const KEY_NAMES: [&str; 2] = ["key", "_key"];

/// A document in which the members of an object are converted to the elements of a list.
pub(in crate::query) struct MembersAsList {
    pub(in crate::query) json: Vec<u8>,
    /// A note for the answer that describes the conversion.
    pub(in crate::query) note: String,
    /// True if the members are objects, false if they are single values.
    pub(in crate::query) are_objects: bool,
}

impl RecordSet<'_> {
    /// Returns the document with the members of an object as a list of records, each with its key.
    /// The object is `target` or, if that is `None`, one that makes up at least half of the
    /// document. `None` if there is no such object, or if its members have different shapes.
    /// O(document).
    pub(in crate::query) fn members_as_list(
        &self,
        target: Option<NodeId>,
    ) -> Option<MembersAsList> {
        let outline = &self.outline;
        if outline.form() != Form::Raw || !outline.is_complete() {
            return None;
        }
        let are_scalars = |id: NodeId| {
            let is_scalar = |node: &Node| matches!(node.kind, Kind::Scalar | Kind::String);
            outline.children(id).count() > 1
                && outline.children(id).all(|(_, node)| is_scalar(node))
        };
        let (id, are_objects) = match target {
            Some(id) if self.are_alike(id, false) => (id, true),
            Some(id) if are_scalars(id) => (id, false),
            Some(_) => return None,
            None => (self.largest_map()?, true),
        };
        let is_key = |name: &&&str| {
            !outline.children(id).any(|(record, _)| outline.member(record, name).is_some())
        };
        let name = KEY_NAMES.iter().find(is_key)?;
        let map = outline.node(id)?;
        let bytes = outline.bytes();
        let mut json = bytes.get(..map.span.start)?.to_vec();
        json.push(b'[');
        for (at, (_, member)) in outline.children(id).enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(format!("{{\"{name}\":\"").as_bytes());
            json.extend_from_slice(bytes.get(member.key.clone())?);
            json.push(b'"');
            let value = outline.raw(member);
            match are_objects {
                true if member.children > 0 => json.push(b','),
                true => {}
                false => json.extend_from_slice(b",\"value\":"),
            }
            json.extend_from_slice(if are_objects { value.get(1..)? } else { &value });
            if !are_objects {
                json.push(b'}');
            }
        }
        json.push(b']');
        json.extend_from_slice(bytes.get(map.span.end..)?);
        let place = match self.pointer(id) {
            path if path.is_empty() => "the document".to_owned(),
            path => path,
        };
        let note =
            format!("the members of {place} were read as records, with their names as {name}");
        Some(MembersAsList { json, note, are_objects })
    }

    /// Returns the outermost object whose members have a common shape, and which makes up at least
    /// half of the document.
    fn largest_map(&self) -> Option<NodeId> {
        let whole = self.outline.node(self.root)?.span.len();
        let mut at = self.root;
        for _ in 0..MAX_LEVELS {
            if self.are_alike(at, true) {
                return Some(at);
            }
            let objects = self.outline.children(at).filter(|(_, node)| node.kind == Kind::Object);
            let (id, node) = objects.max_by_key(|(_, node)| node.span.len())?;
            if node.span.len() * 2 < whole {
                return None;
            }
            at = id;
        }
        None
    }

    /// Returns true if an object has at least two members, all of them objects with a common member
    /// name. If `mostly`, they must share at least half of the names of the first.
    fn are_alike(&self, id: NodeId, mostly: bool) -> bool {
        let outline = &self.outline;
        let members: Vec<NodeId> = outline.children(id).map(|(id, _)| id).collect();
        let is_object = |id: NodeId| outline.node(id).is_some_and(|node| node.kind == Kind::Object);
        if !is_object(id) || members.len() < 2 || !members.iter().all(|id| is_object(*id)) {
            return false;
        }
        let (shared, all) = self.shared_names(&members);
        shared > 0 && (!mostly || shared * 2 >= all)
    }

    /// Returns the number of names that all of `objects` have, and the number of names of the first
    /// one. Walks each object once, because an object may have as many members as the document has
    /// bytes. O(objects).
    pub(super) fn shared_names(&self, objects: &[NodeId]) -> (usize, usize) {
        let outline = &self.outline;
        let mut counts: HashMap<String, usize> = HashMap::new();
        let (mut shared, mut all) = (0, 0);
        for (at, object) in objects.iter().enumerate() {
            shared = 0;
            for (_, member) in outline.children(*object) {
                let name = outline.decoded(&member.key);
                let count = match at {
                    0 => Some(counts.entry(name).or_default()),
                    _ => counts.get_mut(&name),
                };
                // A name may occur twice in one object.
                if let Some(count) = count.filter(|count| **count == at) {
                    *count += 1;
                    shared += 1;
                }
            }
            if at == 0 {
                all = counts.len();
            }
        }
        (shared, all)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::EndpointSettings;
    use crate::query::Condition;
    use crate::query::records::RecordSet;

    #[test]
    fn names_that_all_objects_have_are_counted() {
        let limits = EndpointSettings::default();
        let json = br#"{"a":{"x":1,"x":2,"y":3},"b":{"y":1,"x":1,"z":1},"c":{"x":0,"x":0}}"#;
        let records = RecordSet::locate(json, &limits).unwrap();
        let members: Vec<_> = records.outline.children(0).map(|(id, _)| id).collect();
        assert_eq!(records.shared_names(&members), (1, 2));
        assert_eq!(records.shared_names(&members[..2]), (2, 2));
    }

    #[test]
    fn objects_with_many_members_are_read_once() {
        let members: Vec<String> = (0..20_000).map(|at| format!("\"name {at}\":{at}")).collect();
        let members = members.join(",");
        let json = format!("{{\"en\":{{{members}}},\"de\":{{{members}}}}}");
        let limits = EndpointSettings::default();
        let mut records = RecordSet::locate(json.as_bytes(), &limits).unwrap();
        assert!(records.take_members(false));
        let found = Condition::parse("\"name 19999\" = 19999").unwrap().select(&records).unwrap();
        assert_eq!(found.ids.len(), 2);
        let other = format!("{{\"en\":{{{members}}},\"de\":{{\"x\":1}}}}");
        assert!(!RecordSet::locate(other.as_bytes(), &limits).unwrap().take_members(false));
    }
}
