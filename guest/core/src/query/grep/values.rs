//! Values of a document that match a pattern, with the members beside them.

use super::readings::may_span_member;
use super::{MAX_CONTEXT_LINES, MAX_MEMBER_BYTES, Pattern, SearchOptions};
use crate::fields::minify;
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::{Form, boundary, quoted};
use crate::query::records::RecordSet;

/// The maximum number of matches in JSON for which the context members are shown automatically.
const FEW_MATCHES: usize = 3;
/// The number of context members before and after each match, if they are shown automatically.
const FEW_MATCHES_CONTEXT: usize = 12;
/// The maximum number of members that name the record of a match.
const RECORD_MEMBERS: usize = 3;
/// The maximum number of members in the result whose names match.
const MAX_NAMES: usize = 20;

impl Pattern {
    /// Returns the values of a document that match, as JSON, and a summary in words. Each value has
    /// its path, and the `context` members before and after it. If no value matches, searches names
    /// of members, then members with their values, then records as a whole. Searches the whole
    /// document or, if `is_filtered`, the records only.
    #[must_use]
    pub fn search_json(
        &self,
        records: &RecordSet<'_>,
        is_filtered: bool,
        options: SearchOptions,
    ) -> (Vec<u8>, String) {
        let mut search = Search {
            pattern: self,
            outline: &records.outline,
            path: String::new(),
            out: Vec::new(),
            few: Vec::new(),
            count: 0,
            bytes: 0,
            max_matches: options.max_matches(),
            context: options
                .context
                .map(|context| usize::try_from(context.min(MAX_CONTEXT_LINES)).unwrap_or(0)),
            parents: Vec::new(),
            shown: None,
            place: if self.name.is_some() { SearchTarget::Members } else { SearchTarget::Values },
            has_records: is_filtered && records.is_list,
        };
        search.run(records, is_filtered);
        // A model may search the name of a member, or a member with its value.
        if search.count == 0 && search.bytes <= self.max_bytes() {
            (search.place, search.bytes) = (SearchTarget::Names, 0);
            search.max_matches = search.max_matches.min(MAX_NAMES);
            search.run(records, is_filtered);
        }
        let may_span = self.name.is_none() && may_span_member(self.regex.as_str());
        if search.count == 0 && search.bytes <= self.max_bytes() && may_span {
            (search.place, search.bytes) = (SearchTarget::Members, 0);
            search.max_matches = options.max_matches();
            search.run(records, is_filtered);
            // All values were searched before.
            if search.count == 0 {
                search.bytes = 0;
            }
        }
        if search.count == 0 && search.bytes <= self.max_bytes() && records.is_list {
            search.run_whole(records, options.max_matches());
        }
        search.result()
    }

    /// Returns the records of `ids` that match, and the matching part in words. That part is a
    /// value, else a member with its name, else the whole record: the first for which some record
    /// matches.
    ///
    /// # Errors
    /// Returns a message for the caller if there are too many bytes to search.
    pub fn choose(
        &self,
        records: &RecordSet<'_>,
        ids: &[NodeId],
    ) -> Result<(Vec<NodeId>, &'static str), String> {
        let outline = &records.outline;
        let mut matching = Vec::new();
        let may_span = self.name.is_none() && may_span_member(self.regex.as_str());
        for has_name in [self.name.is_some(), true].into_iter().take(1 + usize::from(may_span)) {
            let mut budget = self.max_bytes();
            for id in ids {
                match self.is_in(outline, *id, has_name, &mut budget) {
                    Some(true) => matching.push(*id),
                    Some(false) => {}
                    None => return Err(self.too_long("")),
                }
            }
            if !matching.is_empty() {
                let part = if has_name { "a member with its name" } else { "a value" };
                return Ok((matching, part));
            }
        }
        let whole = self.whole_records(records, ids).ok_or_else(|| self.too_long(" as a whole"))?;
        Ok((whole, "no value, but the record as a whole"))
    }

    fn too_long(&self, part: &str) -> String {
        format!(
            "grep searched the maximum of {} bytes, and records are left{part}: narrow them with path or where, or use a shorter pattern",
            self.max_bytes()
        )
    }

    /// Returns true if a value inside the node `id` matches or, if `has_name`, a member with its
    /// name. `None` if `budget`, the number of bytes that may still be searched, is exhausted.
    fn is_in(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        has_name: bool,
        budget: &mut usize,
    ) -> Option<bool> {
        let end = outline.node(id)?.end;
        for (_, node) in (id..end).filter_map(|id| Some((id, outline.node(id)?))) {
            if node.children > 0 && !node.closed {
                continue;
            }
            let value = value_text(outline, node);
            *budget = budget.checked_sub(value.len() + 1)?;
            if self.regex.is_match(&value) {
                return Some(true);
            }
            if has_name {
                let (is_member, bytes) = self.match_member(outline, node, &value);
                *budget = budget.checked_sub(bytes)?;
                if is_member {
                    return Some(true);
                }
            }
        }
        Some(false)
    }
}

impl Pattern {
    /// Returns true if a member together with its name matches, in the syntax of JSON, YAML or
    /// logs. Also returns the number of bytes that were searched.
    fn match_member(&self, outline: &Outline<'_>, node: &Node, value: &str) -> (bool, usize) {
        if node.key.is_empty() {
            return (false, 0);
        }
        let name = outline.decoded(&node.key);
        let is_other = |own: &String| !name.to_lowercase().ends_with(own.as_str());
        if self.name.as_ref().is_some_and(is_other) {
            return (false, 0);
        }
        let json = match node.kind {
            Kind::String => String::from_utf8_lossy(&quoted(value)).into_owned(),
            _ => value.to_owned(),
        };
        let members = [
            format!("\"{name}\": {json}"),
            format!("\"{name}\":{json}"),
            format!("{name}: {value}"),
            format!("{name}={value}"),
        ];
        let bytes = members.iter().map(String::len).sum();
        (members.iter().any(|member| self.regex.is_match(member)), bytes)
    }
}

/// The part of a document that a search reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchTarget {
    Values,
    /// The names of members.
    Names,
    /// Values, and members with their names.
    Members,
    /// Records as a whole.
    Records,
    /// Values and members. The records as a whole exceed the byte limit.
    TooLong,
}

fn value_text(outline: &Outline<'_>, node: &Node) -> String {
    match node.kind {
        Kind::String => outline.decoded(&node.span),
        _ => String::from_utf8_lossy(&outline.raw(node)).into_owned(),
    }
}

struct Search<'s, 'a> {
    pattern: &'s Pattern,
    outline: &'s Outline<'a>,
    path: String,
    /// The matches, as elements of a JSON array.
    out: Vec<u8>,
    /// The first [`FEW_MATCHES`] matches with automatic context members. Used only if the caller
    /// requests no context.
    few: Vec<u8>,
    count: usize,
    bytes: usize,
    max_matches: usize,
    /// The number of members to show before and after a matching member of the same object.
    context: Option<usize>,
    /// The containers around the visited node, each with the index of its visited child.
    parents: Vec<(NodeId, usize)>,
    /// The object whose members were shown last.
    shown: Option<NodeId>,
    place: SearchTarget,
    /// True if the outermost visited values are records.
    has_records: bool,
}

impl Search<'_, '_> {
    fn run(&mut self, records: &RecordSet<'_>, is_filtered: bool) {
        for (id, path) in records.paths(is_filtered) {
            self.path = path;
            self.visit(id);
        }
    }

    /// Searches records as a whole.
    fn run_whole(&mut self, records: &RecordSet<'_>, max_matches: usize) {
        let Some(found) = self.pattern.whole_records(records, &records.ids) else {
            self.place = SearchTarget::TooLong;
            return;
        };
        if found.is_empty() {
            return;
        }
        self.max_matches = max_matches;
        self.place = SearchTarget::Records;
        for (id, path) in records.paths_of(&found) {
            self.path = path;
            let Some(mut shown) = self.begin_match() else { continue };
            let record = records.raw(id);
            let text = String::from_utf8_lossy(&record);
            match self.pattern.show(&text, found.len()) {
                part if part == text => shown.extend_from_slice(&record),
                part => shown.extend(quoted(&part)),
            }
            shown.push(b'}');
            self.out.extend_from_slice(&shown);
            self.few.extend_from_slice(&shown);
        }
    }

    /// Returns the matches as JSON, and a summary in words.
    fn result(self) -> (Vec<u8>, String) {
        // A value alone says little: of few matches, their objects are shown unasked.
        let few = self.few.as_slice();
        let is_few = self.context.is_none() && self.count <= FEW_MATCHES;
        let matches = if is_few { few } else { self.out.as_slice() };
        let mut out = [b"{\"matches\":[", matches].concat();
        let complete = self.bytes <= self.pattern.max_bytes();
        let within = match self.place {
            SearchTarget::Names if self.count > 0 => ",\"in\":\"names\"",
            SearchTarget::Records => ",\"in\":\"records\"",
            _ => "",
        };
        out.extend_from_slice(
            format!("],\"count\":{},\"complete\":{complete}{within}}}", self.count).as_bytes(),
        );
        let rest = if complete { "" } else { "; NOT all of it was searched: narrow it by path" };
        let shown = if self.count > self.max_matches {
            format!(", the first {} shown", self.max_matches)
        } else {
            String::new()
        };
        let what = match self.place {
            SearchTarget::Names if self.count > 0 => {
                format!("no value matches, but names of members: {}", self.count)
            }
            SearchTarget::Records => {
                format!("no value matches, but records as a whole: {}", self.count)
            }
            SearchTarget::TooLong => {
                "0 matches; records as a whole are too long to be searched: narrow them by path"
                    .to_owned()
            }
            _ => format!("{} matches", self.count),
        };
        (out, format!("{what}{shown}{rest}"))
    }

    fn visit(&mut self, id: NodeId) {
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return };
        if self.bytes > self.pattern.max_bytes() {
            return;
        }
        if node.children > 0 && !node.closed {
            for (at, (child, member)) in outline.children(id).enumerate() {
                let step = if node.kind == Kind::Object {
                    outline.step(&member.key)
                } else {
                    at.to_string()
                };
                let length = self.path.len();
                self.path.push('/');
                self.path.push_str(&step);
                if self.place == SearchTarget::Names && node.kind == Kind::Object {
                    self.visit_name(&outline.decoded(&member.key), member);
                }
                self.parents.push((id, at));
                self.visit(child);
                self.parents.pop();
                self.path.truncate(length);
            }
            return;
        }
        if self.place == SearchTarget::Names {
            return;
        }
        let value = value_text(outline, node);
        self.bytes += value.len() + 1;
        if self.bytes > self.pattern.max_bytes() {
            return;
        }
        let mut is_match = self.pattern.regex.is_match(&value);
        if !is_match && self.place == SearchTarget::Members {
            let (is_member, bytes) = self.pattern.match_member(outline, node, &value);
            self.bytes += bytes;
            is_match = is_member;
        }
        if !is_match {
            return;
        }
        let Some(mut found) = self.begin_match() else { return };
        found.extend(quoted(&self.pattern.show(&value, usize::MAX)));
        if self.context.is_none() && self.count <= FEW_MATCHES {
            let beside = self.beside(FEW_MATCHES_CONTEXT);
            self.few.extend([found.as_slice(), &beside, b"}"].concat());
        } else if let Some(context) = self.context.filter(|context| *context > 0) {
            found.extend(self.beside(context));
        }
        found.push(b'}');
        self.out.extend_from_slice(&found);
    }

    /// Counts a match at the current path. Returns the beginning of its JSON, up to the value.
    /// `None` if the maximum number of matches is shown already.
    fn begin_match(&mut self) -> Option<Vec<u8>> {
        self.count += 1;
        if self.count > self.max_matches {
            return None;
        }
        let mut found = if self.count > 1 { b",".to_vec() } else { Vec::new() };
        found.extend_from_slice(b"{\"path\":");
        found.extend(quoted(&self.path));
        found.extend_from_slice(b",\"value\":");
        Some(found)
    }

    /// Visits a member: counts and writes it if its name matches.
    fn visit_name(&mut self, name: &str, member: &Node) {
        self.bytes += name.len() + 1;
        if self.bytes > self.pattern.max_bytes() || !self.pattern.regex.is_match(name) {
            return;
        }
        let Some(mut found) = self.begin_match() else { return };
        self.write_short(member, &mut found);
        found.push(b'}');
        self.out.extend_from_slice(&found);
        self.few.extend_from_slice(&found);
    }

    /// Writes a value, or the beginning of a long one as a text.
    fn write_short(&self, member: &Node, out: &mut Vec<u8>) {
        let raw = self.outline.raw(member);
        // White space may make up much of a value, but a long one is not read to its end.
        let read = boundary(&raw, 8 * MAX_MEMBER_BYTES, Form::Raw);
        let value = minify(raw.get(..read).unwrap_or_default());
        if read == raw.len() && value.len() <= MAX_MEMBER_BYTES {
            out.extend_from_slice(&value);
        } else {
            let end = boundary(&value, MAX_MEMBER_BYTES, Form::Raw);
            let head = String::from_utf8_lossy(value.get(..end).unwrap_or_default());
            out.extend(quoted(&format!("{head}\u{2026}")));
        }
    }

    /// Returns the JSON member `beside` of a match, with the other members of the nearest object
    /// around it. Empty if that object was shown for an earlier match.
    fn beside(&mut self, context: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let is_object = |(id, _): &&(NodeId, usize)| {
            self.outline.node(*id).is_some_and(|node| node.kind == Kind::Object)
        };
        let around = self.parents.iter().rev().find(is_object);
        let Some((object, at)) = around.copied().filter(|(id, _)| self.shown != Some(*id)) else {
            return out;
        };
        self.shown = Some(object);
        let from = at.saturating_sub(context);
        let members = self.outline.children(object).enumerate().skip(from);
        let members = members.take_while(|(number, _)| *number <= at + context);
        let mut is_first = true;
        for (_, (_, member)) in members.filter(|(number, _)| *number != at) {
            let start: &[u8] = if is_first { b",\"beside\":{" } else { b"," };
            out.extend_from_slice(start);
            is_first = false;
            out.extend(quoted(&self.outline.decoded(&member.key)));
            out.push(b':');
            self.write_short(member, &mut out);
        }
        if !is_first {
            out.push(b'}');
        }
        out.extend(self.record_of(object));
        out
    }

    /// Returns the JSON member `record`, with the first short scalars of the record that contains
    /// the object: they say which record it is. Empty if the object is the record itself.
    fn record_of(&self, object: NodeId) -> Vec<u8> {
        let kind = |id: NodeId| self.outline.node(id).map(|node| node.kind);
        let mut around: Option<NodeId> = None;
        let record = self.parents.iter().map(|(id, _)| *id).find(|id| {
            let is_element =
                around.map_or(self.has_records, |list| kind(list) == Some(Kind::Array));
            around = Some(*id);
            is_element && kind(*id) == Some(Kind::Object)
        });
        let Some(record) = record.filter(|id| *id != object) else { return Vec::new() };
        let members = self.outline.children(record).filter(|(_, member)| {
            member.children == 0
                && !matches!(member.kind, Kind::Object | Kind::Array)
                && member.span.len() <= MAX_MEMBER_BYTES
        });
        let members: Vec<Vec<u8>> = members
            .take(RECORD_MEMBERS)
            .map(|(_, member)| {
                let name = quoted(&self.outline.decoded(&member.key));
                [name.as_slice(), b":", &minify(&self.outline.raw(member))].concat()
            })
            .collect();
        if members.is_empty() {
            return Vec::new();
        }
        [b",\"record\":{".as_slice(), &members.join(&b','), b"}"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::EndpointSettings;

    const ALL: SearchOptions = SearchOptions { context: None, from_line: 1, limit: 0 };

    #[test]
    fn nested_matches_name_their_record() {
        let document = r#"[{"uid":"W-1","n":1,"alarm":{"code":3,"text":"hot"},"tags":[]},{"uid":"W-2","alarm":{"text":"cold"}}]"#;
        let limits = EndpointSettings::default();
        let search = |document: &str, is_filtered: bool| {
            let records = RecordSet::locate(document.as_bytes(), &limits).unwrap();
            let pattern = Pattern::compile("hot", None, false).unwrap();
            String::from_utf8(pattern.search_json(&records, is_filtered, ALL).0).unwrap()
        };
        let expected = r#""beside":{"code":3},"record":{"uid":"W-1","n":1}}"#;
        assert!(search(document, false).contains(expected), "{}", search(document, false));
        assert!(search(document, true).contains(expected));
        let wrapped = format!(r#"{{"total":2,"items":{document}}}"#);
        assert!(
            search(&wrapped, false).contains(expected) && search(&wrapped, true).contains(expected)
        );
        // The record itself is beside the match already, and a document is no record.
        assert!(!search(r#"[{"uid":1,"text":"hot"}]"#, false).contains("record"));
        assert!(!search(r#"{"uid":1,"alarm":{"text":"hot"}}"#, false).contains("record"));
    }

    #[test]
    fn matching_members_have_their_neighbours() {
        let long = "x".repeat(900);
        let document = format!(
            r#"{{"places":[{{"id":1,"name":"360 Bar","vicinity":"100 Market St","tags":["a","b"],"url":"{long}","rating":4}},{{"name":"Other"}}]}}"#
        );
        let limits = EndpointSettings::default();
        let records = RecordSet::locate(document.as_bytes(), &limits).unwrap();
        let search = |pattern, context| {
            let pattern = Pattern::new(pattern, None).unwrap();
            let options = SearchOptions { context, ..ALL };
            String::from_utf8(pattern.search_json(&records, false, options).0).unwrap()
        };
        let found = |context| search("360|^a$|^b$", context);
        // Of few matches, the members are shown unasked.
        assert!(
            found(None).contains(r#""beside":{"id":1,"#) && found(None).contains(r#""rating":4}"#)
        );
        assert!(!found(Some(0)).contains("beside"));
        assert!(!search("360|^a$|^b$|Other", None).contains("beside"));
        let one = r#"{"path":"/places/0/name","value":"360 Bar","beside":{"id":1,"vicinity":"100 Market St"}},{"path":"/places/0/tags/0","value":"a"}"#;
        assert!(found(Some(1)).contains(one), "{}", found(Some(1)));
        let all = found(Some(50));
        assert!(all.contains(r#""tags":["a","b"],"url":"\"xxx"#), "{all}");
        assert!(all.contains(r#""rating":4}"#) && !all.contains("Other"), "{all}");
    }

    #[test]
    fn names_of_members_match_if_no_value_does() {
        let json = br#"{"scan_count":{"Count":56},"rows":[{"a":"count"}]}"#;
        let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
        let search = |pattern| {
            let found = Pattern::new(pattern, None).unwrap().search_json(&records, false, ALL);
            (String::from_utf8(found.0).unwrap(), found.1)
        };
        let (found, what) = search("scan_count");
        let expected = r#"{"matches":[{"path":"/scan_count","value":{"Count":56}}],"count":1,"complete":true,"in":"names"}"#;
        assert_eq!(found, expected);
        assert_eq!(what, "no value matches, but names of members: 1");
        assert!(search("count").0.contains(r#""path":"/rows/0/a""#));
        assert_eq!(search("nothing").1, "0 matches");
    }

    #[test]
    fn records_that_are_too_long_to_be_searched_are_an_error() {
        let pattern = Pattern::new("x.{200}y", None).unwrap();
        let json = format!(r#"{{"rows":[{{"a":"{}"}}]}}"#, "z".repeat(pattern.max_bytes() / 2));
        let records = RecordSet::locate(json.as_bytes(), &EndpointSettings::default()).unwrap();
        let reason = pattern.choose(&records, &records.ids).unwrap_err();
        assert!(reason.contains("records are left"), "{reason}");
        let found = Pattern::new("z", None).unwrap().choose(&records, &records.ids).unwrap();
        assert_eq!((found.0.len(), found.1), (1, "a value"));
    }

    #[test]
    fn matching_values_have_paths() {
        let json = br#"{"rows":[{"a/b":"x1"},{"c":["y","x2"]}]}"#;
        let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
        let (bytes, what) = Pattern::new("^x", None).unwrap().search_json(&records, false, ALL);
        assert_eq!(
            (String::from_utf8(bytes).unwrap().as_str(), what.as_str()),
            (
                r#"{"matches":[{"path":"/rows/0/a~1b","value":"x1"},{"path":"/rows/1/c/1","value":"x2"}],"count":2,"complete":true}"#,
                "2 matches"
            )
        );
    }
}
