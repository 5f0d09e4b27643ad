//! Queries over a payload: a value by its path, selected fields, records that meet a condition,
//! matching lines, totals over all records.

pub mod aggregate;
pub mod condition;
mod decimal;
mod expression;
pub mod grep;
pub mod names;
pub mod path;
mod projected;
pub mod records;
pub mod response_mode;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::aggregate::Aggregates;
use self::condition::Condition;
use self::grep::Pattern;
use self::names::join_names;
use self::path::Path;
pub use self::projected::IsEnough;
use self::records::{ListEnvelope, PathTarget, RecordSet};
use self::response_mode::ResponseMode;
use crate::encoding::Stored;
use crate::fields::mask::{Mask, names};
use crate::fields::minify;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::Kind;
use crate::json::text::{Form, visible};
use crate::policy::EndpointSettings;
use crate::text::embedded::locate_document;

/// A query on the answer of a tool call, in the words of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The path of the value to query: a JSON Pointer, or a JSONPath of the supported subset.
    pub path: Option<String>,
    /// The fields to return, of each record or of the document, as dotted paths separated by
    /// commas.
    pub fields: Option<String>,
    /// The regular expression that returned lines or values must match.
    pub grep: Option<String>,
    /// Number of context lines to return before and after a matching line.
    pub context: u64,
    /// The totals to compute over all records, such as `count by status`.
    pub aggregate: Option<String>,
    /// The condition that returned records must meet, such as `status=open`.
    pub condition: Option<String>,
    /// The level of detail in which records are returned.
    pub mode: Option<ResponseMode>,
    /// The ids of the records to return; empty for all records.
    pub filter_ids: Vec<String>,
    /// The minimum score that returned records must have.
    pub min_score: Option<String>,
    /// The number of records to leave out at the start, because earlier pages showed them.
    pub skip: u64,
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    /// The result: unescaped JSON, or a text.
    pub bytes: Vec<u8>,
    /// True if the result is a text, not JSON.
    pub is_text: bool,
    /// A description of the result in words: "fields id, status of 500 records".
    pub description: String,
    /// The fields that the query selects, if their projection stopped before the last record. None
    /// if all records were read, or the query selects no fields.
    pub partial: Option<PartialProjection>,
    /// The document around the list that `bytes` contain. None if `bytes` are a whole document, or
    /// a list that is not the document's list of records.
    pub envelope: Option<ListEnvelope>,
}

/// Selected fields of only the first records of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialProjection {
    /// The selected fields, as the caller wrote them.
    pub fields: String,
    /// The keys from the document to the list, if the paths in `fields` start at the document.
    /// Empty if the paths start at each record.
    pub within: Vec<String>,
}

impl QueryResult {
    /// Creates a complete result: neither a partial projection nor a list inside a document.
    #[must_use]
    pub fn new(bytes: Vec<u8>, is_text: bool, description: String) -> Self {
        Self { bytes, is_text, description, partial: None, envelope: None }
    }
}

impl Stored for Query {
    const FORMAT: &'static [u8; 4] = b"cgq1";
}

impl Query {
    /// Returns true if the query has no parts, so that it returns the whole payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Complete records are the default.
        let full = Self { mode: Some(ResponseMode::Full), ..Self::default() };
        *self == Self::default() || *self == full
    }

    /// Returns a query for the complete records that this query selects, from record number `first`
    /// on. Returns none if this query returns complete records already.
    #[must_use]
    pub fn for_complete_records(&self, first: u64) -> Option<Self> {
        let reduces =
            self.fields.is_some() || self.mode.is_some_and(|mode| mode != ResponseMode::Full);
        let skip = self.skip.saturating_add(first);
        reduces.then(|| Self { fields: None, mode: None, skip, ..self.clone() })
    }

    /// Returns true if the query contains ids of records. A caller can only know them from an
    /// earlier answer.
    #[must_use]
    pub fn refers_back(&self) -> bool {
        !self.filter_ids.is_empty()
    }

    /// Checks the syntax of the query, and that its parts can be combined.
    ///
    /// # Errors
    /// Returns a message for the caller.
    pub fn validate(&self) -> Result<(), String> {
        if let Some(path) = &self.path {
            Path::parse(path)?;
        }
        if let Some(fields) = &self.fields {
            Mask::parse(fields)?;
        }
        if let Some(pattern) = &self.grep {
            Pattern::new(pattern)?;
        }
        if let Some(aggregate) = &self.aggregate {
            Aggregates::parse(aggregate)?;
        }
        if let Some(condition) = &self.condition {
            Condition::parse(condition)?;
        }
        let one = [self.aggregate.is_some(), self.mode.is_some(), self.grep.is_some()];
        if one.iter().filter(|asked| **asked).count() > 1 {
            return Err("aggregate, response_mode and grep cannot be asked for together: make a call for each".to_owned());
        }
        Ok(())
    }

    /// Runs a validated query on a payload. `survey` holds the payload's lists, if they are already
    /// located. The search in a text begins at line `from_line`. A projection of a list stops when
    /// `is_enough` returns true. O(payload).
    ///
    /// # Errors
    /// Returns a message for the caller if the query does not apply to the payload.
    pub fn run(
        &self,
        bytes: &[u8],
        form: Form,
        survey: Option<&DocumentInfo>,
        limits: &EndpointSettings,
        from_line: u64,
        is_enough: IsEnough<'_>,
    ) -> Result<QueryResult, String> {
        if let Some(found) = self.project(bytes, form, survey, limits, is_enough) {
            return Ok(found);
        }
        let raw = visible(bytes, form);
        let Some(records) = RecordSet::locate(&raw, limits) else {
            return self.run_on_text(&raw, from_line);
        };
        let mut records = match &self.path {
            Some(path) => match records.follow(&Path::parse(path)?)? {
                PathTarget::Text(text) => return self.run_on_text(text.as_bytes(), from_line),
                PathTarget::Records(records) => records,
            },
            None => records,
        };
        let all = records.ids.len();
        if self.filters() {
            if !records.is_list {
                let lists = records.lists();
                let hint = if lists.is_empty() {
                    String::new()
                } else {
                    format!("; name one of its lists with path: {}", lists.join(", "))
                };
                return Err(format!(
                    "where, filter_ids and min_score choose records of a list; this answer is not one{hint}"
                ));
            }
            self.filter(&mut records, limits)?;
        }
        let list = records.list_path().map_or_else(String::new, |path| format!(" of {path}"));
        let mut of = if self.filters() {
            format!("{} of {all} records{list}", records.ids.len())
        } else if records.is_list {
            format!("{all} records{list}")
        } else {
            "the document".to_owned()
        };
        if self.skip > 0 && records.is_list {
            records.skip(self.skip);
            of = format!("{of}, after the first {}", self.skip);
        }
        if let Some(aggregate) = &self.aggregate {
            let aggregates = Aggregates::parse(aggregate)?;
            let totals = aggregates.run(&records)?;
            return Ok(QueryResult::new(totals, false, format!("{aggregate} over {of}")));
        }
        if let Some(mode) = self.mode.filter(|_| records.is_list) {
            let bytes = response_mode::render(mode, &records, limits, self.fields.as_deref())?;
            let envelope = Some(ListEnvelope::member(mode.list_key()));
            let what = format!("{} of {of}", mode.name());
            return Ok(QueryResult { envelope, ..QueryResult::new(bytes, false, what) });
        }
        if let Some(pattern) = &self.grep {
            let found = Pattern::new(pattern)?.search_json(&records);
            return Ok(QueryResult::new(found.0, false, format!("{} in {of}", found.1)));
        }
        let Some(fields) = &self.fields else {
            let what = self
                .path
                .as_ref()
                .map_or_else(|| of.clone(), |path| format!("{path} of the answer"));
            let envelope = records.envelope();
            return Ok(QueryResult { envelope, ..QueryResult::new(records.whole(), false, what) });
        };
        let mask = Mask::parse(fields)?;
        match records.project(&mask) {
            Some(projected) => {
                let of = if projected.of_document { "the document" } else { of.as_str() };
                let envelope = if projected.of_document { None } else { records.envelope() };
                let what = format!("fields {fields} of {of}");
                Ok(QueryResult { envelope, ..QueryResult::new(projected.bytes, false, what) })
            }
            None => {
                let first = if records.is_list {
                    records.ids.first().copied().unwrap_or(0)
                } else {
                    records.root
                };
                let known = names(&records.outline, first);
                Err(format!("there is no field {fields}; there are: {}", join_names(&known, 40)))
            }
        }
    }

    /// Runs a query that has only `fields`, without an outline of the document. Returns none if the
    /// query has other parts, or needs an outline.
    fn project(
        &self,
        bytes: &[u8],
        form: Form,
        survey: Option<&DocumentInfo>,
        limits: &EndpointSettings,
        is_enough: IsEnough<'_>,
    ) -> Option<QueryResult> {
        let fields = self.fields.as_deref()?;
        let alone = Self { fields: self.fields.clone(), ..Self::default() };
        if *self != alone {
            return None;
        }
        let survey = survey.map_or_else(
            || {
                let whole = DocumentInfo::parse(bytes, form);
                whole.or_else(|| locate_document(bytes, form)).map(Cow::Owned)
            },
            |survey| Some(Cow::Borrowed(survey)),
        )?;
        if survey.kind == Kind::Scalar {
            return None;
        }
        let mask = Mask::parse(fields).ok()?;
        let list = records::record_list(&survey, limits);
        let projected = projected::project(bytes, form, &survey, list, &mask, is_enough)?;
        let of = list.filter(|_| !projected.of_document).map_or_else(
            || "the document".to_owned(),
            |list| format!("{} records", list.items.len()),
        );
        let partial = list.filter(|_| projected.is_partial).map(|list| PartialProjection {
            fields: fields.to_owned(),
            within: if projected.within { list.path.clone() } else { Vec::new() },
        });
        let what = format!("fields {fields} of {of}");
        let envelope = list
            .filter(|_| !projected.of_document)
            .and_then(|list| ListEnvelope::around(bytes, form, &survey, list));
        Some(QueryResult { partial, envelope, ..QueryResult::new(projected.bytes, false, what) })
    }

    fn filters(&self) -> bool {
        self.condition.is_some() || !self.filter_ids.is_empty() || self.min_score.is_some()
    }

    fn filter(&self, records: &mut RecordSet<'_>, limits: &EndpointSettings) -> Result<(), String> {
        if let Some(condition) = &self.condition {
            let condition = Condition::parse(condition)?;
            records.retain(|records, id| condition.holds(&records.outline, id));
        }
        if !self.filter_ids.is_empty() {
            let keys = response_mode::RecordKeys::detect(records, limits);
            records.retain(|records, id| {
                keys.id_of(records, id).is_some_and(|own| self.filter_ids.contains(&own))
            });
        }
        if let Some(least) = &self.min_score {
            let keys = response_mode::RecordKeys::detect(records, limits);
            if !records.ids.is_empty()
                && !records.ids.iter().any(|id| keys.score_of(records, *id).is_some())
            {
                return Err("min_score: the records have no score; name its field in policy as itemFields.score".to_owned());
            }
            let least: f64 = least.parse().unwrap_or(0.0);
            records.retain(|records, id| {
                keys.score_of(records, id).is_some_and(|score| score >= least)
            });
        }
        Ok(())
    }

    fn run_on_text(&self, text: &[u8], from_line: u64) -> Result<QueryResult, String> {
        if let Some(pattern) = &self.grep {
            let (bytes, what) =
                Pattern::new(pattern)?.search_text(text, self.context, from_line.max(1));
            return Ok(QueryResult::new(bytes, true, what));
        }
        if self.path.is_some()
            && self.fields.is_none()
            && self.aggregate.is_none()
            && self.mode.is_none()
            && !self.filters()
        {
            let bytes = minify_if_json(text);
            return Ok(QueryResult::new(bytes, true, self.path.clone().unwrap_or_default()));
        }
        Err("this answer is a text, not JSON: use grep, or startLine and endLine".to_owned())
    }
}

fn minify_if_json(text: &[u8]) -> Vec<u8> {
    if crate::json::scan::is_json(text, Form::Raw) { minify(text) } else { text.to_vec() }
}
