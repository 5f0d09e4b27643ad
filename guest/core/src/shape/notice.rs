//! Result notices: sentences for models about the omitted parts of a result. They are worded so
//! that models do not mistake a part for the whole.

use super::coverage::{Coverage, FieldCoverage};
use crate::json::text::quoted;
use crate::query::names::join_names;

/// The name of the guard's tool that reads the rest of an answer.
pub const READ_TOOL: &str = "context_guard_read";

/// The name of the member `nextCursor` next to the list, to which notices refer instead of
/// repeating the cursor.
pub(super) const NEXT_CURSOR: &str = "nextCursor";

/// The maximum number of omitted fields that a result notice names.
const MAX_NAMES: usize = 8;
/// The maximum number of omitted fields that a result notice names if the token limit is small.
const MAX_NAMES_BRIEF: usize = 3;

impl Coverage {
    /// Returns a sentence for the result notice: the part of the payload in the result, and the
    /// omitted part.
    #[must_use]
    pub fn sentence(&self) -> String {
        self.sentence_of(MAX_NAMES)
    }

    /// Returns the sentence of [`Coverage::sentence`], with at most `names` names of omitted
    /// fields.
    fn sentence_of(&self, names: usize) -> String {
        match self {
            Coverage::Page { first, shown, total, lists, condensed, .. } => {
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
                match condensed {
                    None if hidden == 0 => format!("all {total} items{lists}."),
                    None => format!(
                        "PARTIAL LIST: {range} of {total}{lists}; {hidden} are NOT shown here, so do not count or conclude from this page alone."
                    ),
                    Some(fields) => {
                        let rest = if hidden == 0 {
                            String::new()
                        } else {
                            format!(
                                " {hidden} items are NOT shown here, so do not count or conclude from this page alone."
                            )
                        };
                        format!(
                            "CONDENSED LIST: {range} of {total}{lists}, not whole: {}.{rest}",
                            fields.sentence(names)
                        )
                    }
                }
            }
            Coverage::Chunk { index, total, start_line, end_line, lines, range, .. } => {
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
            Coverage::Part { item, total, from, to, bytes } => {
                let number = item + 1;
                format!(
                    "PARTIAL LIST: item {number} of {total} is too large for one page; bytes {from}-{to} of its {bytes} are shown, the rest of it and the other items are NOT."
                )
            }
            Coverage::Summary(fields) => {
                format!("SUMMARY, not the whole answer: {}.", fields.sentence(names))
            }
            Coverage::Found { what } => format!("This is a part of the answer: {what}."),
            Coverage::Lossless { what } => format!("The whole answer, {what}."),
            Coverage::Described { what, bytes } => format!("NOT shown: {what} ({bytes} bytes)."),
        }
    }

    /// Returns the result notice: a sentence on the omitted part, and how to read it with
    /// `read_tool`. `cursor` leads to the rest of the payload if `more`, else to the whole. `roomy`
    /// allows more field names and examples.
    #[must_use]
    pub fn text(&self, cursor: Option<&str>, more: bool, read_tool: &str, roomy: bool) -> String {
        let sentence = self.sentence_of(if roomy { MAX_NAMES } else { MAX_NAMES_BRIEF });
        let call = |cursor: &str, extra: &str| {
            format!("{read_tool} with {{\"cursor\":{}{extra}}}", quoted_cursor(cursor))
        };
        match (cursor, self) {
            (Some(cursor), Coverage::Page { condensed: Some(_), .. }) if more => format!(
                "[context-guard] {sentence} To continue, call {}; for these items whole add \"fields\":\"all\"{}.",
                call(cursor, ""),
                if roomy {
                    ", for one of all \"path\":\"/0\", for totals \"aggregate\":\"count\""
                } else {
                    ""
                }
            ),
            (Some(cursor), _) if more => {
                format!("[context-guard] {sentence} To continue, call {}", call(cursor, ""))
            }
            (
                Some(cursor),
                Coverage::Page { condensed: Some(fields), .. } | Coverage::Summary(fields),
            ) => {
                let (name, value) = fields.follow_up(if roomy { 3 } else { 1 });
                let value = String::from_utf8_lossy(&quoted(&value)).into_owned();
                format!(
                    "[context-guard] {sentence} For more, call {} or \"fields\":\"all\"{}.",
                    call(cursor, &format!(",\"{name}\":{value}")),
                    if roomy { ", or \"path\", \"grep\", \"aggregate\"" } else { "" }
                )
            }
            (Some(cursor), Coverage::Lossless { .. }) => {
                format!("[context-guard] {sentence} As it came: {}", call(cursor, ""))
            }
            (Some(cursor), _) => {
                format!("[context-guard] {sentence} For the whole, call {}", call(cursor, ""))
            }
            (
                None,
                Coverage::Chunk { range: true, .. }
                | Coverage::Found { .. }
                | Coverage::Lossless { .. },
            ) => format!("[context-guard] {sentence}"),
            (None, _) => format!("[context-guard] {sentence} This is the end: nothing follows."),
        }
    }

    /// Returns the shortest result notice, for small token limits. `cursor` leads to the rest of
    /// the payload if `more`, else to the whole.
    #[must_use]
    pub fn brief_text(&self, cursor: Option<&str>, more: bool, read_tool: &str) -> String {
        let json = self.json(None, more, "");
        let count = match (self, json.get("shown"), json.get("total")) {
            (Coverage::Summary(fields), Some(shown), Some(total)) => {
                format!(" {shown} of {total} fields, {} list items left out", fields.elements)
            }
            (_, Some(shown), Some(total)) => format!(" {shown} of {total}"),
            _ => String::new(),
        };
        let what = match self {
            Coverage::Page { condensed: Some(_), .. } | Coverage::Summary(_) => "CONDENSED",
            Coverage::Page { shown, total, .. } if shown == total => "COMPLETE",
            Coverage::Chunk { total: 0 | 1, range: false, .. } => "COMPLETE",
            Coverage::Lossless { .. } => "COMPLETE",
            _ => "PARTIAL",
        };
        match cursor {
            Some(cursor) => {
                let name = match self {
                    _ if more => "rest",
                    Coverage::Lossless { .. } => "as it came",
                    _ => "whole",
                };
                format!(
                    "[context-guard] {what}{count}; {name}: {read_tool} {{\"cursor\":{}}}",
                    quoted_cursor(cursor)
                )
            }
            None => format!("[context-guard] {what}{count}; the end."),
        }
    }

    /// Returns the arguments of the read tool that return the excerpt again, as text only. The
    /// cursor leads to the rest of the payload if `more`, else to the whole.
    pub(super) fn way_to_read(&self, more: bool) -> String {
        let name = if more { NEXT_CURSOR } else { "cursor" };
        match self {
            Coverage::Found { .. } => format!("{name} and the arguments of this call"),
            _ if !more => name.to_owned(),
            Coverage::Page { first: 0, .. } | Coverage::Part { .. } => {
                format!("{name} and path \"$\"")
            }
            Coverage::Chunk { start_line, end_line, .. } => {
                format!("{name}, startLine {start_line} and endLine {end_line}")
            }
            _ => "the cursor of this call".to_owned(),
        }
    }

    /// Returns a hint on how to read all fields of condensed content, for structured content.
    /// `cursor` is the name of the member with the cursor. Empty if nothing was condensed.
    pub(super) fn whole_hint(&self, cursor: Option<&str>, read_tool: &str) -> String {
        match (self, cursor) {
            (Coverage::Page { condensed: Some(_), .. } | Coverage::Summary(_), Some(name)) => {
                format!(" Whole: {read_tool} with {name} as cursor and fields \"all\".")
            }
            _ => String::new(),
        }
    }
}

/// Returns a cursor in JSON syntax. [`NEXT_CURSOR`] is a name, which gets no quotes.
fn quoted_cursor(cursor: &str) -> String {
    if cursor == NEXT_CURSOR { cursor.to_owned() } else { format!("\"{cursor}\"") }
}

impl FieldCoverage {
    fn sentence(&self, names: usize) -> String {
        let mut parts = vec![format!("{} of {} fields", self.kept.len(), self.total)];
        if !self.dropped.is_empty() {
            parts.push(format!("NOT shown: {}", join_names(&self.dropped, names)));
        }
        if !self.constants.is_empty() {
            let constants = self.constants.iter().map(|(path, value)| match value.as_str() {
                "" => format!("{path}=\"\""),
                value => format!("{path}={value}"),
            });
            let constants: Vec<String> = constants.collect();
            parts.push(format!("in all of these: {}", constants.join(", ")));
        }
        if self.elements > 0 {
            parts.push(format!(
                "{} list items NOT shown, where \" ... [N more items]\" stands",
                self.elements
            ));
        }
        if self.shortened > 0 {
            parts.push("values with \" ... [N more …]\" are cut".to_owned());
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: u64, shown: u64, condensed: Option<FieldCoverage>) -> Coverage {
        Coverage::Page { first, shown, total: 276, page_size: 50, lists: Vec::new(), condensed }
    }

    #[test]
    fn partial_page_is_labelled() {
        let text = page(50, 50, None).text(Some("CURSOR"), true, READ_TOOL, true);
        for word in [
            "PARTIAL",
            "items 51-100 of 276",
            "226 are NOT shown",
            r#"context_guard_read with {"cursor":"CURSOR"}"#,
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn brief_notice_is_labelled_by_coverage() {
        let brief = |coverage: Coverage| coverage.brief_text(Some("C"), false, READ_TOOL);
        let lossless = Coverage::Lossless { what: "without nulls".to_owned() };
        assert_eq!(
            brief(lossless),
            r#"[context-guard] COMPLETE; as it came: context_guard_read {"cursor":"C"}"#
        );
        assert!(brief(page(0, 276, None)).starts_with("[context-guard] COMPLETE 276 of 276;"));
        assert!(brief(page(0, 50, None)).starts_with("[context-guard] PARTIAL 50 of 276;"));
        let condensed = page(0, 276, Some(FieldCoverage::default()));
        assert!(brief(condensed).starts_with("[context-guard] CONDENSED 276 of 276;"));
    }

    #[test]
    fn last_page_is_labelled() {
        assert!(
            page(250, 26, None)
                .text(None, false, READ_TOOL, true)
                .ends_with("This is the end: nothing follows.")
        );
    }

    #[test]
    fn condensed_notice_lists_missing_fields() {
        let fields = FieldCoverage {
            total: 9,
            kept: vec!["id".to_owned()],
            dropped: vec!["body".to_owned(), "user.url".to_owned()],
            shortened: 2,
            ..FieldCoverage::default()
        };
        let text = page(0, 276, Some(fields.clone())).text(Some("C"), false, READ_TOOL, true);
        for word in [
            "CONDENSED",
            "1 of 9 fields",
            "NOT shown: body, user.url",
            r#"{"cursor":"C","fields":"body,user"}"#,
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        let text = page(0, 50, Some(fields)).text(Some("C"), true, READ_TOOL, true);
        assert!(
            text.contains("226 items are NOT shown")
                && text.contains(r#"for these items whole add "fields":"all""#),
            "{text}"
        );
    }
}
