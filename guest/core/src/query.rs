//! Reading what is kept: a value by its path, chosen fields, records that meet a condition, lines that match, totals over all of it.

pub mod aggregate;
pub mod condition;
mod decimal;
pub mod grep;
pub mod path;
mod projected;
pub mod records;
pub mod response_mode;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::aggregate::Aggregates;
use self::condition::Condition;
use self::grep::Pattern;
use self::path::{Path, PathTarget};
use self::records::RecordSet;
use self::response_mode::ResponseMode;
use crate::json::scan::Kind;
use crate::json::survey::Survey;
use crate::json::text::{Form, visible};
use crate::policy::EndpointSettings;
use crate::shape::lossless::minify;
use crate::shape::project::{Mask, names};

/// What of an answer is asked for, as the caller spelt it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// A JSON Pointer, or a small JSONPath.
    pub path: Option<String>,
    /// Fields of the records, or of the document.
    pub fields: Option<String>,
    /// A regular expression.
    pub grep: Option<String>,
    /// Lines shown before and after one that matches.
    pub context: u64,
    /// Totals over all records.
    pub aggregate: Option<String>,
    /// What records must meet.
    pub condition: Option<String>,
    /// How records are shown.
    pub mode: Option<ResponseMode>,
    /// The ids of the records that are meant.
    pub filter_ids: Vec<String>,
    /// The least score.
    pub min_score: Option<String>,
}

/// What a query found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    /// JSON, or a text, not escaped.
    pub bytes: Vec<u8>,
    /// Whether it is a text.
    pub text: bool,
    /// What this is, in words: "fields id, status of 500 records".
    pub what: String,
    /// Where this was enough before all records were looked at: what was chosen of them.
    pub part: Option<PartialProjection>,
}

/// Fields of the first records of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialProjection {
    /// The fields, as they were asked for.
    pub fields: String,
    /// The keys that lead to the list, where the fields are named from the document on.
    pub within: Vec<String>,
}

/// Whether a list of chosen fields, which is not closed yet, is enough.
pub type IsEnough<'e> = &'e mut dyn FnMut(&[u8]) -> bool;

impl QueryResult {
    /// JSON, or a text, and what it is.
    #[must_use]
    pub fn new(bytes: Vec<u8>, text: bool, what: String) -> Self {
        Self { bytes, text, what, part: None }
    }
}

impl Query {
    /// Whether anything is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Whole records are what an answer holds anyway.
        let full = Self { mode: Some(ResponseMode::Full), ..Self::default() };
        *self == Self::default() || *self == full
    }

    /// Whether only records by their ids are asked for, which a caller can only know from an earlier answer.
    #[must_use]
    pub fn refers_back(&self) -> bool {
        !self.filter_ids.is_empty()
    }

    /// Checks how it is spelt.
    ///
    /// # Errors
    /// With a sentence for the caller.
    pub fn check(&self) -> Result<(), String> {
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

    /// Answers it, checked before, on a payload, and its survey where there is one already; a text is searched from `from_line` on. O(payload); of chosen fields of a list
    /// O(what is is_enough).
    ///
    /// # Errors
    /// With a sentence for the caller, where the payload has nothing of the kind.
    pub fn run(
        &self,
        bytes: &[u8],
        form: Form,
        survey: Option<&Survey>,
        limits: &EndpointSettings,
        from_line: u64,
        is_enough: IsEnough<'_>,
    ) -> Result<QueryResult, String> {
        if let Some(found) = self.projected(bytes, form, survey, limits, is_enough) {
            return Ok(found);
        }
        let raw = visible(bytes, form);
        let Some(records) = RecordSet::of(&raw, limits) else {
            return self.run_on_text(&raw, from_line);
        };
        let mut records = match &self.path {
            Some(path) => match records.at(&Path::parse(path)?)? {
                PathTarget::Text(text) => return self.run_on_text(text.as_bytes(), from_line),
                PathTarget::Records(records) => records,
            },
            None => records,
        };
        let all = records.ids.len();
        if self.filters() {
            if !records.is_list {
                return Err("where, filter_ids and min_score choose records of a list; this answer is not one".to_owned());
            }
            self.filter(&mut records, limits)?;
        }
        let of = if self.filters() {
            format!("{} of {all} records", records.ids.len())
        } else if records.is_list {
            format!("{all} records")
        } else {
            "the document".to_owned()
        };
        if let Some(aggregate) = &self.aggregate {
            let aggregates = Aggregates::parse(aggregate)?;
            let totals = aggregates.run(&records)?;
            return Ok(QueryResult::new(totals, false, format!("{aggregate} over {of}")));
        }
        if let Some(mode) = self.mode.filter(|_| records.is_list) {
            let bytes = response_mode::render(mode, &records, limits, self.fields.as_deref())?;
            return Ok(QueryResult::new(bytes, false, format!("{} of {of}", mode.name())));
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
            return Ok(QueryResult::new(records.whole(), false, what));
        };
        let mask = Mask::parse(fields)?;
        match records.project(&mask) {
            Some(projected) => {
                let of = if projected.of_document { "the document" } else { of.as_str() };
                Ok(QueryResult::new(projected.bytes, false, format!("fields {fields} of {of}")))
            }
            None => {
                let first = if records.is_list {
                    records.ids.first().copied().unwrap_or(0)
                } else {
                    records.root
                };
                let known = names(&records.outline, first);
                Err(format!("there is no field {fields}; there are: {}", short_list(&known, 40)))
            }
        }
    }

    /// Chosen fields, where nothing else is asked for: the rest of the document is passed. None where that needs a closer look.
    fn projected(
        &self,
        bytes: &[u8],
        form: Form,
        survey: Option<&Survey>,
        limits: &EndpointSettings,
        is_enough: IsEnough<'_>,
    ) -> Option<QueryResult> {
        let fields = self.fields.as_deref()?;
        let alone = Self { fields: self.fields.clone(), ..Self::default() };
        if *self != alone {
            return None;
        }
        let survey = survey.map_or_else(
            || Survey::of(bytes, form).map(Cow::Owned),
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
        let part = list.filter(|_| projected.part).map(|list| PartialProjection {
            fields: fields.to_owned(),
            within: if projected.within { list.path.clone() } else { Vec::new() },
        });
        let what = format!("fields {fields} of {of}");
        Some(QueryResult { part, ..QueryResult::new(projected.bytes, false, what) })
    }

    fn filters(&self) -> bool {
        self.condition.is_some() || !self.filter_ids.is_empty() || self.min_score.is_some()
    }

    fn filter(&self, records: &mut RecordSet<'_>, limits: &EndpointSettings) -> Result<(), String> {
        if let Some(condition) = &self.condition {
            let condition = Condition::parse(condition)?;
            records.keep(|records, id| condition.holds(&records.outline, id));
        }
        if !self.filter_ids.is_empty() {
            let keys = response_mode::RecordKeys::of(records, limits);
            records.keep(|records, id| {
                keys.id_of(records, id).is_some_and(|own| self.filter_ids.contains(&own))
            });
        }
        if let Some(least) = &self.min_score {
            let keys = response_mode::RecordKeys::of(records, limits);
            if !records.ids.is_empty()
                && !records.ids.iter().any(|id| keys.score_of(records, *id).is_some())
            {
                return Err("min_score: the records have no score; name its field in policy as itemFields.score".to_owned());
            }
            let least: f64 = least.parse().unwrap_or(0.0);
            records
                .keep(|records, id| keys.score_of(records, id).is_some_and(|score| score >= least));
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

/// Names for a sentence, at most so many.
#[must_use]
pub fn short_list(names: &[String], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(String::as_str).collect();
    let rest = names.len().saturating_sub(most);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
