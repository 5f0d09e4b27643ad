//! Result metadata, for programs: the part of a payload that an excerpt shows, and how to read the
//! rest. The module `notice` writes the same for models.

use serde_json::{Map, Value, json};

use super::condense::Condensed;
use crate::record::Loss;

/// The maximum number of field names in each list of the result metadata.
const MAX_LISTED_FIELDS: usize = 24;

/// The part of a payload that an excerpt shows, and the extent of the whole payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Coverage {
    /// The excerpt shows items of one or several lists.
    Page {
        /// The number of the first item shown, counted from 0 through all paged lists.
        first: u64,
        /// The number of items shown.
        shown: u64,
        /// The number of items in the payload's list, or in all its paged lists together.
        total: u64,
        /// The maximum number of items on a page.
        page_size: u64,
        /// For each paged list: its path, the number of items shown, and its number of items. Empty
        /// if the payload has only one list.
        lists: Vec<(String, u64, u64)>,
        /// The fields shown and omitted if the items are condensed. `None` if they are complete.
        condensed: Option<FieldCoverage>,
    },
    /// The excerpt shows lines of a text: a chunk or a requested range.
    Chunk {
        /// The number of the chunk in the text, from 0.
        index: u64,
        /// The number of chunks that the text is divided into.
        total: u64,
        /// The number of the first line shown, from 1.
        start_line: u64,
        /// The number of the last line shown.
        end_line: u64,
        /// The number of lines in the text.
        lines: u64,
        /// The number of bytes shown.
        bytes: u64,
        /// True if the caller requested a range of lines, false if the lines are a chunk.
        range: bool,
    },
    /// The excerpt shows bytes of one list item that is larger than a page.
    Part {
        /// The number of the item in the list, from 0.
        item: u64,
        /// The number of items in the list.
        total: u64,
        /// The offset in the item of the first byte shown.
        from: u64,
        /// The offset in the item after the last byte shown.
        to: u64,
        /// The number of bytes in the item.
        bytes: u64,
    },
    /// The excerpt shows a document with fewer fields and shorter values.
    Summary(FieldCoverage),
    /// The excerpt shows the result of a query that the caller sent, not the payload itself.
    Found {
        /// A description of the query result, used in the result notice.
        what: String,
    },
    /// The excerpt shows all data of the payload in fewer bytes.
    Lossless {
        /// A description of the change, such as `without white space between its values`, used in
        /// the result notice.
        what: String,
    },
    /// The excerpt only describes data that has no readable short form, such as binary data.
    Described {
        /// A noun phrase for the data, such as `binary data`, which the result notice contains.
        what: String,
        /// The number of bytes of the described data.
        bytes: u64,
    },
}

/// The fields of records or of a document that a condensed excerpt shows and omits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldCoverage {
    /// The number of fields before condensing.
    pub total: u64,
    /// The paths of the fields that the excerpt shows.
    pub kept: Vec<String>,
    /// The paths of the fields that the excerpt omits.
    pub dropped: Vec<String>,
    /// The path and value of each field that is left out of the records, because it has the same
    /// value in all.
    pub constants: Vec<(String, String)>,
    /// The number of values that were shortened.
    pub shortened: u64,
    /// The number of elements that were left out of lists inside records or, in a document, out of
    /// any list.
    pub elements: u64,
    /// The JSON Pointer to the first long text that was replaced by an excerpt. `None` if there is
    /// none.
    pub long_text: Option<String>,
}

impl From<&Condensed> for FieldCoverage {
    fn from(condensed: &Condensed) -> Self {
        Self {
            total: condensed.total_fields,
            kept: condensed.kept.clone(),
            dropped: condensed.dropped.clone(),
            constants: condensed.constants.clone(),
            shortened: condensed.shortened,
            elements: condensed.omitted,
            long_text: condensed.long_text.clone(),
        }
    }
}

impl FieldCoverage {
    /// Returns the argument of the read tool that most likely returns the omitted data that a
    /// reader wants next: its name and value. The value has at most `names` names of fields.
    #[must_use]
    pub fn follow_up(&self, names: usize) -> (&'static str, String) {
        if let Some(path) = &self.long_text {
            return ("path", path.clone());
        }
        let sections = self.sections(names);
        ("fields", if sections.is_empty() { "all".to_owned() } else { sections })
    }

    /// Returns up to `most` top-level names of the omitted fields, separated by commas. A caller
    /// can read each as a section of the document.
    #[must_use]
    pub fn sections(&self, most: usize) -> String {
        let mut names: Vec<&str> = Vec::new();
        for path in &self.dropped {
            if names.len() >= most {
                break;
            }
            let name = path.split(['.', '[']).next().unwrap_or_default();
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(",")
    }
}

impl Coverage {
    /// Returns the kind of reduction, such as `page` or `chunk`, as reported to the client.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Coverage::Page { .. } => "page",
            Coverage::Chunk { .. } => "chunk",
            Coverage::Part { .. } => "part",
            Coverage::Summary(_) => "preview",
            Coverage::Found { .. } => "selection",
            Coverage::Lossless { .. } => "compact",
            Coverage::Described { .. } => "description",
        }
    }

    /// Returns the kind of information loss in comparison with the original payload.
    #[must_use]
    pub fn loss(&self) -> Loss {
        match self {
            Coverage::Page { condensed: Some(_), .. } | Coverage::Summary(_) => Loss::Condensed,
            Coverage::Page { .. }
            | Coverage::Chunk { .. }
            | Coverage::Part { .. }
            | Coverage::Found { .. } => Loss::Partial,
            Coverage::Lossless { .. } => Loss::Lossless,
            Coverage::Described { .. } => Loss::Described,
        }
    }

    /// Returns the number of items in the excerpt, which is 0 for a part of an item. `None` if the
    /// excerpt does not show a list.
    #[must_use]
    pub fn items(&self) -> Option<u64> {
        match self {
            Coverage::Page { shown, .. } => Some(*shown),
            Coverage::Part { .. } => Some(0),
            _ => None,
        }
    }

    /// Returns the result metadata (what an excerpt shows and omits) as JSON members. `cursor`
    /// leads to the rest of the payload if `more`, else to the whole. `read_tool` is the name of
    /// the tool that accepts the cursor.
    #[must_use]
    pub fn json(&self, cursor: Option<&str>, more: bool, read_tool: &str) -> Map<String, Value> {
        let mut json = match self {
            Coverage::Page { shown, total, page_size, .. } => json!({
                "shown": shown, "total": total, "omitted": total - shown,
                "meta": {"totalCount": total, "pageSize": page_size, "hasMore": more},
            }),
            Coverage::Chunk { index, total, start_line, end_line, lines, bytes, .. } => json!({
                "shown": (end_line + 1).saturating_sub(*start_line),
                "total": lines,
                "omitted": (lines + start_line).saturating_sub(end_line + 1),
                "chunkIndex": index, "totalChunks": total,
                "metadata": {
                    "startLine": start_line, "endLine": end_line,
                    "totalLines": lines, "bytesInChunk": bytes,
                },
            }),
            Coverage::Part { item, total, from, to, bytes } => json!({
                "shown": 0, "total": total, "omitted": total,
                "item": item, "fromByte": from, "toByte": to, "bytesInItem": bytes,
            }),
            Coverage::Summary(fields) => json!({
                "shown": fields.kept.len(), "total": fields.total,
                "omitted": fields.dropped.len(), "omittedItems": fields.elements,
            }),
            Coverage::Found { what } | Coverage::Lossless { what } => json!({ "what": what }),
            Coverage::Described { what, bytes } => {
                json!({"what": what, "shown": 0, "total": bytes, "omitted": bytes})
            }
        };
        let Some(object) = json.as_object_mut() else { return Map::new() };
        object.insert("kind".to_owned(), self.kind().into());
        object.insert("loss".to_owned(), serde_json::to_value(self.loss()).unwrap_or_default());
        if let Coverage::Page { condensed: Some(fields), .. } | Coverage::Summary(fields) = self {
            object.extend(details(fields, cursor, read_tool));
        }
        if let Some(cursor) = cursor {
            object.insert(if more { "nextCursor" } else { "cursor" }.to_owned(), cursor.into());
        }
        std::mem::take(object)
    }

    /// Returns the result metadata for `structuredContent.context_guard`, in short form. `beside`
    /// is true if paging fields (`nextCursor`, `meta`) are also written next to the list. `cursor`,
    /// `more` and `read_tool` are as for [`Coverage::json`].
    #[must_use]
    pub fn structured(
        &self,
        cursor: Option<&str>,
        more: bool,
        read_tool: &str,
        beside: bool,
    ) -> Map<String, Value> {
        let mut json = self.json(cursor, more, read_tool);
        for name in ["kind", "projectedFields", "constantFields", "detailsAvailable", "totalFields"]
        {
            json.remove(name);
        }
        if beside {
            json.remove("meta");
        }
        let how = match cursor {
            Some(_) if more => format!(" To continue, call {read_tool} with nextCursor."),
            _ => String::new(),
        };
        let whole =
            self.whole_hint(cursor.map(|_| if more { "nextCursor" } else { "cursor" }), read_tool);
        json.insert("note".to_owned(), format!("{}{how}{whole}", self.sentence()).into());
        json
    }

    /// Returns the shortest result metadata, for small token limits: loss and cursor. If `counts`,
    /// also the number of items in the excerpt and in total. `cursor` leads to the rest if `more`,
    /// else to the whole.
    #[must_use]
    pub fn brief(&self, cursor: Option<&str>, more: bool, counts: bool) -> Map<String, Value> {
        let mut json = self.json(None, more, "");
        // The text content has the counts too.
        if !counts {
            json.remove("shown");
            json.remove("total");
        }
        let mut brief: Map<String, Value> = ["shown", "total", "loss"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), json.get(name)?.clone())))
            .collect();
        if let Some(cursor) = cursor {
            brief.insert(if more { "nextCursor" } else { "cursor" }.to_owned(), cursor.into());
        }
        brief
    }
}

/// Returns the result metadata on omitted fields, with the arguments of `read_tool` that return
/// those fields (FR-011).
fn details(fields: &FieldCoverage, cursor: Option<&str>, read_tool: &str) -> Map<String, Value> {
    let mut details = Map::new();
    details.insert("totalFields".to_owned(), fields.total.into());
    details.insert(
        "projectedFields".to_owned(),
        fields.kept.iter().take(MAX_LISTED_FIELDS).cloned().collect::<Vec<_>>().into(),
    );
    if !fields.constants.is_empty() {
        let constants = fields.constants.iter();
        let constants: Map<String, Value> =
            constants.map(|(path, value)| (path.clone(), value.as_str().into())).collect();
        details.insert("constantFields".to_owned(), constants.into());
    }
    let mut parameters = Map::new();
    if let Some(cursor) = cursor {
        parameters.insert("cursor".to_owned(), cursor.into());
    }
    let (name, value) = fields.follow_up(MAX_LISTED_FIELDS);
    parameters.insert(name.to_owned(), value.into());
    details.insert(
        "detailsAvailable".to_owned(),
        json!({"endpoint": read_tool, "parameters": parameters}),
    );
    details
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::notice::READ_TOOL;

    #[test]
    fn page_metadata_has_public_names() {
        let coverage = Coverage::Page {
            first: 50,
            shown: 50,
            total: 276,
            page_size: 50,
            lists: Vec::new(),
            condensed: None,
        };
        let json = coverage.json(Some("C"), true, READ_TOOL);
        assert_eq!(json["meta"], json!({"totalCount": 276, "pageSize": 50, "hasMore": true}));
        assert_eq!((&json["nextCursor"], &json["loss"]), (&json!("C"), &json!("partial")));
        let last = coverage.json(None, false, READ_TOOL);
        assert!(!last.contains_key("nextCursor") && last["meta"]["hasMore"] == false);
    }

    #[test]
    fn summary_metadata_leads_to_omitted_fields() {
        let fields = FieldCoverage {
            total: 4,
            kept: vec!["id".to_owned()],
            dropped: vec!["price.total".to_owned(), "price.tax".to_owned(), "notes[]".to_owned()],
            ..FieldCoverage::default()
        };
        let json = Coverage::Summary(fields).json(Some("C"), false, READ_TOOL);
        assert_eq!(
            (&json["kind"], &json["loss"], &json["totalFields"]),
            (&json!("preview"), &json!("condensed"), &json!(4))
        );
        assert_eq!(
            json["detailsAvailable"],
            json!({"endpoint": READ_TOOL, "parameters": {"cursor": "C", "fields": "price,notes"}})
        );
    }
}
