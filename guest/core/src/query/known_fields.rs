//! The fields that records have, for error messages about absent fields.

use super::alike::alike;
use super::names::join_names;
use super::reader::is_word_character;
use super::records::RecordSet;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// The maximum number of records that are searched for fields to suggest.
const SAMPLED_RECORDS: usize = 200;
/// The maximum number of fields from which an error chooses its suggestions.
const MAX_KNOWN_FIELDS: usize = 2_000;
/// The maximum number of fields that an error lists.
const MAX_NAMED_FIELDS: usize = 30;
/// The maximum depth of fields that an error lists.
const MAX_NAMED_DEPTH: usize = 4;

/// Returns the error for a field that no record has, with similar and existing names.
pub(super) fn unknown(records: &RecordSet<'_>, all: &[NodeId], name: &str) -> String {
    let known = known_fields(records, all);
    let wanted = name.to_lowercase();
    let last =
        wanted.rsplit(['.', ']']).find(|part| !part.is_empty()).unwrap_or_default().to_owned();
    let mut near: Vec<(u64, &String)> = known
        .iter()
        .filter(|field| !field.is_empty())
        .filter_map(|field| {
            let field_name = field.to_lowercase();
            let own = field_name.rsplit('.').next().unwrap_or_default();
            let alike = strsim::jaro_winkler(&field_name, &wanted);
            let alike_end = strsim::jaro_winkler(own, &last) * 0.99;
            // `sc-status` is a status.
            let is_kind = own.rsplit(|c: char| !c.is_alphanumeric()).next() == Some(&last);
            let score = alike.max(alike_end).max(if is_kind { 0.85 } else { 0.0 });
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a score is from 0 to 1"
            )]
            (score >= 0.84).then_some(((score * 1e6) as u64, field))
        })
        .collect();
    near.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let near: Vec<String> = near.into_iter().take(3).map(|(_, field)| as_written(field)).collect();
    let hint = match near.is_empty() {
        true => String::new(),
        false => format!(" (did you mean {}?)", near.join(" or ")),
    };
    let hint = as_function(&known, name).map_or(hint, |call| format!("; write {call}"));
    format!(
        "no record has a field {name}{hint}; there are: {}",
        join_names(&known, MAX_NAMED_FIELDS)
    )
}

/// Returns a name as queries accept it: with quotes if it has characters of other syntax.
fn as_written(name: &str) -> String {
    let is_sign = |c: char| is_word_character(c) || "-/@#:. ".contains(c);
    if name.chars().all(is_sign) { name.to_owned() } else { format!("\"{name}\"") }
}

/// Returns a selection of fields with the names that records have, where it names them in another
/// case, with other separators, or without the objects around them. `None` if that changes nothing.
/// A name that can mean several fields, and a GraphQL selection remain.
pub(super) fn in_known_case(records: &RecordSet<'_>, fields: &str) -> Option<String> {
    if fields.contains(['{', '}']) {
        return None;
    }
    let mut known = known_fields(records, &records.ids);
    known.extend(known_fields(records, &[records.root]));
    known.sort();
    known.dedup();
    let in_case = |name: &str| {
        let name = name.trim();
        let wanted = name.replace("[]", "").replace("[*]", "").to_lowercase();
        let mut same = known.iter().filter(|known| known.to_lowercase() == wanted);
        match (same.next(), same.next()) {
            (Some(known), None) => known.clone(),
            (None, _) => alike(&known, &wanted).unwrap_or(name).to_owned(),
            _ => name.to_owned(),
        }
    };
    let names: Vec<&str> = fields.split([',', ';']).map(str::trim).collect();
    let corrected: Vec<String> = names.iter().map(|name| in_case(name)).collect();
    (corrected != names).then(|| corrected.join(","))
}

/// Converts a field expression of other languages to a function, such as `year(created)` for
/// `created.dt.year` and `length(tags)` for `tags.length`. `None` if there is no such field or
/// function.
fn as_function(known: &[String], name: &str) -> Option<String> {
    let (field, function) = name.rsplit_once('.')?;
    let field = ["dt", "str"].iter().find_map(|part| field.strip_suffix(&format!(".{part}")));
    let field = field.or_else(|| name.rsplit_once('.').map(|(field, _)| field))?;
    let function = match function.to_lowercase().as_str() {
        "length" | "len" | "size" | "count" => "length",
        "year" => "year",
        "quarter" => "quarter",
        "month" => "month",
        "week" => "week",
        "day" | "date" => "date",
        "hour" => "hour",
        "weekday" | "dayofweek" => "weekday",
        "lower" => "lower",
        "upper" => "upper",
        _ => return None,
    };
    known.iter().any(|known| known == field).then(|| format!("{function}({field})"))
}

/// Returns the error for a field whose values are objects, with the names of their fields.
pub(super) fn not_a_value(records: &RecordSet<'_>, all: &[NodeId], field: &str) -> String {
    let prefix = format!("{field}.");
    let mut inside = known_fields(records, all);
    inside.retain(|name| name.starts_with(&prefix));
    let hint = match inside.is_empty() {
        true => String::new(),
        false => format!(": {}", join_names(&inside, 8)),
    };
    format!("{field} is an object or a list of objects, not a value; name a field inside it{hint}")
}

/// Returns the dotted names of the fields of the first records. Fields inside lists have no index.
pub(super) fn known_fields(records: &RecordSet<'_>, all: &[NodeId]) -> Vec<String> {
    let mut names = Vec::new();
    let mut known = std::collections::HashSet::new();
    for id in all.iter().take(SAMPLED_RECORDS) {
        add_fields(&records.outline, *id, "", MAX_NAMED_DEPTH, &mut |name: String| {
            if known.len() < MAX_KNOWN_FIELDS && known.insert(name.clone()) {
                names.push(name);
            }
        });
    }
    // Fields of records come before fields of values inside them.
    names.sort_by_key(|name| name.matches('.').count());
    names
}

fn add_fields(
    outline: &Outline<'_>,
    id: NodeId,
    path: &str,
    depth: usize,
    add: &mut impl FnMut(String),
) {
    let Some(node) = outline.node(id).filter(|_| depth > 0) else { return };
    for (child, member) in outline.children(id) {
        if node.kind == Kind::Array {
            add_fields(outline, child, path, depth - 1, add);
            continue;
        }
        let key = outline.decoded(&member.key);
        let name = if path.is_empty() { key } else { format!("{path}.{key}") };
        add_fields(outline, child, &name, depth - 1, add);
        add(name);
    }
}

/// Returns a note on `count` records whose values at a field are not of the type `kind`.
pub(super) fn left_out_note(count: u64, kind: &str, field: &impl std::fmt::Display) -> String {
    let (have, were) = match count {
        1 => ("record has", "was"),
        _ => ("records have", "were"),
    };
    format!("{count} {have} no {kind} at {field} and {were} left out")
}
