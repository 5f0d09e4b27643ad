//! The tool catalogue of one upstream, whose list no host merges with others.
//!
//! The guard stores the catalogue when the upstream's list passes. If a call of one of its tools
//! finds none, the guard asks the upstream for its list in place of the call, and answers from it.

use super::call::Call;
use super::catalogue_call::{parameters, respond, respond_from};
use super::ticket::Ticket;
use super::{Context, Fault, Guard, Plan, Shaped, TOOL_INFO_TTL_MS};
use crate::catalogue::{
    CatalogueRequest, CatalogueStep, CompiledCatalogue, MetaTool, direct_call, meta_tool,
};
use crate::encoding::Stored;
use crate::mcp::catalog::{ShapedCatalog, with_tools};
use crate::mcp::request::Request;
use crate::policy::CatalogueMode;
use crate::snapshot::stored::Entry;

/// The time, in milliseconds, after which the guard asks for the list again: a day.
const MAX_AGE_MS: u64 = 24 * 3_600 * 1_000;
/// The error for a call of one of the catalogue's tools if the upstream's list is not tiered.
const NOT_TIERED: &str = "the tools of this server are listed in full: call them by name";
/// The error for a call of a tool that is known only after the call was replaced by a request for
/// the list.
const LISTED_LATE: &str = "the tools of this server were not listed yet: repeat the call";

impl Guard {
    /// Returns true if a call may be one of the catalogue's own tools.
    pub(super) fn owns_call(&self, call: &Call<'_>) -> bool {
        let settings = self.policy.catalogue();
        call.cx.lists_tools.is_some()
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
    ) -> CatalogueRequest<'a> {
        CatalogueRequest { version, ..self.catalogue(cx, id, stateless) }
    }

    /// Decides about a call of one of the catalogue's own tools.
    pub(super) fn upstream_catalogue_call(&self, call: &Call<'_>) -> Plan {
        let name = call.request.name.as_deref().unwrap_or_default();
        match call.knows_tool(name) {
            Err(keys) => return Plan::Load(keys),
            // The upstream has a tool of this name itself.
            Ok(true) => return self.refuse_hidden(call).unwrap_or_else(|| call.tool()),
            Ok(false) => {}
        }
        let version = version_of(call.cx, call.now_ms);
        let request = self.upstream_catalogue(call.cx, &version, call.id, call.request.stateless);
        match respond(&request, &call.request.method, call.message, call.loaded) {
            CatalogueStep::Load(keys) => Plan::Load(keys),
            CatalogueStep::Answer(answer) => self.catalogue_plan(call, answer),
            CatalogueStep::Call(message) => call.instead(message),
            // A call that may write needs no catalogue: the upstream checks its arguments.
            CatalogueStep::Compile if meta_tool(name) == Some(MetaTool::Call) => {
                match direct_call(call.cx.upstream, parameters(call.message), &request.envelope) {
                    Some(message) => call.instead(message),
                    None => call.fetch_list(),
                }
            }
            CatalogueStep::Compile => call.fetch_list(),
        }
    }

    /// Replaces the list by a tiered one if it is long, and removes tools that policy withholds.
    /// Returns the entries to store.
    pub(super) fn tier(
        &self,
        cx: &Context<'_>,
        catalog: &mut ShapedCatalog,
        stateless: bool,
        now_ms: u64,
    ) -> Vec<Entry<'static>> {
        let version = version_of(cx, now_ms);
        let request = self.upstream_catalogue(cx, &version, b"0", stateless);
        let Some(compiled) = request.compile_upstream(cx.upstream, &catalog.message, false) else {
            return Vec::new();
        };
        let Some(message) = with_tools(&catalog.message, compiled.tools.as_bytes()) else {
            return Vec::new();
        };
        catalog.message = message;
        self.mark_held(cx, catalog, &compiled);
        compiled.entries
    }

    /// Marks the tools that policy withholds, so that calls of them are refused.
    fn mark_held(
        &self,
        cx: &Context<'_>,
        catalog: &mut ShapedCatalog,
        compiled: &CompiledCatalogue,
    ) {
        let settings = self.policy.catalogue();
        for visible in &compiled.held {
            let own = settings.and_then(|settings| settings.own_name(cx.upstream, visible));
            let own = own.unwrap_or(visible);
            for (_, info) in catalog.tools.iter_mut().filter(|(name, _)| name == own) {
                info.held = true;
            }
        }
    }

    /// Answers a call of one of the catalogue's own tools from the upstream's list, which the guard
    /// asked for in place of the call.
    pub(super) fn on_fetched_list<'m>(
        &self,
        cx: &Context<'_>,
        call: &[u8],
        id: &[u8],
        stateless: bool,
        message: &'m [u8],
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        let Some(mut catalog) = self.shaped_list(cx, message, true)? else {
            // An error of the upstream has the id of the call.
            return self.tools(cx, message, true, stateless, now_ms);
        };
        let client_request = Request::read(call)?;
        let name = client_request.name.unwrap_or_default();
        let version = version_of(cx, now_ms);
        let request = self.upstream_catalogue(cx, &version, id, stateless);
        let refuse = |text: &str| {
            let message = request.envelope.tool_error(text);
            let record = self.catalogue_record(cx, &name, &message, true);
            Shaped {
                message: Some(message),
                entries: Vec::new(),
                ttl_ms: 0,
                must_be_stored: false,
                record,
            }
        };
        let Some(compiled) = request.compile_upstream(cx.upstream, &catalog.message, true) else {
            return Ok(refuse(NOT_TIERED));
        };
        self.mark_held(cx, &mut catalog, &compiled);
        let mut shaped = match respond_from(&compiled, &request, &client_request.method, call) {
            CatalogueStep::Answer(answer) => self.catalogue_answer(cx, &name, answer, now_ms),
            // The response cannot be a request.
            _ => refuse(LISTED_LATE),
        };
        // Parts of a long definition must be stored; the list can be asked for again.
        if shaped.entries.is_empty() {
            shaped.entries = compiled.entries;
            shaped.entries.extend(self.tool_entries(cx, catalog.tools));
            shaped.ttl_ms = TOOL_INFO_TTL_MS;
            shaped.must_be_stored = false;
        }
        Ok(shaped)
    }
}

impl Call<'_> {
    /// Returns the plan for another call in place of the client's.
    fn instead(&self, message: Vec<u8>) -> Plan {
        let Ok(request) = Request::read(&message) else { return self.fetch_list() };
        let other = Call { message: &message, request: &request, ..*self };
        let plan = self.guard.refuse_hidden(&other).unwrap_or_else(|| other.tool());
        match plan {
            Plan::Forward { message: None, ticket, references } => {
                Plan::Forward { message: Some(message), ticket, references }
            }
            plan => plan,
        }
    }

    /// Returns a plan to ask for the upstream's list in place of this call.
    fn fetch_list(&self) -> Plan {
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

/// Returns the version of the catalogue of an upstream for a principal. It changes every day, so
/// that the guard sees changes of a list that nobody asks for.
fn version_of(cx: &Context<'_>, now_ms: u64) -> String {
    let day = now_ms / MAX_AGE_MS;
    // With the lengths, different names never give the same text.
    let names = [cx.principal, cx.upstream, cx.lists_tools.unwrap_or_default()];
    names
        .iter()
        .fold(format!("upstream:{day}"), |version, name| format!("{version}:{}:{name}", name.len()))
}
