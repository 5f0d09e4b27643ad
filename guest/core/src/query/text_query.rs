//! Queries on texts that are not JSON.

use super::aggregate::Aggregates;
use super::code::keyword;
use super::grep::{self, FoundLines, Pattern};
use super::{Query, QueryInput, QueryResult};
use crate::fields::minify;
use crate::json::text::Form;

impl Query {
    /// Runs the query on a text that is not JSON. `is_value` is true if the path of the query led
    /// to it, false if it is the whole answer.
    pub(super) fn run_on_text(
        &self,
        text: &[u8],
        input: &QueryInput<'_>,
        is_value: bool,
    ) -> Result<QueryResult, String> {
        let path = self.path.as_deref().filter(|_| !is_value);
        if let Some(path) = path.filter(|path| !matches!(path.trim(), "" | "/" | "$" | "." | "$."))
        {
            return Err(format!(
                "this answer is a text, not JSON, so that it has no value at path {path}: use grep, or startLine and endLine, and leave out path"
            ));
        }
        let is_plain = self.fields.is_none() && self.mode.is_none() && !self.filters();
        let counts = self.aggregate.as_deref().map(Aggregates::parse).transpose()?;
        let counts_only = counts.as_ref().is_some_and(Aggregates::has_no_fields);
        if let Some(pattern) =
            self.grep.as_deref().filter(|_| is_plain && (counts_only || counts.is_none()))
        {
            let text = input.head(text);
            let options = input.search_options(self.context);
            let search = |found: &Pattern| Ok(found.search_text(text, options));
            let is_empty = |found: &FoundLines| found.text.is_empty();
            let (mut found, note) = Pattern::search(pattern, self.ignore_case, search, is_empty)?;
            grep::check_empty(pattern, found.text.is_empty())?;
            found.description.push_str(&note);
            if counts.is_some() {
                return Ok(QueryResult::new(found.counts.into_bytes(), false, found.description));
            }
            return Ok(QueryResult::new(found.text, true, found.description));
        }
        if self.path.is_some() && is_plain && counts.is_none() {
            if input.limit > 0 {
                return Err("limit is the number of records or matches; the value at this path is a text: use startLine and endLine, or grep".to_owned());
            }
            let bytes = minify_if_json(input.lines(text)?);
            return Ok(QueryResult::new(bytes, true, self.path.clone().unwrap_or_default()));
        }
        if let Some(result) = self.run_on_log(text, input) {
            return result;
        }
        // The words of an order are no text to search for.
        let condition = self.condition.as_deref().unwrap_or_default();
        let order = keyword(condition, 0, "order by").unwrap_or(condition.len());
        let hint = grep::search_hint(condition.get(..order).unwrap_or_default());
        let program = match cfg!(feature = "jq") {
            true => {
                ", or jq on the list of its lines, such as jq: map(select(test(\"a\"))) | length"
            }
            false => "",
        };
        Err(format!(
            "this answer is a text, not JSON: use grep{hint}, or startLine and endLine{program}"
        ))
    }
}

fn minify_if_json(text: &[u8]) -> Vec<u8> {
    if crate::json::scan::is_json(text, Form::Raw) { minify(text) } else { text.to_vec() }
}
