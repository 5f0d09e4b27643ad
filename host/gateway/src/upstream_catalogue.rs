//! The tool catalogue of one upstream: clients get a short list instead of a long one, with tools
//! of the guard to search, describe, browse and call the others.
//!
//! The upstream has no list before the client has asked for it. A call of one of the guard's tools
//! that comes earlier waits: the gateway asks for the list first.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use context_guard_protocol::RequestId;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::catalogue_tools::{
    READ_TOOLS, facts_of, is_catalogue_tool, names_in, redirected_call, version_of,
};
use crate::engine::Decision;
use crate::exchange::{Exchange, NextStep};
use crate::filter::Filter;
use crate::message::{Head, member, splice};
use crate::reply;

/// The list of an upstream's tools, as the guard expects it.
pub(crate) struct UpstreamTools {
    /// A hash of the list.
    version: String,
    /// The result of `tools/list`, with the facts about it.
    result: String,
    names: HashSet<String>,
}

impl UpstreamTools {
    /// Reads a list from the answer that a client would get. Returns none if it is no list, or if
    /// it continues on another page.
    fn parse(upstream: &str, answer: &[u8]) -> Option<Self> {
        let result = Head::read(answer)?.result?;
        if member(result, "nextCursor").is_some_and(|cursor| cursor.get() != "null") {
            return None;
        }
        let mut tools: Vec<&RawValue> =
            serde_json::from_str(member(result, "tools")?.get()).ok()?;
        let name = |tool: &RawValue| -> Option<String> {
            serde_json::from_str(member(tool.get(), "name")?.get()).ok()
        };
        // The guard adds its own tool at the end.
        if tools
            .last()
            .and_then(|tool| name(tool))
            .is_some_and(|name| READ_TOOLS.contains(&name.as_str()))
        {
            tools.pop();
        }
        let names: Vec<String> = tools.iter().filter_map(|tool| name(tool)).collect();
        if names.len() != tools.len() || names.is_empty() {
            return None;
        }
        let tools: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
        let tools = tools.join(",");
        // The list of a client is one page.
        let facts = json!({
            "servers": [{"name": upstream, "tools": names}],
            "pageSize": u32::MAX,
        });
        let list =
            format!(r#"{{"tools":[{tools}],"_meta":{{"dev.context-guard/catalogue":{facts}}}}}"#);
        let version = version_of(&Sha256::digest(list.as_bytes()));
        Some(Self { version, result: list, names: names.into_iter().collect() })
    }

    /// Returns the list as a response to a request.
    fn response(&self, exchange: &Exchange) -> Vec<u8> {
        reply::result(exchange.id(), &self.result)
    }
}

/// A request whose answer needs the upstream's list, which is on its way.
enum Awaiting {
    /// The client's request for the list.
    List(Vec<u8>),
    /// The client's call of one of the guard's tools.
    Call(Vec<u8>),
}

#[derive(Default)]
struct CatalogueState {
    tools: Option<Arc<UpstreamTools>>,
    /// The names of tools that policy hides, or whose definitions it withholds.
    withheld: HashSet<String>,
    awaiting: HashMap<RequestId, Awaiting>,
}

/// The next step for a call that the guard's catalogue has processed.
pub(crate) enum CatalogueStep {
    /// Send this answer to the client.
    Answer(Vec<u8>, Option<Box<Decision>>),
    /// Send this call to the upstream instead of the client's.
    Call(Vec<u8>),
}

/// The next step for a client's request, before the upstream sees it.
pub(crate) enum ClientRequest {
    /// The request is not for the catalogue.
    Other,
    /// The catalogue of these tools answers it.
    Known(Arc<UpstreamTools>),
    /// Ask the upstream for its list first, by this request.
    Fetch(Vec<u8>),
}

/// A list that the guard made from the upstream's.
pub(crate) struct ListAnswer {
    pub(crate) message: Vec<u8>,
    pub(crate) decision: Option<Decision>,
}

/// The tool catalogue of one upstream.
#[derive(Default)]
pub(crate) struct UpstreamCatalogue {
    state: Mutex<CatalogueState>,
}

impl UpstreamCatalogue {
    fn state(&self) -> MutexGuard<'_, CatalogueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Classifies a client's request, and notes that its answer is a list.
    pub(crate) fn begin(&self, id: &RequestId, request: &[u8]) -> ClientRequest {
        let Some(head) = Head::read(request) else { return ClientRequest::Other };
        let mut state = self.state();
        match head.method() {
            "tools/list" => {
                let is_first =
                    head.params.is_none_or(|params| member(params.get(), "cursor").is_none());
                if is_first {
                    state.awaiting.insert(id.clone(), Awaiting::List(request.to_vec()));
                }
                ClientRequest::Other
            }
            "tools/call" => {
                let parameters = head.parameters();
                let name = parameters.name.as_deref().unwrap_or_default();
                let is_own = state.tools.as_ref().is_some_and(|tools| tools.names.contains(name));
                let is_withheld = state.withheld.contains(name);
                if !is_withheld && (!is_catalogue_tool(name) || is_own) {
                    return ClientRequest::Other;
                }
                if let Some(tools) = &state.tools {
                    return ClientRequest::Known(Arc::clone(tools));
                }
                state.awaiting.insert(id.clone(), Awaiting::Call(request.to_vec()));
                let meta = parameters
                    .meta
                    .map_or_else(String::new, |meta| format!(r#""_meta":{}"#, meta.get()));
                let list = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"method":"tools/list","params":{{{meta}}}}}"#,
                    head.raw_id()
                );
                ClientRequest::Fetch(list.into_bytes())
            }
            _ => ClientRequest::Other,
        }
    }

    /// Processes a call of one of the guard's tools. `exchange` is that of the call.
    pub(crate) fn call(
        mut exchange: Exchange,
        filter: &Filter,
        request: &[u8],
        tools: &UpstreamTools,
    ) -> CatalogueStep {
        exchange.context.catalog_version = Some(tools.version.clone());
        match exchange.on_request_uncached(filter, request) {
            NextStep::Answer(answer, decision) => {
                return CatalogueStep::Answer(answer, Some(decision));
            }
            NextStep::Forward(Some(call)) => return CatalogueStep::Call(call),
            // The guard has no stored catalogue of this version.
            NextStep::Forward(None) => {}
        }
        let guarded = exchange.on_response(filter, &tools.response(&exchange));
        let Some(answer) = guarded.shaped else {
            let reason = "The catalogue of tools is not available now. Call a tool by its name.";
            let answer = reply::failure(request, reply::UPSTREAM_UNAVAILABLE, reason);
            return CatalogueStep::Answer(answer, None);
        };
        if let Some(call) = redirected_call(&answer, exchange.id()) {
            return CatalogueStep::Call(call);
        }
        CatalogueStep::Answer(answer, guarded.decision.map(Box::new))
    }

    /// Processes the upstream's list. `answer` is the list as the client would get it, `begin`
    /// creates the exchange of a request. Returns the answer for the client, if it is another one.
    pub(crate) fn listed(
        &self,
        id: &RequestId,
        answer: &[u8],
        upstream: &str,
        filter: &Filter,
        begin: impl Fn(&[u8]) -> Exchange,
    ) -> Option<ListAnswer> {
        let awaiting = self.state().awaiting.remove(id)?;
        let tools = UpstreamTools::parse(upstream, answer).map(Arc::new);
        self.state().tools.clone_from(&tools);
        match awaiting {
            Awaiting::List(request) => {
                let exchange = begin(&request);
                self.tiered(exchange, filter, &request, answer, tools.as_deref()?)
            }
            Awaiting::Call(request) => Some(Self::late(&request, filter, tools.as_deref(), begin)),
        }
    }

    /// Returns the guard's list in the upstream's answer, unless it is the full list.
    fn tiered(
        &self,
        mut exchange: Exchange,
        filter: &Filter,
        request: &[u8],
        answer: &[u8],
        tools: &UpstreamTools,
    ) -> Option<ListAnswer> {
        exchange.context.catalog_version = Some(tools.version.clone());
        let NextStep::Forward(None) = exchange.on_request_uncached(filter, request) else {
            return None;
        };
        let guarded = exchange.on_response(filter, &tools.response(&exchange));
        let shaped = guarded.shaped?;
        let result = Head::read(&shaped)?.result?;
        let facts: Value = serde_json::from_str(facts_of(result)?.get()).ok()?;
        let mut withheld = names_in(&facts, "hidden");
        withheld.extend(names_in(&facts, "held"));
        let is_tiered = facts.get("tiered").and_then(Value::as_bool).unwrap_or_default();
        let is_changed = is_tiered || !withheld.is_empty();
        self.state().withheld = withheld;
        if !is_changed {
            return None;
        }
        // The other members of the upstream's result remain.
        let old = member(Head::read(answer)?.result?, "tools")?;
        let message = splice(answer, old.get(), member(result, "tools")?.get());
        Some(ListAnswer { message, decision: guarded.decision })
    }

    /// Returns the answer to a call of one of the guard's tools that came before the list.
    fn late(
        request: &[u8],
        filter: &Filter,
        tools: Option<&UpstreamTools>,
        begin: impl Fn(&[u8]) -> Exchange,
    ) -> ListAnswer {
        let failed = |text: &str| {
            let id = Head::read(request).map_or("null", |head| head.raw_id()).to_owned();
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            ListAnswer { message: reply::result(&id, &result.to_string()), decision: None }
        };
        let Some(tools) = tools else {
            return failed("the tools of this server are listed in full: call them by name");
        };
        match Self::call(begin(request), filter, request, tools) {
            CatalogueStep::Answer(message, decision) => {
                ListAnswer { message, decision: decision.map(|decision| *decision) }
            }
            // The answers of the upstream are read by a task that does not write requests.
            CatalogueStep::Call(_) => failed("the tools were not listed yet: repeat the call"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(result: &str) -> Option<UpstreamTools> {
        UpstreamTools::parse("files", format!(r#"{{"id":1,"result":{result}}}"#).as_bytes())
    }

    #[test]
    fn list_is_read_without_the_guards_tool() {
        let list = r#"{"tools":[{"name":"a"},{"name":"context_guard_read"}],"x":1}"#;
        let list = tools(list).unwrap();
        assert_eq!(list.names, HashSet::from(["a".to_owned()]));
        let text = list.result;
        assert!(text.contains(r#""servers":[{"name":"files","tools":["a"]}]"#), "{text}");
        assert!(!text.contains("context_guard_read"), "{text}");
    }

    #[test]
    fn lists_of_several_pages_are_left_alone() {
        assert!(tools(r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#).is_none());
        assert!(tools(r#"{"tools":[{"name":"a"}],"nextCursor":null}"#).is_some());
        assert!(tools(r#"{"tools":[]}"#).is_none());
        assert!(tools(r#"{"tools":[{"title":"no name"}]}"#).is_none());
    }

    #[test]
    fn version_is_that_of_the_list() {
        let version =
            |name: &str| tools(&format!(r#"{{"tools":[{{"name":"{name}"}}]}}"#)).unwrap().version;
        assert_eq!(version("a"), version("a"));
        assert_ne!(version("a"), version("b"));
    }

    #[test]
    fn early_calls_fetch_the_list() {
        let catalogue = UpstreamCatalogue::default();
        let id = RequestId::parse("7").unwrap();
        let call = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"context_guard_search_tools","arguments":{"queries":["x"]},"_meta":{"a":1}}}"#;
        let ClientRequest::Fetch(list) = catalogue.begin(&id, call) else { panic!("no list") };
        let list = String::from_utf8(list).unwrap();
        assert_eq!(
            list,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"a":1}}}"#
        );
        let other = br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a"}}"#;
        assert!(matches!(catalogue.begin(&id, other), ClientRequest::Other));
    }
}
