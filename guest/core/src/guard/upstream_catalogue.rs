//! The tool catalogue of one upstream, whose list no host merges with others.
//!
//! The guard stores the catalogue when the upstream's list passes. If none is stored when a
//! catalogue tool is called, the guard requests the upstream's list in place of the call, and
//! answers from it.

use super::call::Call;
use super::catalogue_call::{parameters, respond, respond_from};
use super::ticket::Ticket;
use super::{Context, Fault, Guard, Plan, Shaped, TOOL_INFO_TTL_MS};
use crate::catalogue::{CatalogueRequest, CatalogueStep, MetaTool, direct_call, meta_tool};
use crate::encoding::Stored;
use crate::mcp::catalog::{ShapedCatalog, with_tools};
use crate::mcp::request::Request;
use crate::policy::{CatalogueMode, CursorMode};
use crate::snapshot::stored::Entry;

/// The maximum age of a stored list, in milliseconds, before the guard requests it again: a day.
const MAX_AGE_MS: u64 = 24 * 3_600 * 1_000;
/// The error for a call of a catalogue tool if the upstream sends no list.
const NO_LIST: &str = "the server sent no list of its tools: call a tool by its name";
/// The error for a call of a catalogue tool if the upstream's list is not tiered.
const NOT_TIERED: &str = "the tools of this server are listed in full: call them by name";
/// The error for a call of a tool that the guard knows only after it replaced the call by a request
/// for the list.
const LISTED_LATE: &str =
    "the tools of this server were not listed yet: repeat the call, or call the tool by its name";

impl Guard {
    /// Returns true if the called tool may be one of the catalogue's own tools.
    pub(super) fn owns_call(&self, call: &Call<'_>) -> bool {
        let settings = self.policy.catalogue();
        call.cx.lists_tools.is_some()
            && self.policy.settings_for(call.cx.upstream, "tools/list").shape
            && call.request.name.as_deref().is_some_and(|name| meta_tool(name).is_some())
            && settings.is_none_or(|settings| settings.mode != Some(CatalogueMode::Full))
    }

    /// Returns a request to the catalogue of the upstream. `version` is from [`version_of`].
    fn upstream_catalogue<'a>(
        &'a self,
        cx: &Context<'a>,
        version: &'a str,
        id: &'a [u8],
        stateless: bool,
        now_ms: u64,
    ) -> CatalogueRequest<'a> {
        let request = self.catalogue(cx, id, stateless);
        CatalogueRequest { version, now_ms, max_age_ms: MAX_AGE_MS, ..request }
    }

    /// Returns the plan for a call of one of the catalogue's own tools.
    pub(super) fn upstream_catalogue_call(&self, call: &Call<'_>) -> Result<Plan, Fault> {
        let name = call.request.name.as_deref().unwrap_or_default();
        match call.knows_tool(name) {
            Err(keys) => return Ok(Plan::Load(keys)),
            // The upstream has a tool of this name itself.
            Ok(true) => return self.refuse_hidden(call).map_or_else(|| call.tool(), Ok),
            Ok(false) => {}
        }
        let version = version_of(call.cx);
        let request = self.upstream_catalogue(
            call.cx,
            &version,
            call.id,
            call.request.stateless,
            call.now_ms,
        );
        let step = respond(&request, &call.request.method, call.message, call.loaded);
        Ok(match step {
            CatalogueStep::Load(keys) => Plan::Load(keys),
            CatalogueStep::Answer(answer) => self.catalogue_plan(call, answer),
            CatalogueStep::Call(message) => call.replaced_by(message)?,
            // A call that may write needs no catalogue: the upstream checks its arguments.
            CatalogueStep::Compile if meta_tool(name) == Some(MetaTool::Call) => {
                match direct_call(call.cx.upstream, parameters(call.message), &request.envelope) {
                    Some(message) => call.replaced_by(message)?,
                    None => call.fetch_list(),
                }
            }
            CatalogueStep::Compile => call.fetch_list(),
        })
    }

    /// Replaces a long list by a tiered one, and marks pinned tools. Returns the entries to store.
    /// Empty if the list remains in full: if it is short or in several pages, or without a store.
    pub(super) fn tier(
        &self,
        cx: &Context<'_>,
        catalog: &mut ShapedCatalog,
        stateless: bool,
        now_ms: u64,
    ) -> Vec<Entry<'static>> {
        let settings = self.policy.settings_for(cx.upstream, "tools/list");
        // Without a store, each call would need the list again.
        if cx.store_unavailable || settings.cursor_mode == CursorMode::Replay {
            return Vec::new();
        }
        let version = version_of(cx);
        let request = self.upstream_catalogue(cx, &version, b"0", stateless, now_ms);
        let Some(compiled) = request.compile_upstream(cx.upstream, &catalog.message, false) else {
            return Vec::new();
        };
        let Some(message) = with_tools(&catalog.message, compiled.tools.as_bytes()) else {
            return Vec::new();
        };
        catalog.message = message;
        if compiled.is_tiered { compiled.entries } else { Vec::new() }
    }

    /// Answers a call of a catalogue tool from the upstream's list, which the guard requested in
    /// place of the call.
    pub(super) fn on_fetched_list<'m>(
        &self,
        cx: &Context<'_>,
        call: &[u8],
        id: &[u8],
        stateless: bool,
        message: &'m [u8],
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        let catalog = self.shaped_list(cx, message, true)?;
        // An error of the upstream has the id of the call.
        if catalog.is_none() && is_error(message) {
            return self.tools(cx, message, true, stateless, now_ms);
        }
        let client_request = Request::read(call)?;
        let name = client_request.name.unwrap_or_default();
        let version = version_of(cx);
        let request = self.upstream_catalogue(cx, &version, id, stateless, now_ms);
        let refuse = |text: &str, entries: Vec<Entry<'static>>| {
            let message = request.envelope.tool_error(text);
            let record = self.catalogue_record(cx, &name, &message, true);
            Shaped {
                message: Some(message),
                entries,
                ttl_ms: TOOL_INFO_TTL_MS,
                must_be_stored: false,
                record,
            }
        };
        let Some(catalog) = catalog else { return Ok(refuse(NO_LIST, Vec::new())) };
        let is_own = catalog.tools.iter().any(|(own, _)| *own == name);
        let compiled = request.compile_upstream(cx.upstream, &catalog.message, true);
        let facts = self.tool_entries(cx, catalog.tools);
        let Some(compiled) = compiled.filter(|_| !is_own) else {
            return Ok(refuse(if is_own { LISTED_LATE } else { NOT_TIERED }, facts));
        };
        let mut shaped = match respond_from(&compiled, &request, &client_request.method, call) {
            CatalogueStep::Answer(answer) => self.catalogue_answer(cx, &name, answer, now_ms),
            // The response cannot be a request.
            _ => refuse(LISTED_LATE, Vec::new()),
        };
        // Parts of a long definition must be stored; the list can be asked for again.
        if shaped.entries.is_empty() {
            shaped.entries = facts;
            shaped.entries.extend(compiled.entries);
            shaped.ttl_ms = TOOL_INFO_TTL_MS;
            shaped.must_be_stored = false;
        }
        Ok(shaped)
    }
}

impl Call<'_> {
    /// Returns the plan for `message`, a call that replaces the client's.
    fn replaced_by(&self, message: Vec<u8>) -> Result<Plan, Fault> {
        let request = Request::read(&message)?;
        let other = Call { message: &message, request: &request, ..*self };
        let plan = self.guard.refuse_hidden(&other).map_or_else(|| other.tool(), Ok)?;
        Ok(match plan {
            Plan::Forward { message: None, ticket, references } => {
                Plan::Forward { message: Some(message), ticket, references }
            }
            plan => plan,
        })
    }

    /// Returns a plan to request the upstream's list in place of this call.
    pub(super) fn fetch_list(&self) -> Plan {
        let meta = self.request.meta.as_ref().filter(|meta| !meta.rest.is_empty());
        let meta = meta
            .map_or_else(Vec::new, |meta| [b"\"_meta\":{".as_slice(), &meta.rest, b"}"].concat());
        let message = [
            b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
            self.id,
            b",\"method\":\"tools/list\",\"params\":{",
            &meta,
            b"}}",
        ]
        .concat();
        let ticket = Ticket::Catalogue {
            call: Some(self.message.to_vec()),
            id: self.id.to_vec(),
            stateless: self.request.stateless,
        };
        Plan::Forward { message: Some(message), ticket: ticket.to_bytes(), references: Vec::new() }
    }
}

/// Returns the version of an upstream's catalogue for a principal.
fn version_of(cx: &Context<'_>) -> String {
    // With the lengths, different names never give the same text.
    let names = [cx.principal, cx.upstream, cx.lists_tools.unwrap_or_default()];
    names
        .iter()
        .fold("upstream".to_owned(), |version, name| format!("{version}:{}:{name}", name.len()))
}

/// Returns true if a response is a JSON-RPC error.
fn is_error(message: &[u8]) -> bool {
    context_guard_protocol::Head::read(message).is_some_and(|head| head.error.is_some())
}
