//! The records of a payload: the elements of its list, the lines of NDJSON, or the document itself.

mod attributes;
mod lists;
mod map;

use std::borrow::Cow;

use super::names::join_names;
use super::needed::NeededFields;
use super::path::Path;
use super::projected::{Projected, ProjectionSource};
use crate::fields::Mask;
use crate::fields::minify;
use crate::json::Span;
use crate::json::locate_lists::{DocumentInfo, List};
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::{Form, visible};
use crate::policy::EndpointSettings;
use crate::text::embedded::{locate_document, locate_lines};

/// The records of a payload: the elements of its list or, without a list, the document itself.
#[derive(Clone, Debug)]
pub struct RecordSet<'a> {
    /// The outline of the document that contains the records.
    pub outline: Outline<'a>,
    /// The node of the document, or of the value in it that a path selected.
    pub root: NodeId,
    /// The nodes of the records.
    pub ids: Vec<NodeId>,
    /// True if the records are elements of a list, or values that a path selects. False if `root`
    /// itself is the only record.
    pub is_list: bool,
    /// The JSON Pointer of `root` in the document.
    base: String,
    /// True if the records are values that a path selects, not all elements of one list.
    is_selection: bool,
    /// The position of the list of records in the document. `None` if the list is the document
    /// itself, or a path selected it.
    around: Option<Surroundings>,
}

/// The position of a list in a document, as the parts of the document around it.
#[derive(Clone, Debug)]
struct Surroundings {
    /// The keys from the root of the document to the list.
    keys: Vec<String>,
    /// The span of the document's bytes before the list.
    before: Span,
    /// The span of the document's bytes after the list.
    after: Span,
}

/// The parts of a document around its list of records, without insignificant white space. Another
/// list can take its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEnvelope {
    /// The keys from the root of the document to the list.
    pub keys: Vec<String>,
    /// The bytes of the document before the list.
    pub before: Vec<u8>,
    /// The bytes of the document after the list.
    pub after: Vec<u8>,
}

impl ListEnvelope {
    /// Returns the parts of a document around `list`. `None` if the list is the document itself.
    #[must_use]
    pub fn around(bytes: &[u8], form: Form, survey: &DocumentInfo, list: &List) -> Option<Self> {
        let part = |span: Span| minify(&visible(bytes.get(span).unwrap_or_default(), form));
        (!list.path.is_empty()).then(|| Self {
            keys: list.path.clone(),
            before: part(survey.root.start..list.span.start),
            after: part(list.span.end..survey.root.end),
        })
    }

    /// Returns an envelope for a list that is already the member `key` of its document, so that
    /// nothing is added around it.
    #[must_use]
    pub fn member(key: &str) -> Self {
        Self { keys: vec![key.to_owned()], before: Vec::new(), after: Vec::new() }
    }

    /// Returns true if the list is part of its document already, so that nothing is added around
    /// it.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.before.is_empty()
    }

    /// Returns the document with `list` in place of its list of records.
    #[must_use]
    pub fn wrap(&self, list: &[u8]) -> Vec<u8> {
        [self.before.as_slice(), list, &self.after].concat()
    }
}

/// The value or values that a path selects.
pub enum PathTarget<'a> {
    /// A single string, decoded.
    Text(String),
    /// Any other single value, or several values, as records.
    Records(RecordSet<'a>),
}

impl<'a> RecordSet<'a> {
    /// Finds the records of an unescaped payload. Returns `None` if the payload has no JSON object
    /// or list: neither as a whole, nor as NDJSON, nor between words.
    #[must_use]
    pub fn locate(raw: &'a [u8], limits: &EndpointSettings) -> Option<Self> {
        let survey =
            DocumentInfo::parse(raw, Form::Raw).filter(|survey| survey.kind != Kind::Scalar);
        if let Some(survey) = survey {
            return Self::from_document(raw, Form::Raw, &survey, limits, None);
        }
        Self::from_lines(raw).or_else(|| {
            let survey = locate_document(raw, Form::Raw)?;
            Self::from_document(raw, Form::Raw, &survey, limits, None)
        })
    }

    /// Finds the records of a JSON document in any form, each only with its fields `needed`. Faster
    /// than [`RecordSet::locate`], because it decodes nothing. `survey` has the lists of the
    /// payload, if they are known. Returns `None` if the payload is not a document with a list.
    #[must_use]
    pub(super) fn locate_fields(
        bytes: &'a [u8],
        form: Form,
        survey: Option<&DocumentInfo>,
        limits: &EndpointSettings,
        needed: &NeededFields,
    ) -> Option<Self> {
        let survey = match survey {
            Some(survey) => Cow::Borrowed(survey),
            None => Cow::Owned(DocumentInfo::parse(bytes, form)?),
        };
        record_list(&survey, limits)?;
        Self::from_document(bytes, form, &survey, limits, Some(needed))
    }

    fn from_document(
        bytes: &'a [u8],
        form: Form,
        survey: &DocumentInfo,
        limits: &EndpointSettings,
        needed: Option<&NeededFields>,
    ) -> Option<Self> {
        let list = record_list(survey, limits);
        let outline = match (needed, list) {
            (Some(needed), Some(list)) => {
                let mut filter = needed.filter(&list.path, form);
                let path = filter.path(0);
                Outline::parse_filtered(bytes, form, &survey.root, path, &mut filter)
            }
            _ => Outline::parse(bytes, form, &survey.root),
        };
        let outline = outline.ok()?;
        let Some(list) = list else {
            return Some(Self::of_ids(outline, vec![0], false));
        };
        let mut at = 0;
        for key in &list.path {
            at = outline.member(at, key)?.0;
        }
        let ids = outline.children(at).map(|(id, _)| id).collect();
        let around = (!list.path.is_empty()).then(|| Surroundings {
            keys: list.path.clone(),
            before: survey.root.start..list.span.start,
            after: list.span.end..survey.root.end,
        });
        Some(Self { around, ..Self::of_ids(outline, ids, true) })
    }

    /// Returns the lines of NDJSON as records. `None` if a non-empty line is invalid JSON.
    fn from_lines(raw: &'a [u8]) -> Option<Self> {
        let spans = locate_lines(raw, Form::Raw)?;
        let outline = Outline::parse_all(raw, Form::Raw, &spans).ok()?;
        let ids = outline.children(0).map(|(id, _)| id).collect();
        Some(Self::of_ids(outline, ids, true))
    }

    /// Creates a set of records from the nodes `ids` of a document.
    fn of_ids(outline: Outline<'a>, ids: Vec<NodeId>, is_list: bool) -> Self {
        Self {
            outline,
            root: 0,
            ids,
            is_list,
            base: String::new(),
            is_selection: false,
            around: None,
        }
    }

    /// Returns the value or values that a path selects from `root`.
    ///
    /// # Errors
    /// Returns a message for the caller if the path selects nothing or too many values, or takes
    /// too long.
    pub fn follow(mut self, path: &Path) -> Result<PathTarget<'a>, String> {
        let found = path.follow(&self.outline, self.root)?;
        let Some((id, node)) = found.first().and_then(|id| Some((*id, self.outline.node(*id)?)))
        else {
            let found = path.follow_through_lists(&self.outline, self.root);
            if found.is_empty() {
                return Err(self.leads_to_nothing());
            }
            return Ok(PathTarget::Records(self.selection(found)));
        };
        if path.is_many(&self.outline, self.root) {
            return Ok(PathTarget::Records(self.selection(found)));
        }
        match node.kind {
            Kind::String => Ok(PathTarget::Text(self.outline.decoded(&node.span))),
            // A path to the root changes nothing: the records remain those of its list.
            _ if id == self.root => Ok(PathTarget::Records(self)),
            kind => {
                self.is_list = kind == Kind::Array;
                self.ids = if self.is_list {
                    self.outline.children(id).map(|(id, _)| id).collect()
                } else {
                    vec![id]
                };
                self.base = self.pointer(id);
                self.root = id;
                self.around = None;
                Ok(PathTarget::Records(self))
            }
        }
    }

    /// Returns the values `ids`, which a path selects, as the records.
    fn selection(self, ids: Vec<NodeId>) -> Self {
        Self { is_selection: true, ids, is_list: true, around: None, ..self }
    }

    /// Returns the error for a path that selects nothing, with the existing members.
    pub(super) fn leads_to_nothing(&self) -> String {
        let known = crate::fields::mask::names(&self.outline, self.root);
        let known = if known.is_empty() {
            String::new()
        } else {
            format!("; the document has: {}", join_names(&known, 40))
        };
        format!("the path leads to nothing{known}")
    }

    /// Returns the JSON Pointer of the list of records in the document. `None` if the list is the
    /// document itself, or a path selected it.
    #[must_use]
    pub fn list_path(&self) -> Option<String> {
        let keys = &self.around.as_ref()?.keys;
        Some(
            keys.iter()
                .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")))
                .collect(),
        )
    }

    /// Returns the keys from the document to its list of records. Empty if the list is the document
    /// itself, or a path selected it.
    #[must_use]
    pub fn list_keys(&self) -> Vec<String> {
        self.around.as_ref().map_or_else(Vec::new, |around| around.keys.clone())
    }

    /// Returns the keys by which callers may name the list before a field: those of
    /// [`Self::list_keys`], or the last key of the path that selected the list.
    pub(super) fn list_names(&self) -> Vec<String> {
        let keys = self.list_keys();
        if !keys.is_empty() || !self.is_list {
            return keys;
        }
        let last = self.base.rsplit('/').next().filter(|key| !key.is_empty());
        last.map(|key| key.replace("~1", "/").replace("~0", "~")).into_iter().collect()
    }

    /// Removes the records for which `test` returns false.
    pub fn retain(&mut self, test: impl Fn(&Self, NodeId) -> bool) {
        let ids: Vec<NodeId> = self.ids.iter().copied().filter(|id| test(self, *id)).collect();
        self.ids = ids;
    }

    /// Removes the first `count` records.
    pub fn skip(&mut self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.ids.len());
        self.ids.drain(..count);
    }

    /// Returns the JSON Pointer of a node in the document.
    #[must_use]
    pub fn pointer(&self, id: NodeId) -> String {
        let (mut at, mut path) = (0, String::new());
        while at != id {
            let kind = self.outline.node(at).map(|node| node.kind);
            let mut children = self.outline.children(at).enumerate();
            let Some((index, (child, node))) =
                children.find(|(_, (child, node))| (*child..node.end).contains(&id))
            else {
                return path;
            };
            path.push('/');
            match kind {
                Some(Kind::Object) => path.push_str(&self.outline.step(&node.key)),
                _ => path.push_str(&index.to_string()),
            }
            at = child;
        }
        path
    }

    /// Makes the members of the object at `root` the records. They must be objects with a common
    /// member, unless `any` is true. Otherwise returns false, and changes nothing.
    pub fn take_members(&mut self, any: bool) -> bool {
        let is =
            |kind: Kind, id: NodeId| self.outline.node(id).is_some_and(|node| node.kind == kind);
        if self.is_list || !is(Kind::Object, self.root) {
            return false;
        }
        let members: Vec<NodeId> = self.outline.children(self.root).map(|(id, _)| id).collect();
        let are_objects = members.len() > 1 && members.iter().all(|id| is(Kind::Object, *id));
        let has_common = are_objects && self.shared_names(&members).0 > 0;
        if !any && !has_common {
            return false;
        }
        self.ids = members;
        self.is_list = true;
        self.is_selection = true;
        true
    }

    /// Returns the nodes to search, each with its JSON Pointer in the document. They are the
    /// records if `are_some` or if a path selected them, else only the root. O(document) for
    /// several.
    #[must_use]
    pub fn paths(&self, are_some: bool) -> Vec<(NodeId, String)> {
        if !self.is_list || !(are_some || self.is_selection) {
            return vec![(self.root, self.base.clone())];
        }
        self.paths_of(&self.ids)
    }

    /// Returns the nodes `ids`, each with its JSON Pointer in the document. O(document).
    #[must_use]
    pub fn paths_of(&self, ids: &[NodeId]) -> Vec<(NodeId, String)> {
        let wanted: std::collections::HashSet<NodeId> = ids.iter().copied().collect();
        let mut paths = Vec::new();
        let base = if self.root == 0 { String::new() } else { self.base.clone() };
        self.add_paths(self.root, &base, &wanted, &mut paths);
        paths
    }

    fn add_paths(
        &self,
        id: NodeId,
        path: &str,
        wanted: &std::collections::HashSet<NodeId>,
        paths: &mut Vec<(NodeId, String)>,
    ) {
        if wanted.contains(&id) {
            paths.push((id, path.to_owned()));
            return;
        }
        let Some(node) = self.outline.node(id) else { return };
        for (at, (child, member)) in self.outline.children(id).enumerate() {
            let step = match node.kind {
                Kind::Object => self.outline.step(&member.key),
                _ => at.to_string(),
            };
            if member.children > 0 || wanted.contains(&child) {
                self.add_paths(child, &format!("{path}/{step}"), wanted, paths);
            }
        }
    }

    /// Returns the parts of the document around the list of records. `None` if the list is the
    /// document itself, or a path selected it.
    #[must_use]
    pub fn envelope(&self) -> Option<ListEnvelope> {
        let around = self.around.as_ref()?;
        let part = |span: &Span| minify(&self.outline.inner(span));
        let (before, after) = (part(&around.before), part(&around.after));
        Some(ListEnvelope { keys: around.keys.clone(), before, after })
    }

    /// Returns the record `id` as JSON without insignificant white space.
    #[must_use]
    pub fn raw(&self, id: NodeId) -> Vec<u8> {
        self.outline.node(id).map_or_else(Vec::new, |node| minify(&self.outline.raw(node)))
    }

    /// Returns the list of records, or the document if it has no list, as JSON without
    /// insignificant white space.
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
        if !self.is_list {
            return self.raw(self.root);
        }
        let records: Vec<Vec<u8>> = self.ids.iter().map(|id| self.raw(*id)).collect();
        [b"[".as_slice(), &records.join(&b','), b"]"].concat()
    }

    /// Copies the fields in `mask` from the document or, if it lacks them, from each record. If
    /// `are_chosen`, copies them from the records only. Returns `None` if no field is found.
    #[must_use]
    pub fn project(&self, mask: &Mask, are_chosen: bool) -> Option<Projected> {
        let start = |id: &NodeId| self.outline.node(*id).map(|node| self.outline.start(node));
        let starts: Option<Vec<usize>> = self.ids.iter().map(start).collect();
        let names = || crate::fields::mask::names(&self.outline, self.root);
        ProjectionSource {
            bytes: self.outline.bytes(),
            form: self.outline.form(),
            root: start(&self.root)?,
            records: starts.filter(|_| self.is_list).as_deref(),
            keys: self.around.as_ref().map(|around| around.keys.as_slice()),
            are_chosen,
        }
        .project(mask, names, &mut |_| false)
    }
}

/// Returns the list whose elements are the records. That is the list that policy names, or the
/// longest list if it makes up at least half of the document. Otherwise returns the document itself
/// if it is an array. `None` if there is no such list.
pub(crate) fn record_list<'s>(
    survey: &'s DocumentInfo,
    limits: &EndpointSettings,
) -> Option<&'s List> {
    let list = match &limits.items_path {
        Some(path) => survey.lists.iter().find(|list| list.path == *path),
        None => survey
            .longest()
            .filter(|list| list.span.len() * 2 >= survey.root.len() && !list.items.is_empty()),
    };
    list.or(survey.lists.first().filter(|_| survey.kind == Kind::Array))
}
