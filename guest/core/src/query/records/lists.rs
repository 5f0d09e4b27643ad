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

    /// Returns the JSON Pointer of the list to which `names` lead, if the records belong to another
    /// list or to none. The first names may be those of variables. `None` if there is no such list.
    pub(in crate::query) fn list_named(&self, names: &[String]) -> Option<String> {
        let own = self.list_keys();
        let keys = (0..names.len()).filter_map(|from| names.get(from..)).find(|names| {
            let follow = |id, name: &String| Some(self.outline.member(id, name)?.0);
            let target = names.iter().try_fold(self.root, follow);
            let node = target.and_then(|id| self.outline.node(id));
            node.is_some_and(|node| node.kind == Kind::Array)
        })?;
        let pointer = |key: &String| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        (keys != own.as_slice()).then(|| keys.iter().map(pointer).collect())
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
