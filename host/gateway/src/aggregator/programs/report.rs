//! The result of `context_guard_run` for the client.

use serde_json::{Map, Value, json};

use super::notes::CallNotes;
use crate::code::{Log, Outcome, RunError};
use crate::message::{Head, member, splice, with_member};

/// The member of `_meta` with data about a run.
const RUN_META: &str = "dev.context-guard/run";

/// The result of a run, before the guard shapes it.
pub(super) struct RunReport {
    texts: Vec<String>,
    is_error: bool,
    calls: usize,
    /// The estimated tokens of the results of all calls.
    pub(super) tokens: u64,
}

impl RunReport {
    /// Returns the report of a run that was refused for `reason` and did not begin.
    pub(super) fn refused(reason: String) -> Self {
        let texts = vec![format!("[context-guard] {reason}.")];
        Self { texts, is_error: true, calls: 0, tokens: 0 }
    }

    /// Returns a report with a text that was requested instead of a run.
    pub(super) fn of_text(text: String) -> Self {
        Self { texts: vec![text], is_error: false, calls: 0, tokens: 0 }
    }

    /// Returns the report with `head` before its first text.
    pub(super) fn headed(mut self, head: &str) -> Self {
        if let Some(text) = self.texts.first_mut() {
            text.insert_str(0, head);
        }
        self
    }

    /// Returns the report of a run that ended.
    pub(super) fn of_run(outcome: Outcome, notes: &CallNotes) -> Self {
        let (calls, tokens) = notes.totals();
        let log = logged(&outcome.log);
        let mut texts = Vec::new();
        let is_error = match outcome.value {
            Ok(value) => {
                texts.push(text_of(value));
                false
            }
            // What a program logs is what its author wants to see.
            Err(RunError::Value(_)) if !outcome.log.text.is_empty() => false,
            Err(error) => {
                texts.push(failure(&error, notes));
                true
            }
        };
        texts.extend(log);
        Self { texts, is_error, calls, tokens }
    }

    /// Returns the report of a run that the sandbox ended with `error`.
    pub(super) fn failed(error: &RunError, notes: &CallNotes) -> Self {
        let (calls, tokens) = notes.totals();
        Self { texts: vec![failure(error, notes)], is_error: true, calls, tokens }
    }

    /// Returns the report as the JSON of a tool result.
    pub(super) fn to_result(&self) -> String {
        let content: Vec<Value> =
            self.texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        match self.is_error {
            true => json!({"content": content, "isError": true}).to_string(),
            false => json!({"content": content}).to_string(),
        }
    }

    /// Returns a response with the data about the run in `_meta`, which models do not see.
    /// `kept_out` is the number of tokens of results that the program kept out of its answer.
    pub(super) fn with_meta(
        &self,
        response: Vec<u8>,
        kept_out: u64,
        is_stateless: bool,
    ) -> Vec<u8> {
        let head = Head::read(&response);
        let Some(result) = head.as_ref().and_then(|head| head.result) else { return response };
        let meta = member(result, "_meta").and_then(|meta| serde_json::from_str(meta.get()).ok());
        let mut meta: Map<String, Value> = meta.unwrap_or_default();
        let facts = json!({"calls": self.calls, "tokensKeptOut": kept_out});
        meta.insert(RUN_META.to_owned(), facts);
        let mut changed = with_member(result, "_meta", Some(&Value::Object(meta).to_string()));
        if is_stateless {
            changed = with_member(&changed, "resultType", Some("\"complete\""));
        }
        splice(&response, result, &changed)
    }
}

/// Returns the value of a program as a text: a JSON string without its quotes, any other value as
/// JSON.
fn text_of(value: Vec<u8>) -> String {
    let json = String::from_utf8_lossy(&value).into_owned();
    match json.starts_with('"') {
        // A text with half of a surrogate pair is no valid text, and remains JSON.
        true => serde_json::from_str(&json).unwrap_or(json),
        false => json,
    }
}

fn failure(error: &RunError, notes: &CallNotes) -> String {
    let calls = notes.describe();
    match calls.is_empty() {
        true => format!("[context-guard] {error}"),
        false => format!("[context-guard] {error}\nCalls made before:{calls}"),
    }
}

fn logged(log: &Log) -> Option<String> {
    if log.text.is_empty() && log.omitted == 0 {
        return None;
    }
    let more = match log.omitted {
        0 => String::new(),
        omitted => format!("[context-guard] {omitted} more lines are not shown: log less.\n"),
    };
    Some(format!("Log:\n{}{more}", log.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_join_the_meta_of_the_guard() {
        let report = RunReport::of_text("x".to_owned());
        let response = br#"{"id":1,"result":{"content":[],"_meta":{"a":1}}}"#.to_vec();
        let response: Value = serde_json::from_slice(&report.with_meta(response, 7, true)).unwrap();
        assert_eq!(response["result"]["resultType"], "complete");
        let meta = &response["result"]["_meta"];
        assert_eq!(meta["a"], 1);
        assert_eq!(meta[RUN_META], json!({"calls": 0, "tokensKeptOut": 7}));
    }

    #[test]
    fn logged_lines_replace_a_missing_value() {
        let log = Log { text: "a\n".to_owned(), omitted: 2 };
        let outcome = Outcome { value: Err(RunError::Value("none".to_owned())), log };
        let report = RunReport::of_run(outcome, &CallNotes::new(1));
        assert!(!report.is_error);
        assert!(report.texts[0].starts_with("Log:\na\n[context-guard] 2 more"));
    }

    #[test]
    fn texts_have_no_quotes() {
        assert_eq!(text_of(br#""a\nb""#.to_vec()), "a\nb");
        assert_eq!(text_of(br#""\ud800""#.to_vec()), r#""\ud800""#);
        assert_eq!(text_of(b"[1]".to_vec()), "[1]");
    }
}
