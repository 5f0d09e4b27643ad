//! Streams that wait for the store of a gateway.
//!
//! A step of an exchange runs the core at once. If the core needs entries, or has entries to write,
//! the stream pauses and calls the gateway. The stream stores the exchange before the step. It can
//! then repeat the step with the gateway's entries, or without the gateway. Envoy limits the time
//! of each call.

use std::rc::Rc;

use context_guard_protocol::HttpExchange;
use context_guard_protocol::http::{Replacement, RequestAction};
use proxy_wasm::hostcalls::{
    reset_http_response, resume_http_request, resume_http_response, set_buffer,
};
use proxy_wasm::types::{Action, BufferType};

use super::Stream;
use crate::gateway_store::CallOutcome;
use crate::guard::CoreFilter;
use crate::guard::store_pass::StorePass;

/// A call of the gateway, with the state of the step that waits for it.
pub(crate) struct PendingCall {
    token: u32,
    is_read: bool,
    pass: StorePass,
    /// The exchange before the step.
    before: Box<HttpExchange>,
}

/// The step of an exchange that waits for the gateway, with its data.
#[derive(Default)]
pub(crate) enum Waiting {
    #[default]
    Nothing,
    /// The request is in Envoy's buffer.
    Request { call: PendingCall, action: RequestAction, body: Vec<u8> },
    /// The whole response body, which is not in Envoy's buffer.
    Body { call: PendingCall, replacement: Option<Replacement>, body: Vec<u8>, with_head: bool },
    /// A part of an event stream, which is not in Envoy's buffer.
    Events(WaitingEvents),
}

/// A part of an event stream that waits for the gateway.
pub(crate) struct WaitingEvents {
    call: PendingCall,
    /// The part as the upstream sent it. `is_last` is true at the end of the stream.
    chunk: Vec<u8>,
    is_last: bool,
    /// The part to send if its entries are stored.
    sent: Vec<u8>,
    /// The bytes to send before the part.
    ready: Vec<u8>,
    /// The bytes that arrived while the part waits.
    late: Vec<u8>,
    is_late_last: bool,
}

/// The result of a step.
enum Settled {
    /// The result of the step is valid.
    Done,
    /// The stream pauses until this call has ended.
    Waits(PendingCall),
    /// The call to the gateway could not start. The step must run again with this pass, which no
    /// longer uses the gateway's store.
    Repeat(StorePass),
}

impl Waiting {
    fn token(&self) -> Option<u32> {
        match self {
            Self::Nothing => None,
            Self::Request { call, .. } | Self::Body { call, .. } => Some(call.token),
            Self::Events(events) => Some(events.call.token),
        }
    }

    /// Returns true if the stream waits.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

impl Stream {
    /// Decides about a step that was run with `pass`. `before` is the exchange before the step, or
    /// `None` if the step uses no gateway and so is never repeated. `can_pause` is false if Envoy
    /// cannot hold the result of the step.
    fn settle(
        &mut self,
        mut pass: StorePass,
        before: Option<HttpExchange>,
        can_pause: bool,
    ) -> Settled {
        let shared = Rc::clone(&self.shared);
        let Some(before) = before else {
            pass.commit(&shared);
            return Settled::Done;
        };
        let principal = before.caller().map(|caller| caller.principal.clone()).unwrap_or_default();
        let Some(call) = pass.call(&shared, &principal, can_pause) else {
            pass.commit(&shared);
            return Settled::Done;
        };
        match call.token {
            Some(token) => {
                let before = Box::new(before);
                Settled::Waits(PendingCall { token, is_read: call.is_read, pass, before })
            }
            None if !call.is_read && pass.may_send_unwritten() => {
                pass.commit(&shared);
                Settled::Done
            }
            None => {
                self.exchange = Some(before);
                pass.fail();
                Settled::Repeat(pass)
            }
        }
    }

    /// Decides about a step after its call has ended. Returns the pass with which to repeat the
    /// step. `None` if the result of the step is valid.
    fn resolve(&mut self, call: PendingCall, outcome: CallOutcome) -> Option<StorePass> {
        let shared = Rc::clone(&self.shared);
        let PendingCall { is_read, mut pass, before, .. } = call;
        if matches!(outcome, CallOutcome::Full) {
            shared.metrics.store_full();
        }
        match outcome {
            CallOutcome::Done(answer) if is_read => {
                if !pass.add_values(&shared, &answer) {
                    pass.fail();
                }
            }
            CallOutcome::Done(_) => {
                pass.commit(&shared);
                return None;
            }
            _ if !is_read && pass.may_send_unwritten() => {
                pass.commit(&shared);
                return None;
            }
            CallOutcome::Full | CallOutcome::Unavailable => pass.fail(),
        }
        self.exchange = Some(*before);
        Some(pass)
    }

    /// Runs the step of a request whose body is complete. Returns the action of the filter,
    /// or `None` if the stream waits.
    pub(crate) fn run_request(&mut self, body: Vec<u8>, mut pass: StorePass) -> Option<Action> {
        let shared = Rc::clone(&self.shared);
        loop {
            let Some(exchange) = &mut self.exchange else { return Some(Action::Continue) };
            let before = pass.uses_gateway().then(|| exchange.clone());
            let mut filter = CoreFilter { shared: &shared, pass: &mut pass };
            let action = exchange.on_request(&mut filter, &body);
            match self.settle(pass, before, true) {
                Settled::Done => return Some(self.apply_request(action, &body)),
                Settled::Waits(call) => {
                    self.waiting = Waiting::Request { call, action, body };
                    return None;
                }
                Settled::Repeat(next) => pass = next,
            }
        }
    }

    /// Runs the step of a whole response body, of which `size` bytes are in Envoy's buffer.
    pub(crate) fn run_body(
        &mut self,
        body: Vec<u8>,
        mut pass: StorePass,
        size: usize,
        with_head: bool,
    ) -> Action {
        let shared = Rc::clone(&self.shared);
        loop {
            let Some(exchange) = &mut self.exchange else { return Action::Continue };
            let before = pass.uses_gateway().then(|| exchange.clone());
            let mut filter = CoreFilter { shared: &shared, pass: &mut pass };
            let replacement = exchange.on_body(&mut filter, &body);
            let sent = replacement.as_ref().map_or(body.len(), |new| new.body().len());
            match self.settle(pass, before, sent <= shared.max_paused_bytes()) {
                Settled::Done => {
                    self.send_body(replacement, &body, size, with_head);
                    return Action::Continue;
                }
                Settled::Waits(call) => {
                    let _ = set_buffer(BufferType::HttpResponseBody, 0, size, b"");
                    self.waiting = Waiting::Body { call, replacement, body, with_head };
                    return Action::Pause;
                }
                Settled::Repeat(next) => pass = next,
            }
        }
    }

    /// Runs the step of a part of an event stream. Returns the bytes to send, which begin with
    /// `ready`. `None` if the stream waits.
    pub(crate) fn run_events(
        &mut self,
        chunk: Vec<u8>,
        is_last: bool,
        mut pass: StorePass,
        mut ready: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let shared = Rc::clone(&self.shared);
        loop {
            let Some(exchange) = &mut self.exchange else {
                ready.extend(chunk);
                return Some(ready);
            };
            let before = pass.uses_gateway().then(|| exchange.clone());
            let mut filter = CoreFilter { shared: &shared, pass: &mut pass };
            let sent = exchange.on_events(&mut filter, &chunk, is_last);
            let can_pause = ready.len() + sent.len() <= shared.max_paused_bytes();
            match self.settle(pass, before, can_pause) {
                Settled::Done => {
                    ready.extend(sent);
                    return Some(ready);
                }
                Settled::Waits(call) => {
                    let (late, is_late_last) = (Vec::new(), false);
                    self.waiting = Waiting::Events(WaitingEvents {
                        call,
                        chunk,
                        is_last,
                        sent,
                        ready,
                        late,
                        is_late_last,
                    });
                    return None;
                }
                Settled::Repeat(next) => pass = next,
            }
        }
    }

    /// Adds a chunk to an event stream that waits. Returns the bytes to send if the stream cannot
    /// wait any longer, because too many bytes have arrived.
    pub(crate) fn on_late_events(&mut self, chunk: Vec<u8>, is_last: bool) -> Option<Vec<u8>> {
        let max_bytes = self.shared.max_paused_bytes();
        let Waiting::Events(mut events) = std::mem::take(&mut self.waiting) else { return None };
        events.late.extend(chunk);
        events.is_late_last |= is_last;
        if events.ready.len() + events.sent.len() + events.late.len() <= max_bytes {
            self.waiting = Waiting::Events(events);
            return None;
        }
        self.finish_events(events, CallOutcome::Unavailable)
    }

    /// Continues an event stream after its call. Returns the bytes to send. `None` if the stream
    /// waits for another call.
    fn finish_events(&mut self, events: WaitingEvents, outcome: CallOutcome) -> Option<Vec<u8>> {
        let WaitingEvents { call, chunk, is_last, sent, mut ready, late, is_late_last } = events;
        let ready = match self.resolve(call, outcome) {
            // The core reads no entries for a response, so that this does not wait again.
            Some(pass) => self.run_events(chunk, is_last, pass, ready)?,
            None => {
                ready.extend(sent);
                ready
            }
        };
        if late.is_empty() && !is_late_last {
            return Some(ready);
        }
        let pass = StorePass::new(&self.shared);
        self.run_events(late, is_late_last, pass, ready)
    }

    /// Continues the stream after a call to the gateway has ended.
    pub(crate) fn on_store_call(&mut self, token: u32, headers: usize, body_bytes: usize) {
        let shared = Rc::clone(&self.shared);
        let Some(gateway) = &shared.gateway else { return };
        let outcome = gateway.outcome(headers, body_bytes);
        if self.waiting.token() != Some(token) {
            // The stream did not wait for it.
            return;
        }
        match std::mem::take(&mut self.waiting) {
            Waiting::Nothing => {}
            Waiting::Request { call, action, body } => {
                let action = match self.resolve(call, outcome) {
                    Some(pass) => self.run_request(body, pass),
                    None => Some(self.apply_request(action, &body)),
                };
                if action == Some(Action::Continue) {
                    let _ = resume_http_request();
                }
            }
            Waiting::Body { call, replacement, body, with_head } => {
                let action = match self.resolve(call, outcome) {
                    Some(pass) => self.run_body(body, pass, 0, with_head),
                    None => {
                        self.send_body(replacement, &body, 0, with_head);
                        Action::Continue
                    }
                };
                if action == Action::Continue {
                    let _ = resume_http_response();
                }
            }
            Waiting::Events(events) => {
                let is_last = events.is_last || events.is_late_last;
                if let Some(sent) = self.finish_events(events, outcome)
                    && self.send_paused_events(&sent, is_last)
                {
                    let _ = resume_http_response();
                }
            }
        }
    }

    /// Puts the events of a paused stream into Envoy's empty buffer. If they exceed the buffer,
    /// resets the stream and returns false, because Envoy would truncate the events.
    pub(crate) fn send_paused_events(&mut self, sent: &[u8], is_last: bool) -> bool {
        if sent.len() > self.shared.max_paused_bytes() {
            let _ = reset_http_response();
            return false;
        }
        let _ = set_buffer(BufferType::HttpResponseBody, 0, 0, sent);
        self.on_events_sent(sent, is_last);
        true
    }
}
