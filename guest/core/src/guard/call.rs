//! A request on its way: what is the guard's of it, and what becomes of it.

use super::replay::MAX_REPLAY_ARGUMENT_BYTES;
use super::ticket::{ParsedRequest, ReplayTicket, Ticket};
use super::{Context, Guard, Plan, pass, read_tool, schema_constraint};
use crate::fields::minify;
use crate::json::edit::Edits;
use crate::json::text::quoted;
use crate::mcp::READ_URI;
use crate::mcp::arguments::{
    self, ArgumentOwner, GuardArguments, SplitArguments, VERBATIM_ARGUMENT,
};
use crate::mcp::read::{PartRead, ReadError, SnapshotReader};
use crate::mcp::reply::Envelope;
use crate::mcp::request::Request;
use crate::mcp::serve_part::{ServedPart, part};
use crate::mcp::tool_info::{OutputSchema, ToolInfo};
use crate::policy::EndpointSettings;
use crate::record::Record;
use crate::shape::notice::READ_TOOL;
use crate::shape::render::SchemaConstraint;
use crate::snapshot::stored::Loaded;
use crate::snapshot::{Cursor, CursorError, Replay, Scope};
use crate::text::shorten::{MARK, holds_mark};
use crate::tokens::Original;

/// What a call is refused with whose arguments hold the guard's marks.
const TRUNCATION_MARK_ERROR: &str = "this call was not sent: its arguments hold a mark of what context-guard left out, such as \" ... [12 more words]\", so they are a part taken for the whole. \
     Read the whole with context_guard_read first. If the mark is really meant, add \"_guard_verbatim\": true.";

/// What is said where a resource is read by a cursor that only a tool can follow.
const TOOL_CURSOR_ERROR: &str = "this cursor is read on by the tool context_guard_read, not as a resource: give it as its `cursor`.";

/// The code of a protocol error about a cursor: outside the range that JSON-RPC keeps for itself.
const CURSOR_ERROR_CODE: i64 = 1_001;

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

/// What is known of a tool that is called.
#[derive(Clone, Copy, Default)]
pub(super) struct CalledTool {
    pub(super) output: OutputSchema,
    pub(super) renamed: bool,
    pub(super) read_only: bool,
}

/// What the store knows of a tool.
enum ToolLookup {
    Load(Vec<String>),
    Known(ToolInfo),
    Unknown,
}

impl Call<'_> {
    fn envelope(&self) -> Envelope<'_> {
        Envelope {
            id: self.id,
            stateless: self.request.stateless || self.cx.protocol_version >= "2026-07-28",
        }
    }

    fn settings_for(&self, name: &str) -> EndpointSettings {
        self.guard.policy.settings_for(self.cx.upstream, name)
    }

    fn budget(&self) -> Option<u64> {
        self.request.meta.as_ref().and_then(|meta| meta.budget)
    }

    fn facts(&self, name: &str) -> ToolLookup {
        self.facts_of(&crate::endpoint(self.cx.upstream, name))
    }

    fn facts_of(&self, endpoint: &str) -> ToolLookup {
        let keys = self.guard.keys.tool(Scope { principal: self.cx.principal, endpoint });
        let absent: Vec<String> =
            keys.iter().filter(|key| !self.loaded.contains_key(*key)).cloned().collect();
        if !absent.is_empty() {
            return ToolLookup::Load(absent);
        }
        let facts = keys
            .iter()
            .find_map(|key| self.loaded.get(key)?.as_deref().and_then(ToolInfo::from_bytes));
        facts.map_or(ToolLookup::Unknown, ToolLookup::Known)
    }

    pub(super) fn tool(&self) -> Plan {
        let Some(name) = self.request.name.as_deref() else { return pass() };
        // Whether an upstream has a tool of the reading tool's name decides what the guard's own is called.
        let (facts, namesake) = match (self.facts(name), self.facts(READ_TOOL)) {
            (ToolLookup::Load(mut keys), ToolLookup::Load(more)) => {
                keys.extend(more.into_iter().filter(|_| name != READ_TOOL));
                return Plan::Load(keys);
            }
            (ToolLookup::Load(keys), _) | (_, ToolLookup::Load(keys)) => return Plan::Load(keys),
            (facts, namesake) => (facts, namesake),
        };
        let renamed = matches!(namesake, ToolLookup::Known(_));
        if name == read_tool(renamed) {
            return self.read_tool(read_tool(renamed));
        }
        let facts = match facts {
            ToolLookup::Known(facts) => Some(facts),
            _ => None,
        };
        let limits = self.settings_for(name);
        if !limits.shape {
            return pass();
        }
        if limits.refuse_marks && self.marked() {
            return self.refuse(name, TRUNCATION_MARK_ERROR);
        }
        let sorted = self.sorted(ArgumentOwner::Tool(facts.as_ref()), &limits);
        let read_only = facts.as_ref().is_some_and(|facts| facts.read_only);
        let read_only = limits.read_only.unwrap_or(read_only);
        let output = facts.map_or(OutputSchema::Free, |facts| facts.output);
        let tool = CalledTool { output, renamed, read_only };
        match sorted {
            Err(reason) => self.refuse(name, &reason),
            Ok(SplitArguments { guarded, rest }) => {
                let reader = SnapshotReader {
                    endpoint: Some(name),
                    structured: true,
                    schema_constraint: schema_constraint(output),
                    ..self.reader(read_tool(renamed))
                };
                if guarded.cursor.is_some() {
                    return match reader.read(&guarded, self.loaded) {
                        Err(ReadError::Replay(cursor, replay)) => {
                            self.replay_call(&cursor, replay, guarded, tool, true)
                        }
                        read => self.serve(read, name),
                    };
                }
                let may_be_kept =
                    guarded.query.refers_back() || (read_only && !guarded.query.is_empty());
                if may_be_kept
                    && let Some(plan) = self.kept_answer(&reader, &guarded, name, rest.as_deref())
                {
                    return plan;
                }
                self.forward(name, rest, &guarded, tool)
            }
        }
    }

    /// Answers a call from what is kept of the same call, if anything is: a caller that names ids has seen an answer.
    fn kept_answer(
        &self,
        reader: &SnapshotReader<'_>,
        guarded: &GuardArguments,
        name: &str,
        rest: Option<&[u8]>,
    ) -> Option<Plan> {
        let endpoint = crate::endpoint(self.cx.upstream, name);
        let scope = Scope { principal: self.cx.principal, endpoint: &endpoint };
        let keys = self.guard.keys.answer(scope, self.arguments_hash(rest));
        let absent: Vec<String> =
            keys.iter().filter(|key| !self.loaded.contains_key(*key)).cloned().collect();
        if !absent.is_empty() {
            return Some(Plan::Load(absent));
        }
        let snapshot = keys.iter().find_map(|key| self.loaded.get(key)?.as_deref())?;
        let snapshot = std::str::from_utf8(snapshot).ok()?;
        if self.loaded.get(snapshot).is_some_and(Option::is_none) {
            return None;
        }
        let cursor = Cursor::new(snapshot, 0, self.now_ms);
        match reader.read_at(cursor, guarded, self.loaded) {
            // What is kept no longer has all its parts: the upstream is asked again.
            Err(ReadError::Cursor(_)) => None,
            read => {
                let mut plan = self.serve(read, name);
                if let Plan::Answer { record, .. } = &mut plan {
                    record.response_mode = guarded.query.mode;
                }
                Some(plan)
            }
        }
    }

    /// A hash of the arguments that are the tool's own, however they are spaced.
    fn arguments_hash(&self, rest: Option<&[u8]>) -> u128 {
        hash(rest.unwrap_or(self.arguments()))
    }

    /// The arguments as they came.
    fn arguments(&self) -> &[u8] {
        let span = self.request.arguments.clone();
        span.and_then(|span| self.message.get(span)).unwrap_or(b"{}")
    }

    /// Whether the arguments hold a mark of what the guard left out: then a model sends back a part as if it were the whole.
    fn marked(&self) -> bool {
        let bytes = self
            .request
            .arguments
            .clone()
            .and_then(|span| self.message.get(span))
            .unwrap_or_default();
        memchr::memmem::find(bytes, MARK.as_bytes()).is_some()
            && holds_mark(&String::from_utf8_lossy(bytes))
            && memchr::memmem::find(bytes, VERBATIM_ARGUMENT.as_bytes()).is_none()
    }

    /// The arguments, the guard's and the tool's apart.
    fn sorted(
        &self,
        whose: ArgumentOwner<'_>,
        limits: &EndpointSettings,
    ) -> Result<SplitArguments, String> {
        match &self.request.arguments {
            None => Ok(SplitArguments::default()),
            Some(span) => arguments::split(self.message, span, whose, limits),
        }
    }

    fn reader<'r>(&'r self, read_tool: &'r str) -> SnapshotReader<'r> {
        SnapshotReader {
            policy: &self.guard.policy,
            keys: &self.guard.keys,
            principal: self.cx.principal,
            upstream: self.cx.upstream,
            endpoint: None,
            structured: false,
            schema_constraint: SchemaConstraint::None,
            read_tool,
            budget: self.budget(),
            now_ms: self.now_ms,
            replay: None,
        }
    }

    /// A call of the guard's own tool.
    fn read_tool(&self, name: &str) -> Plan {
        let limits = self.settings_for(name);
        match self.sorted(ArgumentOwner::ReadTool, &limits) {
            Err(reason) => self.refuse(name, &reason),
            Ok(SplitArguments { guarded, .. }) if guarded.cursor.is_none() => self.refuse(
                name,
                "cursor is missing: give the nextCursor of an answer that context-guard cut",
            ),
            Ok(SplitArguments { guarded, .. }) => {
                match self.reader(name).read(&guarded, self.loaded) {
                    Err(ReadError::Replay(cursor, replay)) => {
                        let renamed = name != READ_TOOL;
                        let tool = CalledTool { renamed, read_only: true, ..CalledTool::default() };
                        self.replay_call(&cursor, replay, guarded, tool, false)
                    }
                    read => self.serve(read, name),
                }
            }
        }
    }

    /// Makes a call again, for a cursor whose answer is kept nowhere. The request becomes that call: of the tool, or where the upstream is not known here of `upstream::tool`.
    fn replay_call(
        &self,
        cursor: &Cursor,
        replay: Replay,
        now: GuardArguments,
        tool: CalledTool,
        structured: bool,
    ) -> Plan {
        let limits = self.guard.policy.settings_for(&replay.upstream, &replay.name);
        let arguments = replay.arguments.as_bytes();
        let known = match self.facts_of(&crate::endpoint(&replay.upstream, &replay.name)) {
            ToolLookup::Load(keys) => return Plan::Load(keys),
            ToolLookup::Known(facts) => Some(facts),
            ToolLookup::Unknown => None,
        };
        let sorted = arguments::split(
            arguments,
            &(0..arguments.len()),
            ArgumentOwner::Tool(known.as_ref()),
            &limits,
        );
        let Ok(SplitArguments { guarded: first, rest }) = sorted else {
            return self.refuse(&replay.name, &CursorError::Invalid.to_string());
        };
        let own = rest.as_deref().unwrap_or(arguments);
        let name = if self.cx.upstream.is_empty() {
            crate::endpoint(&replay.upstream, &replay.name)
        } else {
            replay.name.clone()
        };
        let call = [b"\"name\":".as_slice(), &quoted(&name), b",\"arguments\":", own].concat();
        let meta =
            self.request.meta.as_ref().map_or_else(Vec::new, |meta| {
                [b",\"_meta\":{".as_slice(), &meta.rest, b"}"].concat()
            });
        let message = [
            b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
            self.id,
            b",\"method\":\"tools/call\",\"params\":{",
            &call,
            &meta,
            b"}}",
        ]
        .concat();
        let asked = |guarded: GuardArguments| ParsedRequest {
            options: guarded.options,
            query: guarded.query,
        };
        let ticket = Ticket::Replay(Box::new(ReplayTicket {
            id: self.id.to_vec(),
            stateless: self.envelope().stateless,
            structured,
            cursor: cursor.into(),
            arguments: hash(own),
            first: asked(first),
            now: asked(now),
            budget: self.budget(),
            output: tool.output,
            renamed: tool.renamed,
            replay,
        }));
        Plan::Forward { message: Some(message), ticket: ticket.to_bytes() }
    }

    pub(super) fn resource(&self) -> Plan {
        let Some(uri) = self.request.name.as_deref() else { return pass() };
        match uri.strip_prefix(READ_URI) {
            Some(cursor) => {
                let guarded =
                    GuardArguments { cursor: Some(cursor.to_owned()), ..GuardArguments::default() };
                self.serve(self.reader(READ_TOOL).read(&guarded, self.loaded), uri)
            }
            None if self.settings_for(uri).shape => {
                self.forward(uri, None, &GuardArguments::default(), CalledTool::default())
            }
            None => pass(),
        }
    }

    /// Sends the request on, without the guard's arguments and `_meta` members.
    pub(super) fn forward(
        &self,
        name: &str,
        arguments: Option<Vec<u8>>,
        guarded: &GuardArguments,
        tool: CalledTool,
    ) -> Plan {
        let hash = self.arguments_hash(arguments.as_deref());
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
            options: guarded.options,
            query: guarded.query.clone(),
            budget: self.budget(),
            output: tool.output,
            renamed: tool.renamed,
            read_only: tool.read_only,
            replay: self.replay(name, tool),
        };
        let message = (!edits.is_empty()).then(|| edits.apply(self.message));
        Plan::Forward { message, ticket: ticket.to_bytes() }
    }

    /// The call as a cursor may carry it: of a tool that changes nothing, with arguments that are not too long.
    fn replay(&self, name: &str, tool: CalledTool) -> Option<Replay> {
        let arguments = std::str::from_utf8(self.arguments()).ok()?;
        (tool.read_only
            && self.request.method == "tools/call"
            && arguments.len() <= MAX_REPLAY_ARGUMENT_BYTES)
            .then(|| Replay {
                upstream: self.cx.upstream.to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            })
    }

    /// Answers with what was read.
    fn serve(&self, read: Result<PartRead, ReadError>, name: &str) -> Plan {
        let read = match read {
            Ok(read) => read,
            Err(ReadError::Load(keys)) => return Plan::Load(keys),
            // What the store no longer has, and what cannot be asked for there now, look the same.
            Err(ReadError::Cursor(CursorError::Expired)) if self.cx.store_unavailable => {
                return self.refuse(name, &CursorError::Unavailable.to_string());
            }
            Err(ReadError::Cursor(error)) => return self.refuse(name, &error.to_string()),
            Err(ReadError::Replay(..)) => return self.refuse(name, TOOL_CURSOR_ERROR),
            Err(ReadError::InvalidRequest(reason)) => return self.refuse(name, &reason),
        };
        let resource = (self.request.method != "tools/call").then_some(name);
        let ServedPart { message, record } =
            part(&self.envelope(), &read, self.cx.upstream, resource);
        let ttl_ms = 2 * self.settings_for("").cursor_ttl_ms;
        Plan::Answer { message, entries: read.entries, extend: read.extend, ttl_ms, record }
    }

    /// Answers with an error that the caller can act on.
    fn refuse(&self, name: &str, reason: &str) -> Plan {
        let message = if self.request.method == "tools/call" {
            self.envelope().tool_error(reason)
        } else {
            self.envelope().error(CURSOR_ERROR_CODE, reason)
        };
        let limits = self.settings_for(name);
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

/// A hash of arguments, however they are spaced.
fn hash(arguments: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(&minify(arguments))
}
