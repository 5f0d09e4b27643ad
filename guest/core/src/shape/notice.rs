//! The contract that the model reads: what is shown, of how much, what is missing, how to get it. Worded so that a part cannot be taken for the whole.

use serde_json::{Map, Value, json};

/// What a part is a part of.
#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    /// Items of a list.
    Page {
        /// The number of the first item shown, from 0.
        first: u64,
        /// Items shown.
        shown: u64,
        /// Items in all.
        total: u64,
        /// The most items that a page may hold here.
        page_size: u64,
        /// Where a document has several lists: each one's path, and items shown and in all.
        lists: Vec<(String, u64, u64)>,
    },
    /// Lines of a text.
    Chunk {
        /// The number of the chunk, from 0.
        index: u64,
        /// Chunks in all.
        total: u64,
        /// The first line shown, from 1.
        start_line: u64,
        /// The last line shown.
        end_line: u64,
        /// Lines in all.
        lines: u64,
        /// Bytes shown.
        bytes: u64,
        /// Whether these are the lines that were asked for, not a chunk of the whole.
        range: bool,
    },
    /// A piece of an item that is larger than a page.
    Part {
        /// The number of the item, from 0.
        item: u64,
        /// Items in all.
        total: u64,
        /// The first byte shown.
        from: u64,
        /// The byte after the last one shown.
        to: u64,
        /// Bytes of the item.
        bytes: u64,
    },
}

/// The name of the tool that reads on.
pub const READ_TOOL: &str = "context_guard_read";

impl Facts {
    /// `page`, `chunk` or `part`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Facts::Page { .. } => "page",
            Facts::Chunk { .. } => "chunk",
            Facts::Part { .. } => "part",
        }
    }

    /// One sentence on what is shown and what is not.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Facts::Page { first, shown, total, lists, .. } => {
                let hidden = total - shown;
                let range = if *shown == 0 {
                    "no item".to_owned()
                } else {
                    format!("items {}-{}", first + 1, first + shown)
                };
                let lists: Vec<String> = lists
                    .iter()
                    .map(|(path, shown, total)| format!("{path} {shown} of {total}"))
                    .collect();
                let lists = if lists.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", lists.join(", "))
                };
                if hidden == 0 {
                    format!("all {total} items{lists}.")
                } else {
                    format!(
                        "PARTIAL LIST: {range} of {total}{lists}; {hidden} are NOT shown here, so do not count or conclude from this page alone."
                    )
                }
            }
            Facts::Chunk { index, total, start_line, end_line, lines, range, .. } => {
                let span = format!("lines {start_line}-{end_line} of {lines}");
                if *range {
                    format!("PARTIAL TEXT: {span}, as asked for.")
                } else if *total <= 1 {
                    format!("all {lines} lines.")
                } else {
                    format!(
                        "PARTIAL TEXT: {span} (chunk {} of {total}); the rest is NOT shown here.",
                        index + 1
                    )
                }
            }
            Facts::Part { item, total, from, to, bytes } => {
                let number = item + 1;
                format!(
                    "PARTIAL LIST: item {number} of {total} is too large for one page; bytes {from}-{to} of its {bytes} are shown, the rest of it and the other items are NOT."
                )
            }
        }
    }

    /// The sentence, and how to go on.
    #[must_use]
    pub fn text(&self, cursor: Option<&str>, read_tool: &str) -> String {
        let sentence = self.sentence();
        match cursor {
            Some(cursor) => format!(
                "[context-guard] {sentence} To continue, call {read_tool} with {{\"cursor\":\"{cursor}\"}}"
            ),
            None => match self {
                Facts::Chunk { range: true, .. } => format!("[context-guard] {sentence}"),
                _ => format!("[context-guard] {sentence} This is the end: nothing follows."),
            },
        }
    }

    /// The same for programs: the public names of requirements sections 2 and 4.
    #[must_use]
    pub fn json(&self, cursor: Option<&str>) -> Map<String, Value> {
        let mut json = match self {
            Facts::Page { shown, total, page_size, .. } => json!({
                "shown": shown, "total": total, "omitted": total - shown,
                "meta": {"totalCount": total, "pageSize": page_size, "hasMore": cursor.is_some()},
            }),
            Facts::Chunk { index, total, start_line, end_line, lines, bytes, .. } => json!({
                "shown": (end_line + 1).saturating_sub(*start_line), "total": lines, "omitted": (lines + start_line).saturating_sub(end_line + 1),
                "chunkIndex": index, "totalChunks": total,
                "metadata": {"startLine": start_line, "endLine": end_line, "totalLines": lines, "bytesInChunk": bytes},
            }),
            Facts::Part { item, total, from, to, bytes } => json!({
                "shown": 0, "total": total, "omitted": total, "item": item, "fromByte": from, "toByte": to, "bytesInItem": bytes,
            }),
        };
        let Some(object) = json.as_object_mut() else { return Map::new() };
        object.insert("kind".to_owned(), self.kind().into());
        object.insert("loss".to_owned(), "partial".into());
        if let Some(cursor) = cursor {
            object.insert("nextCursor".to_owned(), cursor.into());
        }
        std::mem::take(object)
    }

    /// What `structuredContent.context_guard` holds: short, since a model may read it. `beside`: the paging fields stand beside the list as well.
    #[must_use]
    pub fn structured(
        &self,
        cursor: Option<&str>,
        read_tool: &str,
        beside: bool,
    ) -> Map<String, Value> {
        let mut json = self.json(cursor);
        json.remove("kind");
        if beside {
            json.remove("meta");
        }
        let how = if cursor.is_some() {
            format!(" To continue, call {read_tool} with nextCursor.")
        } else {
            String::new()
        };
        json.insert("note".to_owned(), format!("{}{how}", self.sentence()).into());
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_cannot_be_taken_for_the_whole() {
        let facts =
            Facts::Page { first: 50, shown: 50, total: 276, page_size: 50, lists: Vec::new() };
        let text = facts.text(Some("CURSOR"), READ_TOOL);
        for word in [
            "PARTIAL",
            "items 51-100 of 276",
            "226 are NOT shown",
            r#"context_guard_read with {"cursor":"CURSOR"}"#,
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert_eq!(
            facts.json(Some("C"))["meta"],
            json!({"totalCount": 276, "pageSize": 50, "hasMore": true})
        );
    }

    #[test]
    fn the_last_page_says_so_and_has_no_cursor() {
        let facts =
            Facts::Page { first: 250, shown: 26, total: 276, page_size: 50, lists: Vec::new() };
        assert!(facts.text(None, READ_TOOL).ends_with("This is the end: nothing follows."));
        let json = facts.json(None);
        assert!(!json.contains_key("nextCursor") && json["meta"]["hasMore"] == false);
    }
}
