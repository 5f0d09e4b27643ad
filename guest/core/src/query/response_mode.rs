//! Response modes: the records of a list as ids, as metadata, with a preview, or complete.

use serde::{Deserialize, Serialize};

use super::records::RecordSet;
use super::values::{split_path, values_at};
use crate::fields::priority::{FieldPriority, field_priority};
use crate::fields::{Mask, Projection};
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::quoted;
use crate::policy::EndpointSettings;
use crate::text::shorten::shorten;

/// The level of detail in which the records of a list are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseMode {
    /// Only the ids of the records.
    IdsOnly,
    /// The identifying and short fields of each record, without long content.
    Metadata,
    /// The metadata of each record, and the beginning of its content.
    Preview,
    /// The complete records, each with its estimated `tokens`, unless it has such a member.
    Full,
}

/// Token budget for the metadata of one record. Id, title, type and score may exceed it.
const METADATA_TOKENS: u64 = 40;
/// Tokens of the metadata budget that are reserved for short fields, even if id and title are long.
const MIN_SHORT_FIELD_TOKENS: u64 = 12;
/// Maximum number of characters of a string in the metadata, such as a title.
const MAX_TITLE_CHARS: usize = 120;
/// Number of records that are examined to find the members with id, title and content.
const SAMPLED_RECORDS: usize = 20;

impl ResponseMode {
    /// The response modes with their names in the `response_mode` argument.
    pub const NAMES: [(&'static str, ResponseMode); 4] = [
        ("ids_only", ResponseMode::IdsOnly),
        ("metadata", ResponseMode::Metadata),
        ("preview", ResponseMode::Preview),
        ("full", ResponseMode::Full),
    ];

    /// Returns the mode of this name. `None` if there is no such mode.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// Returns the name of the member that holds the list of records in an answer of this mode.
    #[must_use]
    pub fn list_key(self) -> &'static str {
        if self == ResponseMode::IdsOnly { "ids" } else { "results" }
    }

    /// Returns the name of the mode.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("full", |(name, _)| name)
    }
}

/// The names of the members that hold id, title, type, score and content of records. Policy sets
/// them, otherwise they are detected by common names.
#[derive(Clone, Debug, Default)]
pub struct RecordKeys {
    id: Vec<String>,
    title: Vec<String>,
    kind: Vec<String>,
    score: Vec<String>,
    content: Vec<String>,
}

const ID_NAMES: &[&str] = &[
    "id",
    "_id",
    "uuid",
    "guid",
    "key",
    "identifier",
    "number",
    "iid",
    "slug",
    "sku",
    "code",
    "uri",
    "url",
    "path",
    "login",
    "name",
    "title",
];
const TITLE_NAMES: &[&str] = &[
    "title",
    "name",
    "subject",
    "headline",
    "label",
    "display_name",
    "displayName",
    "full_name",
    "summary",
    "question",
    "filename",
    "path",
];
const TYPE_NAMES: &[&str] =
    &["type", "kind", "category", "document_type", "doc_type", "state", "status"];
const SCORE_NAMES: &[&str] =
    &["score", "_score", "similarity", "relevance", "relevance_score", "rank_score", "confidence"];
const CONTENT_NAMES: &[&str] = &[
    "content",
    "text",
    "body",
    "description",
    "snippet",
    "message",
    "abstract",
    "markdown",
    "html",
    "notes",
    "summary",
    "value",
];

impl RecordKeys {
    /// Returns the names that policy sets in `limits`, and detects the others in the records.
    #[must_use]
    pub fn detect(records: &RecordSet<'_>, limits: &EndpointSettings) -> Self {
        let said = &limits.item_fields;
        let choose = |said: &Option<String>, names: &[&str]| match said {
            Some(path) => split_path(path),
            None => first_present(records, names).into_iter().collect(),
        };
        let content = match &said.content {
            Some(path) => split_path(path),
            None => longest_text_member(records)
                .or_else(|| first_present(records, CONTENT_NAMES))
                .into_iter()
                .collect(),
        };
        let title = choose(&said.title, TITLE_NAMES);
        Self {
            id: choose(&said.id, ID_NAMES),
            title: if title == content { Vec::new() } else { title },
            kind: choose(&said.kind, TYPE_NAMES),
            score: choose(&said.score, SCORE_NAMES),
            content,
        }
    }

    /// Returns the id of the record at node `id`, as text. A record that is a text is its own id.
    /// `None` if the record has no id.
    #[must_use]
    pub fn id_of(&self, records: &RecordSet<'_>, id: NodeId) -> Option<String> {
        if records.outline.node(id)?.kind == Kind::String {
            return Some(records.outline.decoded(&records.outline.node(id)?.span));
        }
        first_value(records, id, &self.id)
    }

    /// Returns the id of the record at node `id` as verbatim JSON. `None` if the record has no id.
    fn raw_id_of(&self, records: &RecordSet<'_>, id: NodeId) -> Option<Vec<u8>> {
        let reached =
            self.id.iter().try_fold(id, |at, key| Some(records.outline.member(at, key)?.0));
        match reached
            .filter(|reached| *reached != id)
            .and_then(|reached| records.outline.node(reached))
        {
            Some(node) if node.children == 0 => Some(records.outline.raw(node).into_owned()),
            _ => self.id_of(records, id).map(|own| quoted(&own)),
        }
    }

    /// Returns the score of the record at node `id`. `None` if it has no numeric score.
    #[must_use]
    pub fn score_of(&self, records: &RecordSet<'_>, id: NodeId) -> Option<f64> {
        first_value(records, id, &self.score)?.parse().ok()
    }
}

fn first_value(records: &RecordSet<'_>, id: NodeId, keys: &[String]) -> Option<String> {
    if keys.is_empty() { None } else { values_at(&records.outline, id, keys).into_iter().next() }
}

/// Returns the first of `names` that a sampled record has as a member. `None` if no record has any.
fn first_present(records: &RecordSet<'_>, names: &[&str]) -> Option<String> {
    let has = |name: &&&str| {
        records.ids.iter().take(SAMPLED_RECORDS).any(|id| {
            records.outline.member(*id, name).is_some_and(|(_, node)| {
                node.children == 0 && records.outline.raw(node).as_ref() != b"null"
            })
        })
    };
    names.iter().find(has).map(|name| (*name).to_owned())
}

/// Returns the name of the member with the longest string in the sampled records. `None` if no
/// string has more than 120 bytes.
fn longest_text_member(records: &RecordSet<'_>) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for id in records.ids.iter().take(SAMPLED_RECORDS) {
        for (_, node) in records.outline.children(*id) {
            let long = node.kind == Kind::String
                && node.span.len() > best.as_ref().map_or(120, |(length, _)| *length);
            if long && !node.key.is_empty() {
                best = Some((node.span.len(), records.outline.decoded(&node.key)));
            }
        }
    }
    best.map(|(_, name)| name)
}

/// Renders records as a JSON object, with the level of detail of a response mode. If `fields` is
/// given, each record has these fields instead of its metadata. O(records).
///
/// # Errors
/// Returns a message for the caller if `fields` is invalid, or if a record lacks the id that
/// `ids_only` requires.
pub fn render(
    mode: ResponseMode,
    records: &RecordSet<'_>,
    limits: &EndpointSettings,
    fields: Option<&str>,
) -> Result<Vec<u8>, String> {
    let keys = RecordKeys::detect(records, limits);
    let mask = fields.map(Mask::parse).transpose()?;
    let mut elements: Vec<Vec<u8>> = Vec::with_capacity(records.ids.len());
    for id in &records.ids {
        elements.push(match mode {
            ResponseMode::IdsOnly => keys.raw_id_of(records, *id).ok_or_else(|| {
                "ids_only: the records have no id; name its field in policy as itemFields.id, or use another response_mode".to_owned()
            })?,
            ResponseMode::Metadata => metadata(records, *id, &keys, limits, mask.as_ref()),
            ResponseMode::Preview => preview(records, *id, &keys, limits, mask.as_ref()),
            ResponseMode::Full => full(records, *id, limits, mask.as_ref()),
        });
    }
    let name = mode.list_key();
    let list = elements.join(&b',');
    let head = format!("{{\"mode\":\"{}\",\"count\":{},\"{name}\":[", mode.name(), elements.len())
        .into_bytes();
    let tokens = limits.estimator.price(&[head.as_slice(), &list].concat()) + 8;
    Ok([head, list, format!("],\"estimated_tokens\":{tokens}}}").into_bytes()].concat())
}

/// Renders the identifying fields of the record at node `id`, then short fields while the metadata
/// budget lasts. If `mask` is given, it selects the fields instead.
fn metadata(
    records: &RecordSet<'_>,
    id: NodeId,
    keys: &RecordKeys,
    limits: &EndpointSettings,
    mask: Option<&Mask>,
) -> Vec<u8> {
    let outline = &records.outline;
    let Some(node) = outline.node(id) else { return records.raw(id) };
    if let Some(mask) = mask {
        let mut projection = Projection::new(mask, outline.form());
        let copied = projection.copy(outline.bytes(), outline.start(node));
        return if copied == Ok(true) { projection.out } else { b"{}".to_vec() };
    }
    if node.kind != Kind::Object {
        return records.raw(id);
    }
    let mut members: Vec<(usize, u8, Vec<u8>)> = Vec::new();
    for (at, (_, node)) in outline.children(id).enumerate() {
        let name = outline.decoded(&node.key);
        let is = |keys: &[String]| keys.first().is_some_and(|key| *key == name);
        let plain = node.children == 0 && !node.closed;
        let known = is(&keys.id) || is(&keys.title) || is(&keys.kind) || is(&keys.score);
        if is(&keys.content) || !plain || (!known && node.span.len() > 80) {
            continue;
        }
        let rank = match field_priority(&name) {
            _ if known => 0,
            FieldPriority::Identity => 1,
            FieldPriority::State | FieldPriority::Key => 2,
            FieldPriority::Plain => 3,
            _ => continue,
        };
        let mut value = outline.raw(node).into_owned();
        // The beginning of a long title identifies it.
        if node.kind == Kind::String && value.len() > MAX_TITLE_CHARS {
            value = quoted(&shorten(&outline.decoded(&node.span), MAX_TITLE_CHARS, &[]));
        }
        let mut member = Vec::new();
        outline.write_key(&mut member, node);
        member.extend_from_slice(&value);
        members.push((at, rank, member));
    }
    // Choose the best members within the budget, then restore the order of the document.
    members.sort_by_key(|(at, rank, _)| (*rank, *at));
    let mut room = METADATA_TOKENS;
    members.retain(|(_, rank, value)| {
        let cost = limits.estimator.price(value) + 1;
        let fits = *rank == 0 || cost <= room;
        room = room.saturating_sub(if fits { cost } else { 0 });
        if *rank == 0 {
            room = room.max(MIN_SHORT_FIELD_TOKENS);
        }
        fits
    });
    members.sort_by_key(|(at, _, _)| *at);
    let members: Vec<Vec<u8>> = members.into_iter().map(|(_, _, value)| value).collect();
    [b"{".as_slice(), &members.join(&b','), b"}"].concat()
}

fn preview(
    records: &RecordSet<'_>,
    id: NodeId,
    keys: &RecordKeys,
    limits: &EndpointSettings,
    mask: Option<&Mask>,
) -> Vec<u8> {
    let content = content(&records.outline, id, keys);
    let (shown, more) = first_words(&content, limits.preview_chars);
    let tokens = limits.estimator.price(shown.as_bytes());
    [
        b"{\"metadata\":".as_slice(),
        &metadata(records, id, keys, limits, mask),
        b",\"preview\":",
        &quoted(shown),
        format!(",\"preview_tokens\":{tokens},\"has_more\":{more}}}").as_bytes(),
    ]
    .concat()
}

fn content(outline: &Outline<'_>, id: NodeId, keys: &RecordKeys) -> String {
    if let Some(node) = outline.node(id).filter(|node| node.kind == Kind::String) {
        return outline.decoded(&node.span);
    }
    if keys.content.is_empty() {
        String::new()
    } else {
        values_at(outline, id, &keys.content).concat()
    }
}

/// Returns at most `characters` characters from the start of a text, cut at a word. Also returns
/// true if the text is longer.
fn first_words(text: &str, characters: usize) -> (&str, bool) {
    let Some((cut, _)) = text.char_indices().nth(characters) else { return (text, false) };
    let head = text.get(..cut).unwrap_or(text);
    let end = head.rfind(char::is_whitespace).filter(|end| *end > 0).unwrap_or(cut);
    (head.get(..end).unwrap_or(head), true)
}

fn full(
    records: &RecordSet<'_>,
    id: NodeId,
    limits: &EndpointSettings,
    mask: Option<&Mask>,
) -> Vec<u8> {
    let record = match mask {
        None => records.raw(id),
        Some(_) => metadata(records, id, &RecordKeys::default(), limits, mask),
    };
    let tokens = limits.estimator.price(&record);
    match record.strip_suffix(b"}") {
        Some(open) if record.len() > 2 && !has_member(records, id, "tokens") => {
            [open, format!(",\"tokens\":{tokens}}}").as_bytes()].concat()
        }
        _ => record,
    }
}

fn has_member(records: &RecordSet<'_>, id: NodeId, name: &str) -> bool {
    records.outline.member(id, name).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(mode: ResponseMode) -> Value {
        let long = "A house by the sea with a garden and a view. ".repeat(20);
        let results: Vec<Value> = (0..3)
            .map(|at| json!({"doc_id": "x", "id": format!("d{at}"), "title": format!("House {at}"), "score": 0.9, "content": long}))
            .collect();
        let document = json!({ "results": results }).to_string();
        let limits = EndpointSettings::default();
        let records = RecordSet::locate(document.as_bytes(), &limits).unwrap();
        serde_json::from_slice(&render(mode, &records, &limits, None).unwrap()).unwrap()
    }

    #[test]
    fn each_mode_has_its_fields() {
        let ids = shown(ResponseMode::IdsOnly);
        assert_eq!((&ids["ids"], &ids["count"]), (&json!(["d0", "d1", "d2"]), &json!(3)));
        let metadata = &shown(ResponseMode::Metadata)["results"][1];
        assert!(metadata["title"] == "House 1" && metadata.get("content").is_none());
        let preview = &shown(ResponseMode::Preview)["results"][2];
        assert!(preview["metadata"]["id"] == "d2" && preview["has_more"] == true);
        let text = preview["preview"].as_str().unwrap();
        assert!(text.len() <= 200 && text.len() > 150 && !text.ends_with(' '));
        assert!(shown(ResponseMode::Full)["results"][0]["tokens"].as_u64() > Some(100));
    }

    #[test]
    fn metadata_has_states() {
        let json = br#"[{"id":1,"kind":"guide","severity":"high"},{"id":2,"kind":"guide","severity":"low"}]"#;
        let limits = EndpointSettings::default();
        let records = RecordSet::locate(json, &limits).unwrap();
        let shown = render(ResponseMode::Metadata, &records, &limits, None).unwrap();
        assert!(String::from_utf8(shown).unwrap().contains(r#""severity":"high""#));
    }

    #[test]
    fn estimate_describes_the_answer() {
        let preview = shown(ResponseMode::Preview);
        let real = crate::tokens::Estimator::default().price(preview.to_string().as_bytes());
        let said = preview["estimated_tokens"].as_u64().unwrap();
        assert!(said.abs_diff(real) * 10 <= real, "{said} against {real}");
    }
}
