//! An HTTP exchange: the decision at each step of a request and its response.

use sha2::{Digest, Sha256};

use crate::batch::join_batch;
use crate::client::{CLIENT_HEADER, cut_name};
use crate::code::{TOO_LARGE, UPSTREAM_UNAVAILABLE};
use crate::filter::{Caller, MessageFilter, Ticket, Verdict};
use crate::http::{Replacement, RequestAction, RequestHead, ResponseAction, ResponseHead};
use crate::mcp::McpExchange;
use crate::rest::{self, RestRequest};
use crate::settings::{OverLimit, Settings};
use crate::sse::{Event, Framer};
use crate::{glob, header, to_hex};

/// The state of an HTTP request and its response. The host calls a method at each step, as the
/// [crate documentation](crate) describes. To repeat a step after loading store entries, the host
/// clones the exchange before the step.
#[derive(Clone, Debug)]
pub struct HttpExchange {
    kind: ExchangeKind,
    limits: SizeLimits,
    framer: Framer,
    /// True while the rest of an incoming event is dropped, because the event exceeded `max_body`.
    is_dropping: bool,
}

#[derive(Clone, Debug)]
enum ExchangeKind {
    Ignored,
    Mcp(McpExchange),
    Api(ApiExchange),
}

#[derive(Clone, Debug)]
struct ApiExchange {
    caller: Caller,
    request: RestRequest,
    ticket: Ticket,
    /// The HTTP status of the upstream's response.
    status: u16,
}

#[derive(Clone, Copy, Debug)]
struct SizeLimits {
    max_body: usize,
    max_buffered: usize,
    over_max_body: OverLimit,
}

impl HttpExchange {
    /// Starts an exchange. The head of the request determines if it is MCP, a request to a plain
    /// JSON API, or ignored.
    #[must_use]
    pub fn open(settings: &Settings, head: &RequestHead<'_>) -> Self {
        let path = head.target.split_once('?').map_or(head.target, |(path, _)| path);
        let api = settings.apis.iter().find(|api| {
            (api.method == "*" || api.method.eq_ignore_ascii_case(head.method))
                && glob::matches(&api.path, path)
        });
        let kind = match api {
            Some(api) if api.guard => ExchangeKind::Api(ApiExchange {
                caller: identify_caller(settings, head.header),
                request: RestRequest::parse(head.method, head.target, &api.own),
                ticket: Ticket::Pass,
                status: 200,
            }),
            None if is_mcp(settings, head, path) => {
                let mut caller = identify_caller(settings, head.header);
                let authority = (head.header)(":authority").or_else(|| (head.header)("host"));
                let authority = authority.unwrap_or_default();
                caller.server = Some(format!("{authority}{path}#{}", caller.session));
                let encoding = (head.header)("content-encoding");
                let is_compressed = header::is_encoded(encoding.as_deref());
                let may_be_other = settings.mcp == ["*"] && !has_mcp_headers(head);
                ExchangeKind::Mcp(McpExchange::new(caller, is_compressed, may_be_other))
            }
            _ => ExchangeKind::Ignored,
        };
        let limits = SizeLimits {
            max_body: settings.max_body,
            max_buffered: settings.max_buffered,
            over_max_body: settings.over_max_body,
        };
        Self { kind, limits, framer: Framer::default(), is_dropping: false }
    }

    /// Returns true if request and response pass unchanged.
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        matches!(self.kind, ExchangeKind::Ignored)
    }

    /// Returns the caller of the request. `None` if the exchange is ignored.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        match &self.kind {
            ExchangeKind::Ignored => None,
            ExchangeKind::Mcp(mcp) => Some(mcp.caller()),
            ExchangeKind::Api(api) => Some(&api.caller),
        }
    }

    /// Returns true while the guard waits for a response to an MCP request of this exchange.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(&self.kind, ExchangeKind::Mcp(mcp) if !mcp.is_done())
    }

    /// Returns true if [`Self::on_request`] needs the body of the request.
    #[must_use]
    pub fn needs_request_body(&self) -> bool {
        matches!(self.kind, ExchangeKind::Mcp(_))
    }

    /// Returns the action for the request: forward it, or answer it. `body` is the whole body, or
    /// empty if [`Self::needs_request_body`] returned false.
    pub fn on_request(&mut self, filter: &mut dyn MessageFilter, body: &[u8]) -> RequestAction {
        match &mut self.kind {
            ExchangeKind::Ignored => RequestAction::UNCHANGED,
            ExchangeKind::Mcp(mcp) => mcp.on_request(filter, body),
            ExchangeKind::Api(api) => {
                match filter.on_request(&api.caller, &api.request.tool_call()) {
                    Verdict::Answer(answer) => {
                        RequestAction::Respond(api.request.response(200, &answer))
                    }
                    Verdict::Forward(_, ticket) => {
                        api.ticket = ticket;
                        let target = Some(api.request.target());
                        RequestAction::Forward { body: None, target, mcp_headers: Vec::new() }
                    }
                }
            }
        }
    }

    /// Returns the action for the upstream's response, given its head, before the body is read.
    #[must_use]
    pub fn on_response(&mut self, head: &ResponseHead<'_>) -> ResponseAction {
        let with_head = match &mut self.kind {
            ExchangeKind::Ignored => return ResponseAction::Pass,
            ExchangeKind::Mcp(mcp) if mcp.is_done() => return ResponseAction::Pass,
            ExchangeKind::Mcp(mcp) => {
                if head.is_encoded {
                    return ResponseAction::Pass;
                }
                if header::is_event_stream(head.content_type) {
                    return ResponseAction::Events;
                }
                if !header::is_json(head.content_type) {
                    return mcp
                        .own_response()
                        .map_or(ResponseAction::Pass, ResponseAction::Respond);
                }
                false
            }
            ExchangeKind::Api(api) => {
                if api.ticket == Ticket::Pass || !rest::can_shape(head) {
                    return ResponseAction::Pass;
                }
                api.status = head.status;
                true
            }
        };
        let max_bytes = self.max_bytes();
        if head.content_length.is_some_and(|length| length > max_bytes) {
            return ResponseAction::TooLong;
        }
        ResponseAction::Collect { max_bytes, with_head }
    }

    /// Returns the maximum size, in bytes, of a response body that is buffered to be shaped.
    fn max_bytes(&self) -> usize {
        match self.kind {
            ExchangeKind::Api(_) => self.limits.max_buffered,
            _ => self.limits.max_body,
        }
    }

    /// Shapes `body`, the whole body of the upstream's response. Returns `None` if the response
    /// passes unchanged.
    pub fn on_body(&mut self, filter: &mut dyn MessageFilter, body: &[u8]) -> Option<Replacement> {
        match &mut self.kind {
            ExchangeKind::Ignored => None,
            ExchangeKind::Mcp(mcp) => mcp.on_body(filter, body).map(Replacement::Body),
            ExchangeKind::Api(api) => {
                let message = rest::wrap_body(body)?;
                let answer = filter.on_response(&api.caller, &api.ticket, &message)?;
                Some(Replacement::Response(api.request.response(api.status, &answer)))
            }
        }
    }

    /// Returns an error to send instead of a response body that exceeds the size limit. Returns
    /// `None` if the body is forwarded, because the settings and `host_can_forward` allow it.
    pub fn on_oversized_body(
        &mut self,
        filter: &mut dyn MessageFilter,
        host_can_forward: bool,
    ) -> Option<Replacement> {
        filter.on_limit_exceeded();
        if self.limits.over_max_body == OverLimit::Forward && host_can_forward {
            self.kind = ExchangeKind::Ignored;
            return None;
        }
        let reason = self.too_long_reason();
        match &mut self.kind {
            ExchangeKind::Ignored => None,
            ExchangeKind::Mcp(mcp) => {
                Some(Replacement::Body(match mcp.fail(TOO_LARGE, &reason).as_slice() {
                    [answer] => answer.clone(),
                    answers => join_batch(answers),
                }))
            }
            ExchangeKind::Api(_) => {
                Some(Replacement::Response(rest::problem(502, "upstream_too_large", &reason)))
            }
        }
    }

    fn too_long_reason(&self) -> String {
        format!(
            "The answer is longer than {} bytes, the limit of this gateway (maxBody). Ask for less: a filter, fewer fields, a smaller range.",
            self.max_bytes()
        )
    }

    /// Returns true if an event is complete with the next chunk of the event stream. Only then does
    /// [`Self::on_events`] use the filter.
    #[must_use]
    pub fn completes_event(&self, chunk: &[u8]) -> bool {
        self.framer.completes_event(chunk)
    }

    /// Shapes a chunk of the upstream's event stream. Returns the bytes to send to the client
    /// instead of the chunk. `is_last` is true at the end of the stream.
    pub fn on_events(
        &mut self,
        filter: &mut dyn MessageFilter,
        chunk: &[u8],
        is_last: bool,
    ) -> Vec<u8> {
        let ExchangeKind::Mcp(mcp) = &mut self.kind else { return chunk.to_vec() };
        let mut sent = mcp.first_events();
        self.framer.push(chunk);
        while let Some(event) = self.framer.next_event() {
            // The end of an event that was too long is no event.
            if !std::mem::take(&mut self.is_dropping) {
                sent.extend(mcp.on_event(filter, event));
            }
        }
        if is_last {
            let rest = self.framer.finish().filter(|_| !self.is_dropping);
            sent.extend(rest.into_iter().flat_map(|event| mcp.on_event(filter, event)));
            let reason = "The upstream ended its stream without an answer.";
            sent.extend(mcp.on_stream_end(UPSTREAM_UNAVAILABLE, reason));
            return sent;
        }
        if self.framer.pending_bytes() > self.limits.max_body {
            sent.extend(self.on_oversized_event(filter));
        }
        sent
    }

    /// Returns the number of bytes of the incomplete event that [`Self::on_events`] retains.
    #[must_use]
    pub fn pending_event_bytes(&self) -> usize {
        self.framer.pending_bytes()
    }

    /// Gives up the incomplete event, because it is too long or the host has no memory for it.
    /// Returns the bytes to send to the client.
    pub fn on_oversized_event(&mut self, filter: &mut dyn MessageFilter) -> Vec<u8> {
        if self.is_dropping {
            self.framer.discard_partial();
            return Vec::new();
        }
        filter.on_limit_exceeded();
        if self.limits.over_max_body == OverLimit::Forward {
            self.kind = ExchangeKind::Ignored;
            return self.framer.finish().map(|event| event.0).unwrap_or_default();
        }
        let reason = self.too_long_reason();
        let mut sent = Vec::new();
        if let ExchangeKind::Mcp(mcp) = &mut self.kind {
            let failed = mcp.fail(TOO_LARGE, &reason);
            sent.extend(failed.iter().flat_map(|answer| Event::message(None, answer).0));
        }
        self.is_dropping = true;
        self.framer.discard_partial();
        sent
    }
}

/// Returns true for a POST of JSON to a path that speaks MCP. A compressed body counts, too: the
/// exchange refuses it.
fn is_mcp(settings: &Settings, head: &RequestHead<'_>, path: &str) -> bool {
    let media_type = (head.header)("content-type").unwrap_or_default();
    // Proxies join several headers of one name with commas.
    let media_type = media_type.split([';', ',']).next().unwrap_or_default().trim();
    head.method == "POST"
        && media_type.eq_ignore_ascii_case("application/json")
        && settings.mcp.iter().any(|pattern| glob::matches(pattern, path))
}

/// Returns true if a request has a header that clients of MCP send and others do not: all accept
/// event streams (MCP 2025-11-25, Streamable HTTP).
fn has_mcp_headers(head: &RequestHead<'_>) -> bool {
    let header = |name: &str| (head.header)(name).unwrap_or_default();
    header("accept").contains("text/event-stream")
        || !header("mcp-protocol-version").is_empty()
        || !header("mcp-session-id").is_empty()
}

/// Returns the caller of a request. `header` returns the value of a header by its lower-case name.
/// The identity is the configured principal, or else a digest of the caller's credentials. Without
/// credentials, it is `anonymous`.
#[must_use]
pub fn identify_caller(settings: &Settings, header: &dyn Fn(&str) -> Option<String>) -> Caller {
    let header = |name: &str| header(name).unwrap_or_default();
    let credentials: Vec<String> =
        settings.principal_headers.iter().map(|name| header(&name.to_lowercase())).collect();
    let principal = if let Some(principal) = &settings.principal {
        principal.clone()
    } else if credentials.iter().all(String::is_empty) {
        "anonymous".to_owned()
    } else {
        let digest = Sha256::digest(credentials.join("\n"));
        to_hex(digest.get(..16).unwrap_or(&digest))
    };
    Caller {
        principal,
        session: header("mcp-session-id"),
        upstream: settings.upstream.clone(),
        protocol_version: header("mcp-protocol-version"),
        client: cut_name(&header(CLIENT_HEADER)),
        server: None,
    }
}

#[cfg(test)]
mod tests;
