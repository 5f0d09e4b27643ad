//! The input of a query.

use std::borrow::Cow;

use super::grep::SearchOptions;
use super::json_lines::note;
use super::records::RecordSet;
use super::{calendar, table, xml};
use crate::json::locate_lists::DocumentInfo;
use crate::json::text::{Form, quoted};
use crate::policy::EndpointSettings;
use crate::text::embedded::{count_lines_around, locate_document, locate_lines};
use crate::text::lines::LineSpans;

/// The payload of a query, and the options that are not part of it.
#[derive(Clone, Copy)]
pub struct QueryInput<'q> {
    /// The payload.
    pub bytes: &'q [u8],
    /// The form of the payload: raw, or escaped inside a JSON string.
    pub form: Form,
    /// The payload's lists, if they are already located.
    pub survey: Option<&'q DocumentInfo>,
    /// The policy settings for the called tool or other endpoint.
    pub limits: &'q EndpointSettings,
    /// The first line of a text to search, from 1. 0 also means the first line.
    pub from_line: u64,
    /// The last line of a text to search. 0 means the last line of the text.
    pub until_line: u64,
    /// The maximum number of matches or groups to return. 0 for the default.
    pub limit: u64,
}

impl<'q> QueryInput<'q> {
    /// Returns the options of a search with `context` lines around matches.
    #[must_use]
    pub fn search_options(&self, context: Option<u64>) -> SearchOptions {
        SearchOptions { context, from_line: self.from_line.max(1), limit: self.limit }
    }

    /// Returns the requested lines of a text.
    ///
    /// # Errors
    /// Returns a message for the caller if the text has fewer lines.
    pub fn lines<'t>(&self, text: &'t [u8]) -> Result<&'t [u8], String> {
        let before = usize::try_from(self.from_line.saturating_sub(1)).unwrap_or(usize::MAX);
        let start = LineSpans::new(text, Form::Raw).take(before).last().map_or(0, |line| line.end);
        if start >= text.len() && before > 0 {
            let count = LineSpans::new(text, Form::Raw).count();
            return Err(format!("startLine {} is after the last line, {count}", self.from_line));
        }
        let head = self.head(text);
        Ok(head.get(start..).unwrap_or_default())
    }

    /// Returns the text up to the last line to search.
    #[must_use]
    pub fn head<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        if self.until_line == 0 {
            return text;
        }
        let count = usize::try_from(self.until_line).unwrap_or(usize::MAX);
        let end = LineSpans::new(text, Form::Raw).take(count).last().map_or(0, |line| line.end);
        text.get(..end).unwrap_or(text)
    }
}

/// Converts the table in a text to a JSON list of its rows. `None` if the text has no table, begins
/// like JSON, or is not UTF-8. O(n).
#[must_use]
pub fn table_rows(raw: &[u8]) -> Option<Vec<u8>> {
    let is_like_json = matches!(raw.trim_ascii_start().first(), Some(b'{' | b'['));
    table::to_json(utf8(raw).filter(|_| !is_like_json)?).map(|(json, _)| json)
}

/// Returns a text without its byte order mark. `None` if it is not UTF-8.
fn utf8(raw: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(raw).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A text that was converted to JSON.
pub(super) struct Converted {
    /// The JSON document.
    pub(super) json: Vec<u8>,
    /// A note for the answer, such as on the original format. Begins with a semicolon, or is empty.
    pub(super) note: String,
}

impl Converted {
    fn new(json: Vec<u8>, format: &str) -> Self {
        Self { json, note: format!("; the {format} was read as JSON") }
    }

    /// Returns true if the original format is XML.
    pub(super) fn is_xml(&self) -> bool {
        self.note.starts_with("; the XML ")
    }
}

/// Converts a text of another format to JSON: a calendar, XML, a table, TOML, or YAML. `None` for
/// JSON, and for other texts. O(text).
pub(super) fn convert(raw: &[u8]) -> Option<Converted> {
    let is_json = matches!(raw.trim_ascii_start().first(), Some(b'{' | b'['))
        && (DocumentInfo::parse(raw, Form::Raw).is_some()
            || locate_lines(raw, Form::Raw).is_some());
    if is_json {
        return None;
    }
    let text = utf8(raw)?;
    if let Some((json, format)) = calendar::to_json(text) {
        return Some(Converted::new(json, format));
    }
    // JSON between words or tags is neither XML nor YAML.
    let has_json =
        || locate_document(raw, Form::Raw).is_some() || locate_lines(raw, Form::Raw).is_some();
    let xml = || {
        let json = xml::to_json(text).filter(|_| !has_json())?;
        Some(Converted::new(json, "XML"))
    };
    let table = || table::to_json(text).map(|(json, note)| Converted { json, note });
    // Elements of XML may be named as those of HTML tables.
    let is_declared = text.trim_start().starts_with("<?xml");
    let found = if is_declared { xml().or_else(table) } else { table().or_else(xml) };
    found.or_else(|| configuration(text).filter(|_| !has_json()))
}

#[cfg(feature = "yaml")]
fn configuration(text: &str) -> Option<Converted> {
    if let Some(json) = super::toml::to_json(text) {
        return Some(Converted::new(json, "TOML"));
    }
    Some(Converted::new(super::yaml::to_json(text)?, "YAML"))
}

/// Always returns `None`, because this build reads neither TOML nor YAML.
#[cfg(not(feature = "yaml"))]
fn configuration(_: &str) -> Option<Converted> {
    None
}

/// Returns the note on the lines around JSON lines, which are no records. Empty for other payloads.
/// O(payload).
pub(super) fn note_on_lines(input: &QueryInput<'_>) -> String {
    let QueryInput { bytes, form, .. } = *input;
    let span = match input.survey {
        Some(survey) => survey.is_lines.then(|| survey.root.clone()),
        // A document on one line is not read again.
        None if LineSpans::new(bytes, form).nth(2).is_none() => None,
        None => locate_lines(bytes, form)
            .and_then(|lines| Some(lines.first()?.start..lines.last()?.end)),
    };
    span.map_or_else(String::new, |span| note(count_lines_around(bytes, form, &span)))
}

/// Returns a payload as one JSON document. Lines of JSON become a list. Of a document between
/// words, only the document remains. `None` for other texts.
pub(super) fn document<'r>(raw: &'r [u8], limits: &EndpointSettings) -> Option<Cow<'r, [u8]>> {
    if DocumentInfo::parse(raw, Form::Raw).is_some() {
        return Some(Cow::Borrowed(raw.trim_ascii()));
    }
    if locate_lines(raw, Form::Raw).is_some()
        && let Some(records) = RecordSet::locate(raw, limits)
    {
        return Some(Cow::Owned(records.whole()));
    }
    let part = locate_document(raw, Form::Raw).and_then(|info| raw.get(info.root));
    part.map(Cow::Borrowed)
}

/// Returns the lines of a text as a JSON list of texts.
pub(super) fn list_of_lines(raw: &[u8]) -> Vec<u8> {
    let lines = LineSpans::new(raw, Form::Raw).map(|line| {
        let line = String::from_utf8_lossy(raw.get(line).unwrap_or_default());
        quoted(line.trim_end_matches(['\r', '\n']))
    });
    [b"[".as_slice(), &lines.collect::<Vec<_>>().join(&b','), b"]"].concat()
}
