//! Queries that have fields alone, which need no outline of the document.

use std::borrow::Cow;

use super::Query;
use super::projected::{IsEnough, project};
use super::records::{ListEnvelope, record_list};
use super::result::{PartialProjection, QueryResult};
use crate::fields::mask::Mask;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::Kind;
use crate::json::text::Form;
use crate::policy::EndpointSettings;
use crate::text::embedded::locate_document;

impl Query {
    /// Runs a query that has only `fields`, without an outline of the document. Returns `None` if
    /// the query has other parts, or needs an outline.
    pub(super) fn project(
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
        let list = record_list(&survey, limits);
        let projected = project(bytes, form, &survey, list, &mask, is_enough)?;
        // The records may have the fields in another case.
        if !projected.missing.is_empty() {
            return None;
        }
        let of = list.filter(|_| !projected.of_document).map_or_else(
            || "the document".to_owned(),
            |list| format!("{} records", list.items.len()),
        );
        let partial = list.filter(|_| projected.is_partial).map(|list| PartialProjection {
            fields: fields.to_owned(),
            within: if projected.within { list.path.clone() } else { Vec::new() },
        });
        let what = format!("fields {fields} of {of}{}", projected.note());
        let envelope = list
            .filter(|_| !projected.of_document)
            .and_then(|list| ListEnvelope::around(bytes, form, &survey, list));
        Some(QueryResult { partial, envelope, ..QueryResult::new(projected.bytes, false, what) })
    }
}
