//! The lists of a document other than that of the records.

use super::RecordSet;
use crate::json::outline::NodeId;
use crate::json::scan::Kind;

/// The maximum number of lists in a message.
const MAX_NAMED_LISTS: usize = 8;
/// The maximum number of lists that are examined for the fields of a query.
const MAX_RECORD_LISTS: usize = 64;

impl RecordSet<'_> {
    /// Replaces the records by their elements if a path selected lists of objects, and nothing
    /// else, as `$.ports[*].calls` does. A condition on a list would be one on any of its elements.
    pub(in crate::query) fn open_lists(&mut self) {
        let is =
            |id: NodeId, kind: Kind| self.outline.node(id).is_some_and(|node| node.kind == kind);
        if !self.is_selection || !self.ids.iter().all(|id| is(*id, Kind::Array)) {
            return;
        }
        let elements = self.ids.iter().flat_map(|id| self.outline.children(*id));
        let elements: Vec<NodeId> = elements.map(|(id, _)| id).collect();
        if !elements.is_empty() && elements.iter().all(|id| is(*id, Kind::Object)) {
            self.ids = elements;
        }
    }

    /// Returns the JSONPath of the list to which `names` lead, if the records belong to another
    /// list. `None` if there is no such list, or if a path selected the records.
    #[must_use]
    pub fn other_list(&self, names: &[String]) -> Option<String> {
        let own = &self.around.as_ref()?.keys;
        // The first names may be those of variables.
        let found = (0..names.len()).filter_map(|from| names.get(from..)).find(|names| {
            let follow = |id, name: &String| Some(self.outline.member(id, name)?.0);
            let target = names.iter().try_fold(self.root, follow);
            let node = target.and_then(|id| self.outline.node(id));
            node.is_some_and(|node| node.kind == Kind::Array)
        })?;
        (found != own.as_slice()).then(|| format!("$.{}", found.join(".")))
    }

    /// Returns the JSON Pointer of the list to which `names` lead, ignoring case, if the records
    /// belong to another list or to none. The first names may be those of variables, and one name
    /// may be that of a list inside objects. `None` if there is no such list.
    pub(in crate::query) fn list_named(&self, names: &[String]) -> Option<String> {
        let own = self.list_keys();
        let follow = |at: (NodeId, Vec<String>), name: &String| {
            let member = |is: &dyn Fn(&str) -> bool| {
                let mut members = self.outline.children(at.0);
                members.find(|(_, node)| is(&self.outline.step(&node.key)))
            };
            let exact = member(&|step| step == name);
            let (id, node) = exact.or_else(|| member(&|step| step.eq_ignore_ascii_case(name)))?;
            let step = self.outline.step(&node.key);
            Some((id, [at.1.as_slice(), &[step]].concat()))
        };
        let root = || (self.root, Vec::new());
        let is_list =
            |id: &NodeId| self.outline.node(*id).is_some_and(|node| node.kind == Kind::Array);
        let found = (0..names.len())
            .filter_map(|from| names.get(from..)?.iter().try_fold(root(), follow))
            .find(|(id, _)| is_list(id));
        if let Some((_, keys)) = found {
            let pointer: String = keys.iter().map(|key| format!("/{key}")).collect();
            return (keys != own).then_some(pointer);
        }
        let [name] = names else { return None };
        let is_named = |path: &str| {
            path.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(name))
        };
        let mut lists = self.record_lists().into_iter().filter(|(path, _)| is_named(path));
        let (path, _) = lists.next()?;
        let is_own = self.list_path().is_some_and(|own| own == path);
        (lists.next().is_none() && !is_own).then_some(path)
    }

    /// Returns true if a member of the document's objects, or of the first record, has this name,
    /// ignoring case. O(document).
    pub(in crate::query) fn has_key(&self, name: &str) -> bool {
        let first = self.ids.first().filter(|_| self.is_list);
        self.has_key_in(self.root, name) || first.is_some_and(|id| self.has_key_in(*id, name))
    }

    fn has_key_in(&self, id: NodeId, name: &str) -> bool {
        self.outline.children(id).any(|(child, node)| {
            let is_container = matches!(node.kind, Kind::Array | Kind::Object);
            is_container && self.outline.step(&node.key).eq_ignore_ascii_case(name)
                || node.kind == Kind::Object && self.has_key_in(child, name)
        })
    }

    /// Returns the lists of objects in `root` that are not inside other lists, each with its JSON
    /// Pointer and the nodes of its elements. O(document).
    pub(in crate::query) fn record_lists(&self) -> Vec<(String, Vec<NodeId>)> {
        let mut lists = Vec::new();
        self.add_record_lists(self.root, "", &mut lists);
        lists
    }

    fn add_record_lists(&self, id: NodeId, path: &str, lists: &mut Vec<(String, Vec<NodeId>)>) {
        for (child, node) in self.outline.children(id) {
            if lists.len() >= MAX_RECORD_LISTS {
                return;
            }
            let path = || format!("{path}/{}", self.outline.step(&node.key));
            match node.kind {
                Kind::Array => {
                    let ids: Vec<NodeId> =
                        self.outline.children(child).map(|(element, _)| element).collect();
                    let is_object = |id: &NodeId| {
                        self.outline.node(*id).is_some_and(|node| node.kind == Kind::Object)
                    };
                    if !ids.is_empty() && ids.iter().all(is_object) {
                        lists.push((path(), ids));
                    }
                }
                Kind::Object => self.add_record_lists(child, &path(), lists),
                _ => {}
            }
        }
    }

    /// Returns the JSON Pointers of the lists of several elements in `root` that are not inside
    /// other lists, each with the number of elements: `/a/b (12 items)`. At most eight.
    /// O(document).
    #[must_use]
    pub fn lists(&self) -> Vec<String> {
        let mut lists = Vec::new();
        self.add_lists(self.root, "", &mut lists);
        lists
    }

    fn add_lists(&self, id: NodeId, path: &str, lists: &mut Vec<String>) {
        for (child, node) in self.outline.children(id) {
            if lists.len() >= MAX_NAMED_LISTS {
                return;
            }
            let path = || format!("{path}/{}", self.outline.step(&node.key));
            match node.kind {
                Kind::Array if node.children > 1 => {
                    lists.push(format!("{} ({} items)", path(), node.children));
                }
                Kind::Object if node.children > 0 => self.add_lists(child, &path(), lists),
                _ => {}
            }
        }
    }
}
