//! Queries on the entries of a log.

use super::{LogRecords, json_objects, read};
use crate::query::grep::Pattern;
use crate::query::input::QueryInput;
use crate::query::{Query, QueryResult};

impl Query {
    /// Runs a query of records on the entries of a log. `None` if the text is not a log, or if the
    /// query needs no records. `grep` selects the entries whose text matches.
    pub(in crate::query) fn run_on_log(
        &self,
        text: &[u8],
        input: &QueryInput<'_>,
    ) -> Option<Result<QueryResult, String>> {
        if self.aggregate.is_none() && self.fields.is_none() && !self.filters() {
            return None;
        }
        if input.from_line > 0 || input.until_line > 0 {
            let until = if input.until_line > 0 { input.until_line } else { u64::MAX };
            return read(text, None).map(|_| {
                Err(format!(
                    "startLine and endLine have no effect here; write where: line BETWEEN {} AND {until}",
                    input.from_line.max(1)
                ))
            });
        }
        let (log, reading) = match &self.grep {
            None => (read(text, None)?, String::new()),
            Some(grep) => {
                let search = |pattern: &Pattern| {
                    match text.len() > pattern.max_bytes() {
                    true if read(text, None).is_none() => Ok(None),
                    true => Err("the log is too long for grep beside this argument: use where with ~, or a shorter pattern".to_owned()),
                    false => Ok(read(text, Some(pattern))),
                }
                };
                let is_empty =
                    |log: &Option<LogRecords>| log.as_ref().is_some_and(|log| log.chosen == 0);
                match Pattern::search(grep, self.ignore_case, search, is_empty) {
                    Ok((log, reading)) => (log?, reading),
                    Err(reason) => return Some(Err(reason)),
                }
            }
        };
        let grep = self.grep.clone().filter(|_| log.is_json);
        let query = Self { path: None, grep, ..self.clone() };
        let chosen = match &self.grep {
            Some(grep) if !log.is_json => {
                format!("; {} of {} entries match {grep:?}{reading}", log.chosen, log.total)
            }
            _ => String::new(),
        };
        let note = format!("{chosen}{}", log.note());
        Some(query.run_on_json(&log.json, input).map(|mut result| {
            result.description.push_str(&note);
            result
        }))
    }

    /// Runs the jq program of the query on the JSON objects of a text with other lines between
    /// them. `None` if the text has no such lines, or if the program itself parses the lines.
    pub(in crate::query) fn run_jq_on_objects(
        &self,
        text: &[u8],
    ) -> Option<Result<QueryResult, String>> {
        let parses_lines = self.jq.as_ref().is_some_and(|program| program.contains("fromjson"));
        let text = std::str::from_utf8(text).ok().filter(|_| !parses_lines)?;
        let lines = json_objects(text)?;
        Some(self.run_jq(&lines.json, true).map(|mut result| {
            result.description.push_str(&lines.note());
            result
        }))
    }
}
