//! The guard component as a message filter.

use context_guard_protocol::{Caller, MessageFilter, RequestFault, Ticket, Verdict, fallback};

use crate::bindings::context_guard::guard::guard;
use crate::bindings::context_guard::guard::types::{
    CallContext, Fault, OnFault, Outcome, RequestVerdict,
};
use crate::config::Config;

/// The message filter of the wasi:http middleware, which calls the guard component.
#[derive(Clone, Copy)]
pub(crate) struct ComponentFilter(pub(crate) &'static Config);

/// Calls the guard with access to the store. If the store fails, calls the guard again with the
/// store marked as unavailable.
fn with_store<T>(
    caller: &Caller,
    call: impl Fn(&CallContext) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut cx = CallContext {
        principal: caller.principal.clone(),
        session: caller.session.clone(),
        request_id: String::new(),
        upstream: caller.upstream.clone(),
        protocol_version: caller.protocol_version.clone(),
        client_name: caller.client.clone(),
        catalog_version: None,
        store_unavailable: false,
        only_count: false,
        lists_tools: caller.server.clone(),
        full_list: false,
        options: Vec::new(),
    };
    call(&cx).or_else(|fault| match fault {
        Fault::Store(_) => {
            cx.store_unavailable = true;
            call(&cx)
        }
        fault => Err(fault),
    })
}

fn changed(outcome: Outcome) -> Option<Vec<u8>> {
    match outcome {
        Outcome::Unchanged => None,
        Outcome::Shaped(message) => Some(message),
    }
}

#[allow(clippy::print_stderr, reason = "a component logs to its standard error")]
fn log_fault(fault: &Fault) {
    eprintln!("context-guard: the guard failed on a message: {fault:?}");
}

impl MessageFilter for ComponentFilter {
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict {
        match with_store(caller, |cx| guard::on_request(&self.0.settings, cx, message)) {
            Ok(RequestVerdict::Answer(answer)) => Verdict::Answer(answer.message),
            Ok(RequestVerdict::Forward(forward)) if forward.ticket.is_empty() => {
                Verdict::Forward(changed(forward.message), Ticket::Pass)
            }
            Ok(RequestVerdict::Forward(forward)) => {
                Verdict::Forward(changed(forward.message), Ticket::Guard(forward.ticket))
            }
            // A server may be able to read what the guard cannot.
            Err(Fault::Malformed(_)) => Verdict::Answer(RequestFault::NotJson.error()),
            Err(fault) => {
                log_fault(&fault);
                Verdict::Forward(None, Ticket::Limit)
            }
        }
    }

    fn on_response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        let Config { settings, compiled, .. } = self.0;
        match ticket {
            Ticket::Pass => return None,
            Ticket::Limit => {}
            Ticket::Guard(ticket) => {
                match with_store(caller, |cx| guard::on_response(settings, cx, ticket, message)) {
                    Ok(verdict) => return changed(verdict.message),
                    Err(fault) => log_fault(&fault),
                }
            }
        }
        let on_fault = match compiled.on_fault {
            OnFault::Pass => fallback::OnFault::Pass,
            OnFault::Limit => fallback::OnFault::Limit,
            OnFault::Block => fallback::OnFault::Block,
        };
        let bytes = usize::try_from(compiled.hard_byte_limit).unwrap_or(usize::MAX);
        fallback::limit(message, on_fault, bytes)
    }
}
