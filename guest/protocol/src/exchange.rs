//! An exchange of HTTP: what is asked of its host at each step.

use sha2::{Digest, Sha256};
use wildmatch::WildMatch;

use crate::api::Asked;
use crate::events::Framer;
use crate::mcp::Mcp;
use crate::{Caller, Filter, OverLimit, Settings};

/// Request headers that ask for a part of the upstream's bytes, or for word that the whole has not changed: nothing to shape. They are taken out of what is looked into without a body.
pub const OF_A_PART: [&str; 4] = ["range", "if-range", "if-none-match", "if-modified-since"];
/// Response headers that describe the whole body, and no part of it: they go where a [`Reply`] changes the head.
pub const OF_THE_WHOLE: [&str; 6] =
    ["etag", "last-modified", "accept-ranges", "content-md5", "digest", "repr-digest"];

/// The head of a request.
pub struct RequestHead<'a> {
    /// `POST`.
    pub method: &'a str,
    /// The path with its query.
    pub target: &'a str,
    /// A header by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<String>,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// `content-type`; empty where there is none.
    pub content_type: &'a str,
    /// Whether there is a `content-encoding` other than `identity`.
    pub encoded: bool,
    /// `content-length`, where it is known.
    pub length: Option<usize>,
}

/// A response of the guard's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// `content-type`.
    pub content_type: &'static str,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// A body of JSON.
    #[must_use]
    pub fn json(status: u16, body: Vec<u8>) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// What a request is answered with that is longer than is looked into; none to send it on as it came.
    #[must_use]
    pub fn request_too_long(settings: &Settings) -> Option<Self> {
        let most = settings.max_buffered;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-31003,"message":"The request is longer than {most} bytes, the limit of this gateway (maxBuffered)."}}}}"#
        );
        (settings.over_max_body == OverLimit::Refuse).then(|| Self::json(413, body.into_bytes()))
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Onward {
    /// It is sent on.
    Forward {
        /// With this body instead.
        body: Option<Vec<u8>>,
        /// With this path and query instead.
        target: Option<String>,
        /// Where the request has an `mcp-name` header: its value now.
        subject: Option<String>,
    },
    /// It is answered at once.
    Answer(Reply),
}

/// What the body of a response needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It passes.
    Pass,
    /// It is collected, up to so many bytes, and handed to [`Exchange::answer`]. Its length is not known before. What is longer: [`Exchange::too_long`].
    Collect {
        /// In bytes.
        most: usize,
        /// Whether status and headers may change as well.
        with_head: bool,
    },
    /// It is an event stream, whose chunks go through [`Exchange::events`]. It has no length.
    Events,
    /// It is known to be too long: [`Exchange::too_long`], before anything of it is read.
    TooLong,
}

/// A response as the guard has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped {
    /// Status and headers, where they change too.
    pub head: Option<Reply>,
    /// The body.
    pub body: Vec<u8>,
}

/// An exchange.
#[derive(Debug)]
pub struct Exchange {
    inner: Inner,
    settings: Limits,
    framer: Framer,
    /// The event that is coming was too long: its end is waited for.
    dropping: bool,
}

#[derive(Debug)]
enum Inner {
    Pass,
    Mcp(Mcp),
    Api(Asked),
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    max_body: usize,
    max_buffered: usize,
    over: OverLimit,
}

impl Exchange {
    /// Looks at the head of a request: whether this exchange is of interest.
    #[must_use]
    pub fn open(settings: &Settings, head: &RequestHead<'_>) -> Self {
        let path = head.target.split_once('?').map_or(head.target, |(path, _)| path);
        let api = settings.apis.iter().find(|api| {
            (api.method == "*" || api.method.eq_ignore_ascii_case(head.method))
                && WildMatch::new(&api.path).matches(path)
        });
        let inner = match api {
            Some(api) if api.guard => {
                Inner::Api(Asked::of(caller(settings, head), head.method, head.target, &api.own))
            }
            Some(_) => Inner::Pass,
            None if is_mcp(settings, head, path) => Inner::Mcp(Mcp::new(caller(settings, head))),
            None => Inner::Pass,
        };
        let settings = Limits {
            max_body: settings.max_body,
            max_buffered: settings.max_buffered,
            over: settings.over_max_body,
        };
        Self { inner, settings, framer: Framer::default(), dropping: false }
    }

    /// Whether this exchange is of no interest at all.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self.inner, Inner::Pass)
    }

    /// Whether the body of the request is needed: else [`Self::request`] takes none.
    #[must_use]
    pub fn reads_request(&self) -> bool {
        matches!(self.inner, Inner::Mcp(_))
    }

    /// The request, whole.
    pub fn request(&mut self, filter: &mut dyn Filter, body: &[u8]) -> Onward {
        match &mut self.inner {
            Inner::Pass => Onward::Forward { body: None, target: None, subject: None },
            Inner::Mcp(mcp) => mcp.request(filter, body),
            Inner::Api(asked) => asked.request(filter),
        }
    }

    /// Nothing of this exchange is looked at any more.
    fn give_up(&mut self) {
        self.inner = Inner::Pass;
    }

    /// The head of the response.
    #[must_use]
    pub fn response(&mut self, head: &ResponseHead<'_>) -> Way {
        let json = head.content_type.starts_with("application/json");
        let with_head = match &self.inner {
            Inner::Pass => return Way::Pass,
            Inner::Mcp(mcp) if mcp.is_done() || head.encoded => return Way::Pass,
            Inner::Mcp(_) if head.content_type.starts_with("text/event-stream") => {
                return Way::Events;
            }
            Inner::Mcp(_) if !json => return Way::Pass,
            Inner::Mcp(_) => false,
            Inner::Api(asked) if !asked.looks_at(head) => return Way::Pass,
            Inner::Api(_) => true,
        };
        let most = self.most();
        if head.length.is_some_and(|length| length > most) {
            return Way::TooLong;
        }
        Way::Collect { most, with_head }
    }

    /// The longest body that is looked into.
    fn most(&self) -> usize {
        match self.inner {
            Inner::Api(_) => self.settings.max_buffered,
            _ => self.settings.max_body,
        }
    }

    /// The whole body of a response; none to send it as it came.
    pub fn answer(&mut self, filter: &mut dyn Filter, body: &[u8]) -> Option<Shaped> {
        match &mut self.inner {
            Inner::Pass => None,
            Inner::Mcp(mcp) => mcp.answer(filter, body).map(|body| Shaped { head: None, body }),
            Inner::Api(asked) => asked.answer(filter, body),
        }
    }

    /// What takes the place of a body that is too long; none to send it on as it comes, where that is wanted and the host can.
    pub fn too_long(&mut self, filter: &mut dyn Filter, host_can_forward: bool) -> Option<Shaped> {
        filter.over_limit();
        if self.settings.over == OverLimit::Forward && host_can_forward {
            self.give_up();
            return None;
        }
        let reason = self.reason();
        match &mut self.inner {
            Inner::Pass => None,
            Inner::Mcp(mcp) => {
                let mut failed = mcp.fail(&reason);
                let body = match (failed.pop(), failed.is_empty()) {
                    (Some(one), true) => one,
                    (last, _) => {
                        failed.extend(last);
                        crate::message::joined(&failed)
                    }
                };
                Some(Shaped { head: None, body })
            }
            Inner::Api(_) => {
                let reply = crate::api::problem(502, "upstream_too_large", &reason);
                Some(Shaped { body: reply.body.clone(), head: Some(reply) })
            }
        }
    }

    fn reason(&self) -> String {
        format!(
            "The answer is longer than {} bytes, the limit of this gateway (maxBody). Ask for less: a filter, fewer fields, a smaller range.",
            self.most()
        )
    }

    /// A chunk of an event stream, `last` where nothing follows: what is sent in its place.
    pub fn events(&mut self, filter: &mut dyn Filter, chunk: &[u8], last: bool) -> Vec<u8> {
        let Inner::Mcp(mcp) = &mut self.inner else { return chunk.to_vec() };
        let mut sent = mcp.first_events();
        self.framer.push(chunk);
        while let Some(event) = self.framer.next() {
            if !std::mem::take(&mut self.dropping) {
                sent.extend(mcp.event(filter, event));
            }
        }
        if last || self.framer.waiting() <= self.settings.max_body {
            let rest = if last { self.framer.rest() } else { Vec::new() };
            sent.extend(if self.dropping { Vec::new() } else { rest });
            return sent;
        }
        if self.dropping {
            self.framer.forget();
            return sent;
        }
        filter.over_limit();
        if self.settings.over == OverLimit::Forward {
            sent.extend(self.framer.rest());
            self.give_up();
            return sent;
        }
        let reason = self.reason();
        if let Inner::Mcp(mcp) = &mut self.inner {
            sent.extend(mcp.fail(&reason).iter().flat_map(|failed| crate::events::message(failed)));
        }
        self.dropping = true;
        self.framer.forget();
        sent
    }
}

/// A POST of JSON, to a path that speaks MCP.
fn is_mcp(settings: &Settings, head: &RequestHead<'_>, path: &str) -> bool {
    let kind = (head.header)("content-type").unwrap_or_default();
    head.method == "POST"
        && kind.starts_with("application/json")
        && (head.header)("content-encoding").is_none_or(|encoding| encoding == "identity")
        && settings.mcp.iter().any(|pattern| WildMatch::new(pattern).matches(path))
}

/// Whoever brings other credentials is somebody else.
fn caller(settings: &Settings, head: &RequestHead<'_>) -> Caller {
    let header = |name: &str| (head.header)(name).unwrap_or_default();
    let credentials: Vec<String> =
        settings.principal_headers.iter().map(|name| header(&name.to_lowercase())).collect();
    let principal = if let Some(principal) = &settings.principal {
        principal.clone()
    } else if credentials.iter().all(String::is_empty) {
        "anonymous".to_owned()
    } else {
        let digest = Sha256::digest(credentials.join("\n"));
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    };
    Caller {
        principal,
        session: header("mcp-session-id"),
        upstream: settings.upstream.clone(),
        protocol_version: header("mcp-protocol-version"),
    }
}

#[cfg(test)]
mod tests;
