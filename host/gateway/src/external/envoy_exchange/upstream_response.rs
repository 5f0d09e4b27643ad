//! The response of an exchange: its head, its body or events, and its trailers.

use context_guard_grpc::ext_proc::{HttpBody, HttpHeaders, ProcessingResponse};
use context_guard_protocol::header as headers;
use context_guard_protocol::http::{HttpResponse, Replacement, ResponseAction, ResponseHead};

use super::{EnvoyExchange, header};
use crate::external::body_memory::BodyShare;
use crate::external::collected_body::BodyState;
use crate::external::envoy_replies::{
    BodyChange, CONTENT_LENGTH, Direction, HeadChange, Overrides,
};
use crate::external::transfers;

impl EnvoyExchange {
    pub(super) fn on_response_head(&mut self, head: &HttpHeaders) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let pass = || replies.head(&HeadChange::default(), &Overrides::IGNORE).into();
        if let Some(session) = header(head, "mcp-session-id") {
            self.messages.session_opened(session);
        }
        self.status = header(head, ":status").and_then(|status| status.parse().ok()).unwrap_or(200);
        // An upstream answers, although Envoy has not sent the body for which the guard asked.
        // Envoy's own errors pass, such as that of a body above its buffer limit.
        if matches!(self.request, BodyState::Whole) && self.status < 400 {
            return replies.immediate(&transfers::refusal()).into();
        }
        let Some(exchange) = &mut self.exchange else { return pass() };
        let content_type = header(head, "content-type").unwrap_or_default();
        let known = ResponseHead {
            status: self.status,
            content_type: &content_type,
            is_encoded: headers::is_encoded(header(head, "content-encoding").as_deref()),
            content_length: content_length(head),
        };
        let action = exchange.on_response(&known);
        let unsized_head = HeadChange { remove: vec![CONTENT_LENGTH], ..HeadChange::default() };
        match action {
            ResponseAction::Respond(response) => replies.immediate(&response).into(),
            ResponseAction::Pass => pass(),
            // No message about a body follows.
            _ if head.end_of_stream => pass(),
            ResponseAction::TooLong => match exchange.on_oversized_body(&mut self.messages, true) {
                Some(replacement) => replies.immediate(&self.response_of(replacement)).into(),
                None => pass(),
            },
            ResponseAction::Events => {
                let share = BodyShare::new(&self.bodies, self.principal());
                self.response = BodyState::Events(share);
                replies.head(&unsized_head, &Overrides::STREAM_RESPONSE).into()
            }
            ResponseAction::Collect { max_bytes, .. } if self.is_duplex(Direction::Response) => {
                self.response = self.collect(max_bytes);
                Vec::new()
            }
            ResponseAction::Collect { max_bytes, with_head } => {
                let is_short =
                    known.content_length.is_some_and(|length| length <= self.settings.max_buffered);
                // Only the head of a buffered body can still change.
                if (with_head || is_short) && !self.transfers.response_is_streamed {
                    self.response = BodyState::Whole;
                    return replies
                        .head(&HeadChange::default(), &Overrides::BUFFER_RESPONSE)
                        .into();
                }
                self.response = self.collect(max_bytes);
                replies.head(&unsized_head, &Overrides::STREAM_RESPONSE).into()
            }
        }
    }

    /// Returns the replacement of a response whose head was not sent yet, as a whole response.
    fn response_of(&self, replacement: Replacement) -> HttpResponse {
        match replacement {
            Replacement::Response(response) => response,
            Replacement::Body(body) => HttpResponse::json(self.status, body),
        }
    }

    pub(super) fn on_response_body(&mut self, part: HttpBody) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let Some(exchange) = &mut self.exchange else { return replies.pass(part) };
        match &mut self.response {
            BodyState::Pass => replies.pass(part),
            BodyState::Drop => replies.replace_part(Vec::new(), part.end_of_stream),
            BodyState::Events(share) => {
                let is_last = part.end_of_stream;
                let received = exchange.pending_event_bytes() + part.body.len();
                let mut sent = exchange.on_events(&mut self.messages, &part.body, is_last);
                if exchange.pending_event_bytes() < received {
                    // The event has ended. A later one is younger.
                    share.resize(0);
                }
                if !share.resize(exchange.pending_event_bytes()) {
                    sent.extend(exchange.on_oversized_event(&mut self.messages));
                    share.resize(0);
                }
                if sent == part.body {
                    replies.pass(part)
                } else {
                    replies.replace_part(sent, is_last)
                }
            }
            BodyState::Whole => {
                self.response = BodyState::Pass;
                let replacement = exchange.on_body(&mut self.messages, &part.body);
                let Some(replacement) = replacement else { return replies.pass(part) };
                let change = HeadChange::for_replacement(&replacement);
                let body = BodyChange::Replace(into_body(replacement));
                replies.changed_body(&change, body).into()
            }
            BodyState::Collect(body) => {
                if body.push(&part.body).is_err() {
                    return self.on_oversized_response(part.end_of_stream);
                }
                if part.end_of_stream {
                    return self.finish_response(true);
                }
                if self.is_duplex(Direction::Response) {
                    return Vec::new();
                }
                replies.replace_part(Vec::new(), false)
            }
        }
    }

    /// Replaces or forwards a response body that exceeds a limit. `is_last` is true for its
    /// last part.
    pub(super) fn on_oversized_response(&mut self, is_last: bool) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let state = std::mem::replace(&mut self.response, BodyState::Pass);
        let (BodyState::Collect(body), Some(exchange)) = (state, &mut self.exchange) else {
            return Vec::new();
        };
        let body = body.into_bytes();
        let replacement = exchange.on_oversized_body(&mut self.messages, true);
        match (replacement, self.is_duplex(Direction::Response)) {
            (Some(replacement), true) => replies.immediate(&self.response_of(replacement)).into(),
            (Some(replacement), false) => {
                self.response = BodyState::Drop;
                replies.replace_part(into_body(replacement), is_last)
            }
            (None, true) => replies.forward(HeadChange::default(), body, is_last),
            (None, false) => replies.replace_part(body, is_last),
        }
    }

    /// Shapes the collected response body. `is_last` is true if no trailers follow.
    fn finish_response(&mut self, is_last: bool) -> Vec<ProcessingResponse> {
        let replies = self.replies(Direction::Response);
        let state = std::mem::replace(&mut self.response, BodyState::Pass);
        let (BodyState::Collect(body), Some(exchange)) = (state, &mut self.exchange) else {
            return Vec::new();
        };
        let body = body.into_bytes();
        let replacement = exchange.on_body(&mut self.messages, &body);
        let change = replacement.as_ref().map(HeadChange::for_replacement).unwrap_or_default();
        let body = replacement.map_or(body, into_body);
        if self.is_duplex(Direction::Response) {
            return replies.forward(change, body, is_last);
        }
        replies.replace_part(body, is_last)
    }

    pub(super) fn on_response_trailers(&mut self) -> Result<Vec<ProcessingResponse>, &'static str> {
        let is_duplex = self.is_duplex(Direction::Response);
        let mut replies = match (&self.response, &mut self.exchange) {
            (BodyState::Collect(body), _) if !is_duplex && body.len() > 0 => {
                // No chunk was marked as the last, and Envoy accepts no more body now. A reset is
                // better than a truncated answer.
                return Err("the response has trailers: use FULL_DUPLEX_STREAMED");
            }
            (BodyState::Events(_), Some(exchange)) if is_duplex => {
                let sent = exchange.on_events(&mut self.messages, b"", true);
                let replies = self.replies(Direction::Response);
                if sent.is_empty() { Vec::new() } else { replies.replace_part(sent, false) }
            }
            _ if is_duplex => self.finish_response(false),
            _ => Vec::new(),
        };
        replies.push(self.replies(Direction::Response).trailers());
        Ok(replies)
    }
}

fn into_body(replacement: Replacement) -> Vec<u8> {
    let (Replacement::Body(body) | Replacement::Response(HttpResponse { body, .. })) = replacement;
    body
}

pub(super) fn content_length(head: &HttpHeaders) -> Option<usize> {
    header(head, CONTENT_LENGTH)?.trim().parse().ok()
}
