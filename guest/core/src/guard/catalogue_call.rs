//! Requests to the tool catalogue of a gateway.

use super::call::Call;
use super::ticket::{CalledTool, Ticket};
use super::{Context, Fault, Guard, Plan, Shaped, TOOL_INFO_TTL_MS, shape_response};
use crate::catalogue::{
    CATALOGUE_META, CatalogueAnswer, CatalogueRequest, CatalogueStep, CompiledCatalogue,
    INVALID_PARAMS, LINT_METHOD, ROUTE_METHOD,
};
use crate::encoding::Stored;
use crate::json::text::Form;
use crate::mcp::reply::Envelope;
use crate::mcp::request::Request;
use crate::policy::endpoint_name;
use crate::query::Query;
use crate::record::{Loss, Record};
use crate::shape::context::RequestOptions;
use crate::shape::notice::READ_TOOL;
use crate::snapshot::stored::{Entry, Loaded};
use crate::tokens::OriginalCost;

impl Guard {
    pub(super) fn catalogue<'a>(
        &'a self,
        cx: &Context<'a>,
        id: &'a [u8],
        stateless: bool,
    ) -> CatalogueRequest<'a> {
        let stateless = stateless || cx.protocol_version >= "2026-07-28";
        CatalogueRequest {
            policy: &self.policy,
            keys: &self.keys,
            version: cx.catalogue_version,
            // MCP 2026-07-28 forbids lists that depend on the connection.
            client_name: if stateless { "" } else { cx.client_name },
            envelope: Envelope { id, stateless },
            // The version of a host's list changes with the list.
            now_ms: 0,
            max_age_ms: u64::MAX,
        }
    }

    /// Decides about a request to the catalogue: `tools/list`, `tools/call`, or a request of the
    /// host itself.
    pub(super) fn catalogue_request(&self, call: &Call<'_>) -> Plan {
        let is_call = call.request.method != "tools/list";
        let stateless = call.request.stateless;
        let request = self.catalogue(call.cx, call.id, stateless);
        let compile = || Plan::Forward {
            references: Vec::new(),
            // The host sends the merged list instead of the upstream's answer.
            message: None,
            ticket: Ticket::Catalogue {
                call: is_call.then(|| call.message.to_vec()),
                id: call.id.to_vec(),
                stateless,
            }
            .to_bytes(),
        };
        if !is_call {
            return compile();
        }
        match respond(&request, &call.request.method, call.message, call.loaded) {
            CatalogueStep::Load(keys) => Plan::Load(keys),
            CatalogueStep::Compile => compile(),
            CatalogueStep::Call(message) => {
                Plan::Forward { message: Some(message), ticket: Vec::new(), references: Vec::new() }
            }
            CatalogueStep::Answer(answer) => self.catalogue_plan(call, answer),
        }
    }

    /// Returns the plan to send an answer of the catalogue to the client.
    pub(super) fn catalogue_plan(&self, call: &Call<'_>, answer: CatalogueAnswer) -> Plan {
        let name = call.request.name.as_deref().unwrap_or_default();
        let shaped = self.catalogue_answer(call.cx, name, answer, call.now_ms);
        Plan::Answer {
            message: shaped.message.unwrap_or_default(),
            entries: shaped.entries,
            extend: Vec::new(),
            ttl_ms: shaped.ttl_ms,
            record: shaped.record,
        }
    }

    /// Returns the plan that answers a call of a hidden tool like one of an unknown tool. `None` if
    /// the tool is not hidden.
    pub(super) fn refuse_hidden(&self, call: &Call<'_>) -> Option<Plan> {
        let name = call.request.name.as_deref().filter(|name| *name != READ_TOOL)?;
        let endpoint = endpoint_name(call.cx.upstream, name);
        self.policy.catalogue().filter(|settings| settings.is_hidden(&endpoint))?;
        Some(call.unknown_tool(name))
    }

    /// Compiles the merged list, and answers the request `call` from it. Without a call, the
    /// request was `tools/list`.
    pub(super) fn on_merged_list(
        &self,
        cx: &Context<'_>,
        call: Option<&[u8]>,
        id: &[u8],
        stateless: bool,
        merged: &[u8],
    ) -> Result<Shaped<'static>, Fault> {
        let request = self.catalogue(cx, id, stateless);
        let compiled = request
            .compile(merged)
            .ok_or_else(|| Fault::Other("the host sent no merged list of tools".to_owned()))?;
        let Some(call) = call else {
            let record = self.catalogue_record(cx, "tools/list", &compiled.list, false);
            return Ok(Shaped {
                message: Some(compiled.list),
                entries: compiled.entries,
                ttl_ms: self.catalogue_ttl_ms(),
                // Without the entries, the next call compiles the list again.
                must_be_stored: false,
                record,
            });
        };
        let client_request = Request::read(call)?;
        let name = client_request.name.unwrap_or_default();
        let mut shaped = match respond_from(&compiled, &request, &client_request.method, call) {
            CatalogueStep::Answer(answer) => self.catalogue_answer(cx, &name, answer, 0),
            CatalogueStep::Call(call) => {
                // A response cannot be a request: it contains the parameters of the call.
                let parameters = String::from_utf8_lossy(parameters(&call)).into_owned();
                let members = format!(r#""_meta":{{"{CATALOGUE_META}":{{"call":{parameters}}}}}"#);
                let message = request.envelope.result(members.as_bytes());
                let record = self.catalogue_record(cx, &name, &message, false);
                Shaped {
                    message: Some(message),
                    entries: Vec::new(),
                    ttl_ms: 0,
                    must_be_stored: false,
                    record,
                }
            }
            CatalogueStep::Load(_) | CatalogueStep::Compile => {
                return Err(Fault::Other("the compiled catalogue cannot be read".to_owned()));
            }
        };
        // Parts of a long definition must be stored; the catalogue itself can be compiled again.
        if shaped.entries.is_empty() {
            shaped.entries = compiled.entries;
            shaped.ttl_ms = self.catalogue_ttl_ms();
            shaped.must_be_stored = false;
        }
        Ok(shaped)
    }

    fn catalogue_ttl_ms(&self) -> u64 {
        let seconds = self.policy.catalogue().and_then(|settings| settings.recompute_seconds);
        seconds.map_or(24 * 3_600 * 1_000, |seconds| seconds * 1_000).min(TOOL_INFO_TTL_MS)
    }

    /// Shapes an answer of the catalogue that may exceed its token budget.
    pub(super) fn catalogue_answer(
        &self,
        cx: &Context<'_>,
        name: &str,
        answer: CatalogueAnswer,
        now_ms: u64,
    ) -> Shaped<'static> {
        let record = self.catalogue_record(cx, name, &answer.message, answer.is_error);
        if answer.needs_shaping {
            let environment = self.environment(cx, CalledTool::default(), None, now_ms);
            let endpoint = environment.endpoint(name);
            let (options, query) = (RequestOptions::default(), Query::default());
            let context = environment.shape_context(&endpoint, 0, options, &query);
            if let Ok(shaped) = shape_response(&context, &answer.message, false)
                && let Some(message) = shaped.message
            {
                let entries = shaped.entries.into_iter().map(Entry::into_owned).collect();
                return Shaped { message: Some(message), entries, ..shaped };
            }
        }
        Shaped {
            message: Some(answer.message),
            entries: Vec::new(),
            ttl_ms: 0,
            must_be_stored: false,
            record,
        }
    }

    pub(super) fn catalogue_record(
        &self,
        cx: &Context<'_>,
        endpoint: &str,
        message: &[u8],
        is_error: bool,
    ) -> Record {
        let settings = self.policy.settings_for(cx.upstream, endpoint);
        let cost = OriginalCost::estimate(&settings.estimator, message, Form::Raw);
        let mode = if is_error { "error" } else { "catalog" };
        Record {
            mode: mode.to_owned(),
            loss: Loss::Lossless,
            ..Record::unchanged(endpoint, cost, message.len(), settings.threshold)
        }
    }
}

impl Call<'_> {
    /// Returns the error for a call of an unknown tool.
    pub(super) fn unknown_tool(&self, name: &str) -> Plan {
        let envelope = Envelope { id: self.id, stateless: self.request.stateless };
        let message = envelope.error(INVALID_PARAMS, &format!("no tool \"{name}\""));
        let record = self.guard.catalogue_record(self.cx, name, &message, true);
        Plan::Answer { message, entries: Vec::new(), extend: Vec::new(), ttl_ms: 0, record }
    }
}

/// Answers a call, or the host's own request for an HTTP route.
pub(super) fn respond(
    request: &CatalogueRequest<'_>,
    method: &str,
    message: &[u8],
    loaded: &Loaded,
) -> CatalogueStep {
    match method {
        ROUTE_METHOD => request.route(parameters(message), loaded),
        LINT_METHOD => request.lint(parameters(message)),
        _ => request.call(parameters(message), loaded),
    }
}

/// Answers a call from a catalogue that was just compiled and is not stored yet.
pub(super) fn respond_from(
    compiled: &CompiledCatalogue,
    request: &CatalogueRequest<'_>,
    method: &str,
    call: &[u8],
) -> CatalogueStep {
    let entries = compiled.entries.iter();
    let loaded: Loaded =
        entries.map(|entry| (entry.key.clone(), Some(entry.value.to_vec()))).collect();
    respond(request, method, call, &loaded)
}

/// Returns the `params` of a request, as raw JSON.
pub(super) fn parameters(message: &[u8]) -> &[u8] {
    let head = context_guard_protocol::Head::read(message);
    head.and_then(|head| head.params).map_or(b"{}", |params| params.get().as_bytes())
}
