//! A client's request: forwarded to the upstream without the guard's arguments, or answered.

mod answered;
mod program;
mod referenced;
mod repeated;

use self::program::ArgumentError;
use self::referenced::ForwardedArguments;
use super::replay::MAX_REPLAY_ARGUMENT_BYTES;
use super::ticket::{CalledTool, Ticket};
use super::{Context, Fault, Guard, Plan, pass};
use crate::encoding::Stored;
use crate::fields::minify;
use crate::json::edit::Edits;
use crate::json::scan::Scanner;
use crate::json::text::Form;
use crate::mcp::READ_URI;
use crate::mcp::arguments::{self, ArgumentOwner, GuardArguments, SplitArguments};
use crate::mcp::call_environment::CallEnvironment;
use crate::mcp::catalog::read_tool_name;
use crate::mcp::read::{ReadError, SnapshotReader};
use crate::mcp::reply::Envelope;
use crate::mcp::request::Request;
use crate::mcp::tool_info::{OutputSchema, ToolInfo};
use crate::policy::{EndpointSettings, endpoint_name};
use crate::query::comparison::PreviousAnswer;
use crate::shape::notice::READ_TOOL;
use crate::snapshot::stored::Loaded;
use crate::snapshot::{Cursor, Replay, Scope};
use crate::text::shorten::{TRUNCATION_MARK_PREFIX, has_truncation_mark};

/// The maximum number of arguments that are sorted before they are hashed. The hash of more
/// arguments depends on their order.
const MAX_SORTED_ARGUMENTS: usize = 1_000;

/// The error message for a comparison of answers of a tool that may change something.
const SINCE_NEEDS_READ_ONLY: &str = "since compares answers of read-only tools, and this tool is not known to be one: call it without since, or set readOnly for it in policy";

/// A client's request, with everything else that the guard's decision depends on.
pub(super) struct Call<'a> {
    pub(super) guard: &'a Guard,
    pub(super) cx: &'a Context<'a>,
    pub(super) message: &'a [u8],
    pub(super) request: &'a Request,
    pub(super) loaded: &'a Loaded,
    pub(super) now_ms: u64,
    pub(super) id: &'a [u8],
}

/// The result of looking up the stored information about a tool.
enum ToolLookup {
    /// The host must first load the entries with these keys.
    Load(Vec<String>),
    /// The guard saw the tool in a `tools/list` response.
    Known(ToolInfo),
    /// The guard never saw the tool in a `tools/list` response, or the stored information has
    /// expired.
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

    fn environment(&self, tool: CalledTool) -> CallEnvironment<'_> {
        self.guard.environment(self.cx, tool, self.budget(), self.now_ms)
    }

    /// Returns those of `keys` whose store entries the host has not loaded yet.
    fn missing(&self, keys: &[String]) -> Vec<String> {
        keys.iter().filter(|key| !self.loaded.contains_key(*key)).cloned().collect()
    }

    fn look_up_tool(&self, upstream: &str, name: &str) -> ToolLookup {
        let endpoint = &endpoint_name(upstream, name);
        let keys = self.guard.keys.tool(Scope { principal: self.cx.principal, endpoint });
        let missing = self.missing(&keys);
        if !missing.is_empty() {
            return ToolLookup::Load(missing);
        }
        let info = keys
            .iter()
            .find_map(|key| self.loaded.get(key)?.as_deref().and_then(ToolInfo::from_bytes));
        info.map_or(ToolLookup::Unknown, ToolLookup::Known)
    }

    /// Returns true if the guard saw the tool in the upstream's list. Fails with the keys of
    /// entries that must be loaded first.
    pub(super) fn knows_tool(&self, name: &str) -> Result<bool, Vec<String>> {
        match self.look_up_tool(self.cx.upstream, name) {
            ToolLookup::Load(keys) => Err(keys),
            ToolLookup::Known(_) => Ok(true),
            ToolLookup::Unknown => Ok(false),
        }
    }

    /// Returns the upstream's own name of the tool that clients see as `name`. Fails with the keys
    /// of entries that must be loaded first.
    fn own_name<'n>(&'n self, name: &'n str) -> Result<&'n str, Vec<String>> {
        let upstream = self.cx.upstream;
        let settings = self.guard.policy.catalogue();
        let Some(own) = settings.and_then(|settings| settings.own_name(upstream, name)) else {
            return Ok(name);
        };
        // A tool of the upstream that has this name itself was listed under it.
        Ok(if self.knows_tool(name)? { name } else { own })
    }

    /// Returns true if policy withholds definitions, so that a tool of an unknown definition must
    /// not be called.
    fn needs_definition(&self, name: &str) -> bool {
        let Some(settings) = self.guard.policy.catalogue() else { return false };
        let cx = self.cx;
        settings.holds_any()
            && cx.lists_tools.is_some()
            && !cx.store_unavailable
            && self.guard.policy.settings_for(cx.upstream, "tools/list").shape
            && !settings.is_trusted(&endpoint_name(cx.upstream, name))
    }

    /// Returns the plan for a `tools/call` request.
    ///
    /// # Errors
    /// Returns [`Fault::NeedsJq`] if another build of the core must decide.
    pub(super) fn tool(&self) -> Result<Plan, Fault> {
        let Some(visible) = self.request.name.as_deref() else { return Ok(pass()) };
        let upstream = self.cx.upstream;
        let name = match self.own_name(visible) {
            Ok(name) => name,
            Err(keys) => return Ok(Plan::Load(keys)),
        };
        // The name of the guard's own tool depends on whether the upstream has a tool of that name.
        let (info, namesake) =
            match (self.look_up_tool(upstream, name), self.look_up_tool(upstream, READ_TOOL)) {
                (ToolLookup::Load(mut keys), ToolLookup::Load(more)) => {
                    keys.extend(more.into_iter().filter(|_| name != READ_TOOL));
                    return Ok(Plan::Load(keys));
                }
                (ToolLookup::Load(keys), _) | (_, ToolLookup::Load(keys)) => {
                    return Ok(Plan::Load(keys));
                }
                (info, namesake) => (info, namesake),
            };
        let renamed = matches!(namesake, ToolLookup::Known(_));
        if name == read_tool_name(renamed) {
            return self.read_tool(name, renamed);
        }
        let info = match info {
            ToolLookup::Known(info) => Some(info),
            _ => None,
        };
        if info.as_ref().is_some_and(|info| info.held) {
            return Ok(self.unknown_tool(visible));
        }
        if info.is_none() && self.needs_definition(name) {
            return Ok(self.fetch_list());
        }
        let settings = self.settings_for(name);
        if !settings.shape {
            return Ok(self.pass_as(name));
        }
        if settings.refuse_marks && self.has_truncation_marks() {
            return Ok(self.refuse(name, &referenced::truncation_mark_error(&settings)));
        }
        let split = match self.split_arguments(ArgumentOwner::Tool(info.as_ref()), &settings) {
            Ok(split) => split,
            Err(error) => return self.refuse_arguments(name, error),
        };
        let hint = info.as_ref().is_some_and(|info| info.read_only);
        let read_only = settings.read_only.unwrap_or(hint);
        let output = info.map_or(OutputSchema::Free, |info| info.output);
        let tool = CalledTool { output, renamed, read_only };
        let SplitArguments { guarded, separated, rest } = split;
        let reader =
            SnapshotReader { call: self.environment(tool), endpoint: Some(name), structured: true };
        if guarded.cursor.is_some() {
            return match reader.read(&guarded, self.loaded) {
                Err(ReadError::Replay(cursor, replay)) => {
                    self.replay_call(&cursor, replay, guarded, tool, true)
                }
                read => Ok(self.serve(read, name)),
            };
        }
        let (rest, references) = match self.resolve_references(name, &settings, renamed, rest) {
            Ok(resolved) => resolved,
            Err(error) => return Ok(self.serve(Err(error), name)),
        };
        let may_be_stored = guarded.query.refers_back() || (read_only && !guarded.query.is_empty());
        if may_be_stored
            && let Some(plan) = self.stored_answer(&reader, &guarded, name, rest.as_deref())
        {
            return Ok(plan);
        }
        let since = match guarded.since.as_deref() {
            Some(_) if !read_only => return Ok(self.refuse(name, SINCE_NEEDS_READ_ONLY)),
            Some(since) => match reader.previous_answer(
                since,
                self.arguments_hash(rest.as_deref()),
                self.loaded,
            ) {
                Ok(since) => since,
                Err(error) => return Ok(self.serve(Err(error), name)),
            },
            None => None,
        };
        let arguments = ForwardedArguments { rest, separated, references };
        Ok(self.forward_with(name, arguments, &guarded, since, tool))
    }

    /// Returns a plan that answers from the stored answer of an earlier call with the same
    /// arguments. `rest` holds the tool's arguments if guard arguments were removed from them.
    /// `None` if no such answer is stored, or if a part of it has expired.
    fn stored_answer(
        &self,
        reader: &SnapshotReader<'_>,
        guarded: &GuardArguments,
        name: &str,
        rest: Option<&[u8]>,
    ) -> Option<Plan> {
        let endpoint = reader.call.endpoint(name);
        let keys = self.guard.keys.answer(reader.call.scope(&endpoint), self.arguments_hash(rest));
        let missing = self.missing(&keys);
        if !missing.is_empty() {
            return Some(Plan::Load(missing));
        }
        let snapshot = keys.iter().find_map(|key| self.loaded.get(key)?.as_deref())?;
        let snapshot = std::str::from_utf8(snapshot).ok()?;
        if self.loaded.get(snapshot).is_some_and(Option::is_none) {
            return None;
        }
        let cursor = Cursor::new(snapshot, 0, self.now_ms);
        match reader.read_at(cursor, guarded, self.loaded) {
            // Parts of the snapshot have expired: ask the upstream again.
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

    /// Returns a hash of the tool's own arguments: `rest`, or all arguments of the request if
    /// `rest` is `None`. White space and the order of the arguments do not change the hash. The
    /// order of members inside an argument does.
    fn arguments_hash(&self, rest: Option<&[u8]>) -> u128 {
        hash(rest.unwrap_or(self.arguments()))
    }

    /// Returns the `arguments` of the request verbatim, or `{}` if it has none.
    fn arguments(&self) -> &[u8] {
        let span = self.request.arguments.clone();
        span.and_then(|span| self.message.get(span)).unwrap_or(b"{}")
    }

    /// Returns true if the arguments of the request contain truncation marks. The model then
    /// probably copied them from a shortened answer. False if the argument
    /// [`VERBATIM_ARGUMENT`](arguments::VERBATIM_ARGUMENT) permits marks.
    fn has_truncation_marks(&self) -> bool {
        let bytes = self.arguments();
        memchr::memmem::find(bytes, TRUNCATION_MARK_PREFIX.as_bytes()).is_some()
            && has_truncation_mark(&String::from_utf8_lossy(bytes))
            && !referenced::permits_marks(bytes)
    }

    /// Splits the arguments of the request into those for the guard and those for the tool.
    fn split_arguments(
        &self,
        owner: ArgumentOwner<'_>,
        settings: &EndpointSettings,
    ) -> Result<SplitArguments, ArgumentError> {
        let Some(span) = &self.request.arguments else { return Ok(SplitArguments::default()) };
        let split = arguments::split(self.message, span, owner, settings);
        let split = split.map_err(ArgumentError::Invalid)?;
        self.check_program(&split.guarded.query).map(|()| split)
    }

    /// Returns a reader for snapshots that belong to the principal. `renamed` is true if the
    /// guard's read tool has its alternative name, because an upstream uses the usual one.
    fn reader(&self, renamed: bool) -> SnapshotReader<'_> {
        let call = self.environment(CalledTool { renamed, ..CalledTool::default() });
        SnapshotReader { call, endpoint: None, structured: false }
    }

    /// Returns the plan for a call of the guard's own read tool, `name`. `renamed` is true if that
    /// is its alternative name.
    ///
    /// # Errors
    /// Returns [`Fault::NeedsJq`] if another build of the core must decide.
    fn read_tool(&self, name: &str, renamed: bool) -> Result<Plan, Fault> {
        let guarded = match self.split_arguments(ArgumentOwner::ReadTool, &self.settings_for(name))
        {
            Ok(split) => split.guarded,
            Err(error) => return self.refuse_arguments(name, error),
        };
        if guarded.cursor.is_none() {
            return Ok(self.refuse(
                name,
                "cursor is missing: give the nextCursor of an answer that context-guard cut",
            ));
        }
        match self.reader(renamed).read(&guarded, self.loaded) {
            Err(ReadError::Replay(cursor, replay)) => {
                let tool = CalledTool { renamed, read_only: true, ..CalledTool::default() };
                self.replay_call(&cursor, replay, guarded, tool, false)
            }
            read => Ok(self.serve(read, name)),
        }
    }

    /// Returns the plan for a `resources/read` request.
    pub(super) fn resource(&self) -> Plan {
        let Some(uri) = self.request.name.as_deref() else { return pass() };
        match uri.strip_prefix(READ_URI) {
            Some(cursor) => {
                let cursor = Some(cursor.to_owned());
                let guarded = GuardArguments { cursor, ..GuardArguments::default() };
                self.serve(self.reader(false).read(&guarded, self.loaded), uri)
            }
            None if self.settings_for(uri).shape => {
                self.forward(uri, None, &GuardArguments::default(), CalledTool::default())
            }
            None => pass(),
        }
    }

    /// Returns a plan to forward the request without the guard's `_meta` members. `guarded` are the
    /// guard's arguments. `arguments` are the tool's arguments if any of the guard's were removed,
    /// else `None`.
    pub(super) fn forward(
        &self,
        name: &str,
        arguments: Option<Vec<u8>>,
        guarded: &GuardArguments,
        tool: CalledTool,
    ) -> Plan {
        let arguments = ForwardedArguments { rest: arguments, ..ForwardedArguments::default() };
        self.forward_with(name, arguments, guarded, None, tool)
    }

    /// Returns a plan like [`Call::forward`] that also compares the answer with the earlier answer
    /// `since`.
    fn forward_with(
        &self,
        name: &str,
        arguments: ForwardedArguments,
        guarded: &GuardArguments,
        since: Option<PreviousAnswer>,
        tool: CalledTool,
    ) -> Plan {
        let hash = self.arguments_hash(arguments.rest.as_deref());
        // A repeated call would resolve its references anew.
        let replay =
            self.replay(name, tool, &arguments).filter(|_| arguments.references.is_empty());
        let ForwardedArguments { rest: arguments, references, .. } = arguments;
        let mut edits = Edits::default();
        if self.request.method == "tools/call" {
            self.write_name(name, &mut edits);
        }
        if let (Some(span), Some(rest)) = (&self.request.arguments, arguments) {
            edits.replace(span.clone(), rest);
        }
        if let Some(meta) = self.request.meta.as_ref().filter(|meta| meta.has_guard_members) {
            edits.replace(meta.span.clone(), [b"{".as_slice(), &meta.rest, b"}"].concat());
        }
        let ticket = Ticket::Answer {
            name: name.to_owned(),
            arguments: hash,
            options: guarded.options,
            query: guarded.query.clone(),
            since,
            budget: self.budget(),
            tool,
            replay,
        };
        let message = (!edits.is_empty()).then(|| edits.apply(self.message));
        Plan::Forward { message, ticket: ticket.to_bytes(), references }
    }

    /// Returns this call for inclusion in cursors, or `None` if it may not be repeated. Only calls
    /// of read-only tools with short arguments may be repeated.
    fn replay(
        &self,
        name: &str,
        tool: CalledTool,
        arguments: &ForwardedArguments,
    ) -> Option<Replay> {
        let separated = &arguments.separated;
        let own = arguments.rest.as_deref().unwrap_or(self.arguments());
        let own = std::str::from_utf8(own).ok()?;
        let can_replay = tool.read_only
            && self.request.method == "tools/call"
            && own.len() + separated.len() <= MAX_REPLAY_ARGUMENT_BYTES;
        can_replay.then(|| Replay {
            upstream: self.cx.upstream.to_owned(),
            name: name.to_owned(),
            arguments: own.to_owned(),
            guard_arguments: separated.clone(),
        })
    }
}

/// Returns a hash of JSON arguments. White space and the order of up to [`MAX_SORTED_ARGUMENTS`]
/// arguments do not change it. The order of members inside an argument does.
fn hash(arguments: &[u8]) -> u128 {
    let minified = minify(arguments);
    let mut members: Vec<&[u8]> = Vec::new();
    let mut scanner = Scanner::new(&minified, Form::Raw);
    let scan = scanner.object(|scanner, key| {
        let value = scanner.skip_value()?;
        let member = scanner.bytes(&(key.start - 1..value.end));
        // Tools have few arguments, and the code of a sort is large.
        match members.len() < MAX_SORTED_ARGUMENTS {
            true => members.insert(members.partition_point(|other| *other < member), member),
            false => members.push(member),
        }
        Ok(())
    });
    if scan.is_err() {
        return xxhash_rust::xxh3::xxh3_128(&minified);
    }
    let sorted = [b"{".as_slice(), &members.join(&b','), b"}"].concat();
    xxhash_rust::xxh3::xxh3_128(&sorted)
}
