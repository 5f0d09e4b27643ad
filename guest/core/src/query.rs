//! Queries on a payload: a value by its path, selected fields, records that meet a condition,
//! matching lines, and totals over all records.

pub mod aggregate;
mod alike;
mod calendar;
mod code;
mod columns;
pub mod comparison;
mod compiled_regex;
pub mod condition;
pub(crate) mod date;
mod field;
mod fields_alone;
pub mod grep;
mod ids;
mod input;
#[cfg(feature = "jq")]
mod jq;
mod json_lines;
mod known_fields;
mod line_filter;
mod list_choice;
mod literal;
mod literal_search;
mod log_records;
mod members;
mod multiselect;
pub mod names;
mod needed;
mod objects;
mod operand;
mod order;
pub mod path;
mod plan;
mod program;
mod projected;
mod reader;
pub mod records;
pub mod response_mode;
mod result;
mod rewrite;
mod scale;
mod sql;
mod stages;
mod statement;
mod table;
mod text_query;
#[cfg(feature = "yaml")]
mod toml;
mod validate;
mod value;
pub mod values;
pub mod verbatim;
mod xml;
#[cfg(feature = "yaml")]
mod yaml;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::aggregate::Aggregates;
use self::condition::Condition;
use self::grep::Pattern;
pub use self::input::{QueryInput, table_rows};
use self::known_fields::in_known_case;
use self::path::Path;
pub use self::program::NO_JQ;
pub use self::projected::IsEnough;
use self::projected::Projected;
use self::records::{ListEnvelope, PathTarget, RecordSet};
use self::response_mode::ResponseMode;
pub use self::result::{PartialProjection, QueryResult};
use crate::encoding::Stored;
use crate::fields::mask::Mask;
use crate::json::outline::NodeId;
use crate::json::text::visible;
use crate::policy::EndpointSettings;

/// The error for a document that exceeds the size of an outline, so that a query would miss values.
const TOO_MANY_VALUES: &str = "this answer has more than a million values, too many for this query: use where or aggregate with few fields, fields alone, jq, or pages";

/// A query on the answer of a tool call, with the expressions as the caller wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The path of the value to query: a JSON Pointer, or a JSONPath.
    pub path: Option<String>,
    /// The fields to return, of each record or of the document, as dotted paths separated by
    /// commas.
    pub fields: Option<String>,
    /// The regular expression that returned lines or values must match.
    pub grep: Option<String>,
    /// True if `grep` ignores case, false if it respects it. `None` for smart case.
    pub ignore_case: Option<bool>,
    /// Number of context lines to return before and after a matching line. `None` for the automatic
    /// context of few matches.
    pub context: Option<u64>,
    /// The totals to compute over all records, such as `count by status`.
    pub aggregate: Option<String>,
    /// The condition that returned records must meet, such as `status=open`.
    pub condition: Option<String>,
    /// The jq program that computes the result.
    pub jq: Option<String>,
    /// The level of detail in which records are returned.
    pub mode: Option<ResponseMode>,
    /// The ids of the records to return; empty for all records.
    pub filter_ids: Vec<String>,
    /// The minimum score that returned records must have.
    pub min_score: Option<String>,
    /// The number of records to leave out at the start, because earlier pages showed them.
    pub skip: u64,
}

impl Stored for Query {
    const FORMAT: &'static [u8; 4] = b"cgq2";
}

impl Query {
    /// Returns true if the query has no parts, so that it returns the whole payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Complete records are the default.
        let full = Self { mode: Some(ResponseMode::Full), ..Self::default() };
        *self == Self::default() || *self == full
    }

    /// Returns true if the query contains ids of records, which a caller can only know from an
    /// earlier answer.
    #[must_use]
    pub fn refers_back(&self) -> bool {
        !self.filter_ids.is_empty()
    }

    /// Runs a validated query on a payload. A projection of a list stops when `is_enough` returns
    /// true. O(payload).
    ///
    /// # Errors
    /// Returns a message for the caller if the query does not apply to the payload.
    pub fn run(
        &self,
        input: &QueryInput<'_>,
        is_enough: IsEnough<'_>,
    ) -> Result<QueryResult, String> {
        let mut found = self.run_on_payload(input, is_enough)?;
        let note = input::note_on_lines(input);
        // A search that finds nothing in the lines of JSON continues in the lines around them.
        if !note.is_empty() && self.is_search() && found.description.starts_with("0 match") {
            let raw = visible(input.bytes, input.form);
            return self.run_on_text(&raw, input, false);
        }
        found.description.push_str(&note);
        Ok(found)
    }

    fn run_on_payload(
        &self,
        input: &QueryInput<'_>,
        is_enough: IsEnough<'_>,
    ) -> Result<QueryResult, String> {
        if self.needs_jq() {
            return Err(self.jq_error(NO_JQ));
        }
        let inner = QueryInput { limit: 0, ..*input };
        let mut run = |query: &Self| Ok(query.run(&inner, &mut |_| false)?.bytes);
        if let Some(resolved) = self.with_results_of(&mut run)? {
            return resolved.run_on_payload(input, is_enough);
        }
        let QueryInput { bytes, form, survey, limits, .. } = *input;
        let has_range = input.from_line > 0 || input.until_line > 0;
        if has_range && self.runs_jq() {
            return Err("startLine and endLine have no effect with jq: choose in the program, such as .[9:20]".to_owned());
        }
        if !has_range && let Some(found) = self.project(bytes, form, survey, limits, is_enough) {
            return Ok(found);
        }
        // An error names fields that the query does not read, so that it needs all of them.
        if let Some(needed) = self.needed_fields()
            && let Some(records) = RecordSet::locate_fields(bytes, form, survey, limits, &needed)
            && records.outline.is_complete()
            // The values of other lists were skipped.
            && !self.names_other_list(&records)
            && let Ok(found) = self.run_on_records(records, input)
        {
            return Ok(found);
        }
        let raw = visible(bytes, form);
        let converted = if self.needs_records() { input::convert(&raw) } else { None };
        let Some(converted) = converted else {
            let found = self.run_on_json(&raw, input);
            return found.or_else(|error| self.run_on_rows(&raw, input).ok_or(error));
        };
        let is_list = converted.json.starts_with(b"[");
        let found = match self.is_program() && is_list {
            true => self.run_jq(&converted.json, true),
            false => self.run_on_json(&converted.json, input),
        };
        let mut result = match found {
            // The path may be one of XPath.
            Err(error) if converted.is_xml() => match self.with_json_path() {
                Some(query) => query.run_on_json(&converted.json, input)?,
                None => return Err(error),
            },
            result => result?,
        };
        result.description.push_str(&converted.note);
        Ok(result)
    }

    /// Runs the query on the rows of a table in JSON as records. `None` if the query needs no
    /// records, if there is no such table, or if the query fails.
    fn run_on_rows(&self, raw: &[u8], input: &QueryInput<'_>) -> Option<QueryResult> {
        if self.is_program() || !self.needs_records() {
            return None;
        }
        let records = RecordSet::locate(raw, input.limits)?;
        let outline = records.outline.is_complete().then_some(&records.outline)?;
        let (json, note) = columns::with_records(outline, records.root)?;
        let mut result = self.run_on_json(&json, input).ok()?;
        result.description.push_str(&note);
        Some(result)
    }

    /// Runs the query on a document, on lines of JSON, or on any other text.
    fn run_on_json(&self, raw: &[u8], input: &QueryInput<'_>) -> Result<QueryResult, String> {
        let limits = input.limits;
        if self.is_program() {
            let Some(document) = input::document(raw, limits) else {
                let found = self.run_jq_on_objects(raw);
                return found.unwrap_or_else(|| self.run_jq(&input::list_of_lines(raw), true));
            };
            return self.run_jq(&document, matches!(document, Cow::Owned(_)));
        }
        match RecordSet::locate(raw, limits) {
            // A search of more values than can be read finds its matches in the text.
            Some(records)
                if !records.outline.is_complete() && self.is_search() && self.path.is_none() =>
            {
                let mut found = self.run_on_text(raw, input, false)?;
                if found.description.starts_with("0 matching lines") {
                    return self.run_on_document(records, input);
                }
                found.description.push_str(
                    "; the JSON was searched as a text, because it has too many values to read",
                );
                Ok(found)
            }
            Some(records) if records.outline.is_complete() || self.is_search() => {
                self.run_on_document(records, input)
            }
            Some(_) => Err(TOO_MANY_VALUES.to_owned()),
            None => self.run_on_text(raw, input, false),
        }
    }

    fn run_on_records(
        &self,
        records: RecordSet<'_>,
        input: &QueryInput<'_>,
    ) -> Result<QueryResult, String> {
        let limits = input.limits;
        let named = self.named_list(&records)?;
        let own_path = self.path.as_ref().or(named.as_ref());
        let mut records = match own_path {
            Some(path) => match records
                .follow(&Path::parse(path)?)
                .map_err(|reason| format!("{reason}{}", Path::correction(path)))?
            {
                PathTarget::Text(text) if self.runs_jq() => {
                    return self.run_jq(&crate::json::text::quoted(&text), false);
                }
                PathTarget::Text(text) => return self.run_on_text(text.as_bytes(), input, true),
                PathTarget::Records(records) => records,
            },
            None => records,
        };
        if self.reads_records() {
            records.open_lists();
        }
        check_range(input)?;
        let mut aggregates = self.aggregate.as_deref().map(Aggregates::parse).transpose()?;
        if self.ignore_case == Some(true) {
            aggregates = aggregates.map(Aggregates::in_any_case);
        }
        let mut chosen_list = None;
        if self.filters() || aggregates.is_some() {
            chosen_list = self.list_with_fields(&records, aggregates.as_ref());
            match &chosen_list {
                Some(path) => records = records.at_list(path)?,
                None => self.require_list(&mut records, aggregates.as_ref())?,
            }
        }
        let all = records.ids.len();
        let list = match own_path.or(chosen_list.as_ref()) {
            Some(path) if records.list_path().is_none() => format!(" at {path}"),
            _ => records.list_path().map_or_else(String::new, |path| format!(" of {path}")),
        };
        let (chosen, note) = self.choose(&records, limits)?;
        let mut of = if self.chooses() {
            format!("{} of {all} records{list}", chosen.len())
        } else if records.is_list {
            format!("{all} records{list}")
        } else {
            "the document".to_owned()
        };
        if let Some(note) = note {
            of = format!("{of} where {note}");
        }
        if let Some(aggregates) = aggregates {
            let totals = aggregates.run(&records, &chosen, input.limit)?;
            let aggregate = self.aggregate.as_deref().unwrap_or_default();
            return Ok(QueryResult::new(totals, false, format!("{aggregate} over {of}")));
        }
        records.ids = chosen;
        if self.runs_jq() {
            return self.run_jq(&records.whole(), records.is_list && self.filters());
        }
        if self.skip > 0 && records.is_list {
            records.skip(self.skip);
            of = format!("{of}, after the first {}", self.skip);
        }
        if self.mode.is_some_and(|mode| mode != ResponseMode::Full) && !records.is_list {
            let lists = records.lists();
            let hint = match lists.is_empty() {
                true => "; choose members with fields".to_owned(),
                false => format!("; name one of its lists with path: {}", lists.join(", ")),
            };
            return Err(format!(
                "response_mode is the form of items; this answer is not a list{hint}"
            ));
        }
        if let Some(mode) = self.mode.filter(|_| records.is_list) {
            let bytes = response_mode::render(mode, &records, limits, self.fields.as_deref())?;
            let envelope = Some(ListEnvelope::member(mode.list_key()));
            let what = format!("{} of {of}", mode.name());
            return Ok(QueryResult { envelope, ..QueryResult::new(bytes, false, what) });
        }
        if let Some(pattern) = self.grep.as_deref().filter(|_| self.fields.is_none()) {
            let options = input.search_options(self.context);
            let search = |found: &Pattern| Ok(found.search_json(&records, self.filters(), options));
            let is_empty = |found: &(Vec<u8>, String)| found.1.starts_with("0 matches");
            let (found, note) = Pattern::search(pattern, self.ignore_case, search, is_empty)?;
            grep::check_empty(pattern, is_empty(&found))?;
            return Ok(QueryResult::new(found.0, false, format!("{} in {of}{note}", found.1)));
        }
        let Some(fields) = &self.fields else {
            let what = match &self.path {
                Some(path) if !self.chooses() => format!("{path} of the answer"),
                _ => of.clone(),
            };
            let envelope = records.envelope();
            return Ok(QueryResult { envelope, ..QueryResult::new(records.whole(), false, what) });
        };
        let are_chosen = self.chooses() || self.skip > 0;
        let project = |fields: &str| -> Result<Option<Projected>, String> {
            let projected = records.project(&Mask::parse(fields)?, are_chosen);
            Ok(records.project_attributes(fields, projected, are_chosen))
        };
        let (mut fields, mut projected) = (Cow::Borrowed(fields.as_str()), project(fields)?);
        let is_whole = |found: &Projected| found.missing.is_empty();
        if !projected.as_ref().is_some_and(is_whole)
            && let Some(corrected) = in_known_case(&records, &fields)
            && let Some(found) = project(&corrected)?
        {
            (fields, projected) = (Cow::Owned(corrected), Some(found));
        }
        match projected {
            Some(projected) => {
                projected.check_names()?;
                let of = if projected.of_document { "the document" } else { of.as_str() };
                let envelope = if projected.of_document { None } else { records.envelope() };
                // No field is missing where no record was chosen.
                let note = if records.ids.is_empty() { String::new() } else { projected.note() };
                let what = format!("fields {fields} of {of}{note}");
                Ok(QueryResult { envelope, ..QueryResult::new(projected.bytes, false, what) })
            }
            None => Err(aggregate::no_field(&records, &fields)),
        }
    }

    /// Returns the nodes of the records that the query selects, and a description of the condition.
    fn choose(
        &self,
        records: &RecordSet<'_>,
        limits: &EndpointSettings,
    ) -> Result<(Vec<NodeId>, Option<String>), String> {
        let mut note = None;
        let mut ids = match &self.condition {
            Some(condition) => {
                let mut condition = Condition::parse(condition)?;
                if self.ignore_case == Some(true) {
                    condition = condition.in_any_case();
                }
                let selection = condition.select(records)?;
                note = Some(selection.description).filter(|note| !note.is_empty());
                selection.ids
            }
            None => records.ids.clone(),
        };
        if !self.filter_ids.is_empty() {
            let (chosen, field) = self.by_ids(records, limits, ids)?;
            ids = chosen;
            note = match (note, field) {
                (Some(note), Some(field)) => Some(format!("{note}; {field}")),
                (note, field) => note.or(field),
            };
        }
        if let Some(least) = &self.min_score {
            let keys = response_mode::RecordKeys::detect(records, limits);
            if !ids.is_empty() && !ids.iter().any(|id| keys.score_of(records, *id).is_some()) {
                return Err("min_score: the records have no score; name its field in policy as itemFields.score".to_owned());
            }
            let least: f64 = least.parse().unwrap_or(0.0);
            ids.retain(|id| keys.score_of(records, *id).is_some_and(|score| score >= least));
        }
        if let Some(pattern) = self.grep.as_deref().filter(|_| self.greps_records()) {
            let search = |found: &Pattern| found.choose(records, &ids);
            let ((matching, part), reading) =
                Pattern::search(pattern, self.ignore_case, search, |found| found.0.is_empty())?;
            grep::check_empty(pattern, matching.is_empty())?;
            ids = matching;
            let part = if ids.is_empty() { "a value" } else { part };
            let matches = format!("{part} matches {pattern:?}{reading}");
            note = Some(note.map_or(matches.clone(), |note| format!("{note}; {matches}")));
        }
        Ok((ids, note))
    }
}

/// Returns an error if lines are requested of JSON.
fn check_range(input: &QueryInput<'_>) -> Result<(), String> {
    if input.from_line > 0 || input.until_line > 0 {
        return Err("startLine and endLine choose lines of a text; this answer is JSON: use path, where or limit".to_owned());
    }
    Ok(())
}
