//! Calls of the guard's tools that search, browse and call other tools.

use memchr::memmem;
use serde_json::json;

use super::Aggregator;
use super::client::Origin;
use super::client_list::GuardFailed;
use super::instructions::first_names;
use super::lists::MergedTools;
use crate::catalogue_tools::{redirected_call, selects_tools};
use crate::exchange::NextStep;
use crate::message::{Head, member, with_member};
use crate::reply;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::Outcome;

/// The note on an answer that the guard made from the names of tools alone.
const NAMES_NOTE: &str = "Only names were searched, and definitions are missing, because the guard could not process the tools in time. Repeat the call later.";

/// The guard's reaction to a call of one of its catalogue tools.
enum CatalogueAnswer {
    Answer(Vec<u8>),
    /// The call that the gateway makes instead.
    Call(Vec<u8>),
}

impl Aggregator {
    /// Answers a call of one of the guard's catalogue tools, of a hidden tool, or of a tool that no
    /// upstream is known to have.
    pub(super) async fn call_catalogue(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let merged = self.lists.known_tools(origin).await;
        if merged.lists.is_empty() {
            let text = "tools are not listed yet: retry in 2 s";
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            return reply::result(head.raw_id(), &result.to_string());
        }
        let mut answer = self.guarded_call(origin, head, request, &merged).await;
        let mut notes: Vec<String> = unlisted_note(&merged.unlisted).into_iter().collect();
        if matches!(answer, Err(GuardFailed)) {
            answer = self.guarded_call(origin, head, request, &merged.by_name()).await;
            notes.push(NAMES_NOTE.to_owned());
        }
        match answer {
            Ok(Some(CatalogueAnswer::Answer(answer))) => with_notes(head, answer, &notes),
            Ok(Some(CatalogueAnswer::Call(call))) => self.redirected(origin, &call).await,
            Ok(None) | Err(GuardFailed) => {
                let reason = "The catalogue of tools is not available now. Repeat the call, or call a tool by its name.";
                reply::failure(request, reply::UPSTREAM_UNAVAILABLE, reason)
            }
        }
    }

    /// Returns the guard's reaction to a call of one of its catalogue tools. `None` if the guard
    /// does not process lists of tools.
    async fn guarded_call(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        request: &[u8],
        merged: &MergedTools,
    ) -> Result<Option<CatalogueAnswer>, GuardFailed> {
        let mut exchange = self.catalogue_exchange(origin, request, merged);
        let next =
            run_blocking(&self.filter, &origin.client.caller, GuardInput::Request(request), || {
                exchange.on_request_uncached(&self.filter, request)
            });
        let (answer, decision) = match next.await {
            NextStep::Answer(answer, decision) => (answer, Some(decision)),
            NextStep::Forward(Some(call)) => return Ok(Some(CatalogueAnswer::Call(call))),
            // The guard has no stored catalogue of this version.
            NextStep::Forward(None) => {
                let answer = self.compile(origin, &exchange, head.raw_id(), merged).await?;
                let Some(answer) = answer else { return Ok(None) };
                if let Some(call) = redirected_call(&answer, head.raw_id()) {
                    return Ok(Some(CatalogueAnswer::Call(call)));
                }
                (answer, None)
            }
        };
        exchange.record(&self.recorder, decision.as_deref(), answer.len(), Outcome::Passed);
        Ok(Some(CatalogueAnswer::Answer(answer)))
    }

    /// Makes the tool call that the guard returned, as if the client had made it.
    async fn redirected(&self, origin: &Origin<'_>, call: &[u8]) -> Vec<u8> {
        match Head::read(call) {
            Some(head) => Box::pin(self.call_upstream_tool(origin, &head, call)).await,
            None => reply::error("null", reply::PARSE_ERROR, "This is not JSON."),
        }
    }
}

/// Returns the note that names the upstreams whose tools are unknown. `None` if there are none.
fn unlisted_note(unlisted: &[String]) -> Option<String> {
    let named = first_names(unlisted);
    let note = format!(
        "Not searched, because they have not listed their tools yet: {named}. Repeat the call later."
    );
    (!unlisted.is_empty()).then_some(note)
}

/// Adds notes to the answer to `call`, a call of a catalogue tool, if a tool may be missing for the
/// reasons in the notes. Errors of the protocol remain unchanged.
fn with_notes(call: &Head<'_>, answer: Vec<u8>, notes: &[String]) -> Vec<u8> {
    let name = call.parameters().name.unwrap_or_default();
    if notes.is_empty() || !(selects_tools(&name) || is_unknown_tool(&answer)) {
        return answer;
    }
    let blocks = notes.iter().map(|note| json!({"type": "text", "text": note}).to_string());
    let blocks = blocks.collect::<Vec<_>>().join(",");
    let edited = std::str::from_utf8(&answer).ok().and_then(|text| {
        let result = member(text, "result")?.get();
        let content = member(result, "content")?.get().trim_end().strip_suffix(']')?;
        let separator = if content.trim_end().ends_with('[') { "" } else { "," };
        let content = format!("{content}{separator}{blocks}]");
        let result = with_member(result, "content", Some(&content));
        Some(with_member(text, "result", Some(&result)).into_bytes())
    });
    edited.unwrap_or(answer)
}

/// Returns true if the guard's answer says that a tool is unknown.
fn is_unknown_tool(answer: &[u8]) -> bool {
    memmem::find(answer, br#"no tool \""#).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn unlisted_upstreams_are_named() {
        let names: Vec<String> = (0..25).map(|at| format!("s{at}")).collect();
        let notes: Vec<String> = unlisted_note(&names).into_iter().collect();
        assert_eq!(unlisted_note(&[]), None);
        let found =
            br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}],"x":1}}"#;
        let call = |name: &str| json!({"id": 1, "params": {"name": name}}).to_string();
        let (search, describe) =
            (call("context_guard_search_tools_2"), call("context_guard_describe_tools"));
        let search = Head::read(search.as_bytes()).unwrap();
        let describe = Head::read(describe.as_bytes()).unwrap();
        let answer = with_notes(&search, found.to_vec(), &notes);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let content = answer["result"]["content"].as_array().unwrap();
        assert!(content.len() == 2 && content[0]["text"] == "a" && answer["result"]["x"] == 1);
        let note = content[1]["text"].as_str().unwrap();
        assert!(note.contains("s0, s1, ") && note.contains("s19 and 5 more."), "{note}");
        assert_eq!(with_notes(&search, found.to_vec(), &[]), found);
        // A definition is complete, but an unknown tool may be one of theirs.
        assert_eq!(with_notes(&describe, found.to_vec(), &notes), found);
        let unknown = br#"{"id":1,"result":{"content":[{"type":"text","text":"no tool \"a\""}]}}"#;
        let answer = with_notes(&describe, unknown.to_vec(), &notes);
        assert!(String::from_utf8(answer).unwrap().contains("s19 and 5 more."));
        let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#;
        assert_eq!(with_notes(&search, error.to_vec(), &notes), error);
        let empty = br#"{"id":1,"result":{"content":[ ]}}"#;
        let answer: Value =
            serde_json::from_slice(&with_notes(&search, empty.to_vec(), &notes)).unwrap();
        assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1);
    }
}
