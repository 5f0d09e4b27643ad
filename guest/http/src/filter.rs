//! The guard component behind the face that `context-guard-protocol` knows.

use context_guard_protocol::{Caller, Filter, Ticket, Verdict, fallback};

use crate::bindings::context_guard::guard::guard;
use crate::bindings::context_guard::guard::types::{
    CallContext, Fault, OnFault, Outcome, RequestVerdict,
};
use crate::config::Config;

/// The guard, under a configuration.
#[derive(Clone, Copy)]
pub(crate) struct Asking(pub(crate) &'static Config);

/// Does a call; where the store fails, once more in the knowledge that it does.
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
        client_name: None,
        catalog_version: None,
        store_unavailable: false,
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

#[allow(clippy::print_stderr, reason = "the log of a component is its standard error")]
fn say(fault: &Fault) {
    eprintln!("context-guard: a message was not shaped: {fault:?}");
}

impl Filter for Asking {
    fn request(&mut self, caller: &Caller, message: &[u8]) -> Verdict {
        let asked = with_store(caller, |cx| guard::on_request(&self.0.settings, cx, message));
        match asked {
            Ok(RequestVerdict::Answer(answer)) => Verdict::Answer(answer.message),
            Ok(RequestVerdict::Forward(forward)) if forward.ticket.is_empty() => {
                Verdict::Forward(changed(forward.message), Ticket::Pass)
            }
            Ok(RequestVerdict::Forward(forward)) => {
                Verdict::Forward(changed(forward.message), Ticket::Guard(forward.ticket))
            }
            Err(fault) => {
                // What is no JSON is the upstream's to refuse.
                if !matches!(fault, Fault::Malformed(_)) {
                    say(&fault);
                }
                Verdict::Forward(None, Ticket::Limit)
            }
        }
    }

    fn response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        let Config { settings, compiled, .. } = self.0;
        if let Ticket::Guard(ticket) = ticket {
            match with_store(caller, |cx| guard::on_response(settings, cx, ticket, message)) {
                Ok(verdict) => return changed(verdict.message),
                Err(fault) => say(&fault),
            }
        }
        let on_fault = match compiled.on_fault {
            OnFault::Pass => fallback::OnFault::Pass,
            OnFault::Limit => fallback::OnFault::Limit,
            OnFault::Block => fallback::OnFault::Block,
        };
        let bytes = usize::try_from(compiled.hard_byte_limit).unwrap_or(usize::MAX);
        (*ticket != Ticket::Pass).then(|| fallback::limit(message, on_fault, bytes)).flatten()
    }
}
