//! A request on its way: what is the guard's of it, and what becomes of it.

use super::{Context, Guard, Plan, pass, read_tool};
use crate::json::edit::Edits;
use crate::json::scan::is_json;
use crate::json::text::Form;
use crate::policy::Limits;
use crate::protocol::mcp::READ_URI;
use crate::protocol::mcp::arguments::{self, Guarded, Sorted};
use crate::protocol::mcp::facts::{Output, ToolFacts};
use crate::protocol::mcp::read::{Read, Reader, Refusal};
use crate::protocol::mcp::reply::Envelope;
use crate::protocol::mcp::request::Request;
use crate::protocol::mcp::shaped;
use crate::record::{Loss, Record};
use crate::shape::notice::READ_TOOL;
use crate::snapshot::Scope;
use crate::snapshot::stored::Loaded;
use crate::ticket::Ticket;
use crate::tokens::Original;

/// The code of a protocol error about a cursor: outside the range that JSON-RPC keeps for itself.
const CURSOR_ERROR: i64 = 1_001;

/// A request on its way.
pub(super) struct Call<'a> {
    pub(super) guard: &'a Guard,
    pub(super) cx: &'a Context<'a>,
    pub(super) message: &'a [u8],
    pub(super) request: &'a Request,
    pub(super) loaded: &'a Loaded,
    pub(super) now_ms: u64,
    pub(super) id: &'a [u8],
}

/// What the store knows of a tool.
enum Known {
    Load(Vec<String>),
    Facts(ToolFacts),
    Nothing,
}

impl Call<'_> {
    fn envelope(&self) -> Envelope<'_> {
        Envelope {
            id: self.id,
            modern: self.request.modern || self.cx.protocol_version >= "2026-07-28",
        }
    }

    fn limits(&self, name: &str) -> Limits {
        self.guard.policy.limits(self.cx.upstream, name)
    }

    fn budget(&self) -> Option<u64> {
        self.request.meta.as_ref().and_then(|meta| meta.budget)
    }

    fn facts(&self, name: &str) -> Known {
        let endpoint = crate::endpoint(self.cx.upstream, name);
        let keys =
            self.guard.keys.tool(Scope { principal: self.cx.principal, endpoint: &endpoint });
        let absent: Vec<String> =
            keys.iter().filter(|key| !self.loaded.contains_key(*key)).cloned().collect();
        if !absent.is_empty() {
            return Known::Load(absent);
        }
        let facts = keys
            .iter()
            .find_map(|key| self.loaded.get(key)?.as_deref().and_then(ToolFacts::from_bytes));
        facts.map_or(Known::Nothing, Known::Facts)
    }

    pub(super) fn tool(&self) -> Plan {
        let Some(name) = self.request.name.as_deref() else { return pass() };
        // Whether an upstream has a tool of the reading tool's name decides what the guard's own is called.
        let (facts, namesake) = match (self.facts(name), self.facts(READ_TOOL)) {
            (Known::Load(mut keys), Known::Load(more)) => {
                keys.extend(more.into_iter().filter(|_| name != READ_TOOL));
                return Plan::Load(keys);
            }
            (Known::Load(keys), _) | (_, Known::Load(keys)) => return Plan::Load(keys),
            (facts, namesake) => (facts, namesake),
        };
        let renamed = matches!(namesake, Known::Facts(_));
        if name == read_tool(renamed) {
            return self.read_tool(read_tool(renamed));
        }
        let facts = match facts {
            Known::Facts(facts) => Some(facts),
            _ => None,
        };
        let limits = self.limits(name);
        if !limits.shape {
            return pass();
        }
        let sorted = self.sorted(facts.as_ref(), &limits);
        let output = facts.map_or(Output::Free, |facts| facts.output);
        match sorted {
            Err(reason) => self.refuse(name, &reason),
            Ok(Sorted { guarded, rest }) if guarded.cursor.is_none() => {
                self.forward_renamed(name, rest, &guarded, output, renamed)
            }
            Ok(Sorted { guarded, .. }) => {
                let open = matches!(output, Output::Free | Output::Open);
                let reader = Reader {
                    endpoint: Some(name),
                    structured: true,
                    open,
                    ..self.reader(read_tool(renamed))
                };
                self.serve(&reader, &guarded, name, |read, meta| {
                    self.envelope().tool(&read.halves, &meta)
                })
            }
        }
    }

    /// The arguments, the guard's and the tool's apart.
    fn sorted(&self, facts: Option<&ToolFacts>, limits: &Limits) -> Result<Sorted, String> {
        match &self.request.arguments {
            None => Ok(Sorted::default()),
            Some(span) => arguments::sort(self.message, span, facts, limits),
        }
    }

    fn reader<'r>(&'r self, read_tool: &'r str) -> Reader<'r> {
        Reader {
            policy: &self.guard.policy,
            keys: &self.guard.keys,
            principal: self.cx.principal,
            upstream: self.cx.upstream,
            endpoint: None,
            structured: false,
            open: true,
            read_tool,
            budget: self.budget(),
            now_ms: self.now_ms,
        }
    }

    /// A call of the guard's own tool.
    fn read_tool(&self, name: &str) -> Plan {
        let limits = self.limits(name);
        match self.sorted(Some(&ToolFacts::default()), &limits) {
            Err(reason) => self.refuse(name, &reason),
            Ok(Sorted { guarded, .. }) if guarded.cursor.is_none() => self.refuse(
                name,
                "cursor is missing: give the nextCursor of an answer that context-guard cut",
            ),
            Ok(Sorted { guarded, .. }) => {
                self.serve(&self.reader(name), &guarded, name, |read, meta| {
                    self.envelope().tool(&read.halves, &meta)
                })
            }
        }
    }

    pub(super) fn resource(&self) -> Plan {
        let Some(uri) = self.request.name.as_deref() else { return pass() };
        match uri.strip_prefix(READ_URI) {
            Some(cursor) => {
                let guarded = Guarded { cursor: Some(cursor.to_owned()), ..Guarded::default() };
                self.serve(&self.reader(READ_TOOL), &guarded, uri, |read, meta| {
                    self.envelope().resource(uri, &read.halves, &meta)
                })
            }
            None if self.limits(uri).shape => {
                self.forward(uri, None, &Guarded::default(), Output::Free)
            }
            None => pass(),
        }
    }

    pub(super) fn forward(
        &self,
        name: &str,
        arguments: Option<Vec<u8>>,
        guarded: &Guarded,
        output: Output,
    ) -> Plan {
        self.forward_renamed(name, arguments, guarded, output, false)
    }

    /// Sends the request on, without the guard's arguments and `_meta` members.
    fn forward_renamed(
        &self,
        name: &str,
        arguments: Option<Vec<u8>>,
        guarded: &Guarded,
        output: Output,
        renamed: bool,
    ) -> Plan {
        let original = self
            .request
            .arguments
            .clone()
            .and_then(|span| self.message.get(span))
            .unwrap_or_default();
        let hash = xxhash_rust::xxh3::xxh3_128(arguments.as_deref().unwrap_or(original));
        let mut edits = Edits::default();
        if let (Some(span), Some(rest)) = (&self.request.arguments, arguments) {
            edits.replace(span.clone(), rest);
        }
        if let Some(meta) = self.request.meta.as_ref().filter(|meta| meta.guarded) {
            edits.replace(meta.span.clone(), [b"{".as_slice(), &meta.rest, b"}"].concat());
        }
        let ticket = Ticket::Answer {
            name: name.to_owned(),
            arguments: hash,
            wish: guarded.wish,
            budget: self.budget(),
            output,
            renamed,
        };
        let message = (!edits.is_empty()).then(|| edits.apply(self.message));
        Plan::Forward { message, ticket: ticket.to_bytes() }
    }

    /// Answers from what is kept.
    fn serve(
        &self,
        reader: &Reader<'_>,
        guarded: &Guarded,
        name: &str,
        write: impl Fn(&Read, serde_json::Map<String, serde_json::Value>) -> Vec<u8>,
    ) -> Plan {
        let read = match reader.read(guarded, self.loaded) {
            Ok(read) => read,
            Err(Refusal::Load(keys)) => return Plan::Load(keys),
            Err(Refusal::Cursor(error)) => return self.refuse(name, &error.to_string()),
            Err(Refusal::Wish(reason)) => return self.refuse(name, &reason),
        };
        let facts = read.shown.facts.json(read.halves.cursor.as_deref());
        let meta = shaped::describe(
            facts,
            read.halves.tokens,
            read.threshold,
            read.original,
            read.original_bytes,
        );
        let message = write(&read, meta);
        debug_assert!(is_json(&message, Form::Raw), "an answer is JSON");
        let record = Record {
            endpoint: crate::endpoint(self.cx.upstream, &read.endpoint),
            mode: read.shown.facts.kind().to_owned(),
            loss: Loss::Partial,
            estimated_tokens: read.halves.tokens,
            response_bytes: message.len() as u64,
            original_tokens: read.original.tokens,
            original_tokens_sampled: read.original.sampled,
            original_bytes: read.original_bytes,
            budget: read.threshold,
            item_count: read.shown.facts.items(),
        };
        let ttl_ms = 2 * self.limits("").cursor_ttl_ms;
        Plan::Answer { message, entries: read.entries, extend: read.extend, ttl_ms, record }
    }

    /// Answers with an error that the caller can act on.
    fn refuse(&self, name: &str, reason: &str) -> Plan {
        let message = if self.request.method == "tools/call" {
            self.envelope().tool_error(reason)
        } else {
            self.envelope().error(CURSOR_ERROR, reason)
        };
        let limits = self.limits(name);
        let tokens = limits.estimator.price(reason.as_bytes());
        let endpoint = crate::endpoint(self.cx.upstream, name);
        let original = Original { tokens, ..Original::default() };
        let record = Record {
            mode: "error".to_owned(),
            ..Record::unchanged(&endpoint, original, message.len(), limits.threshold)
        };
        Plan::Answer { message, entries: Vec::new(), extend: Vec::new(), ttl_ms: 0, record }
    }
}
