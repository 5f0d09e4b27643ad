//! The entry points for requests and responses.

mod call;
mod catalogue_call;
mod fault;
mod jq_build;
mod replay;
mod stored_read;
mod ticket;
mod tool_list;
mod tool_name;
mod unreadable;
mod upstream_catalogue;

use context_guard_protocol::answer::is_valid_json;

use self::call::Call;
pub use self::fault::Fault;
pub use self::jq_build::JqBuild;
pub use self::stored_read::StoredRead;
use self::ticket::{CalledTool, Ticket};

use crate::blocks;
use crate::catalogue::{LINT_METHOD, ROUTE_METHOD};
use crate::encoding::Stored;
use crate::json::scan::{Scanner, is_json};
use crate::json::text::Form;
use crate::mcp::answer::Answer;
use crate::mcp::arguments::GuardArguments;
use crate::mcp::call_environment::CallEnvironment;
use crate::mcp::catalog;
use crate::mcp::cost::AnswerCost;
use crate::mcp::request::Request;
use crate::mcp::shape_answer;
use crate::mcp::tool_info::OutputSchema;
use crate::policy::{CursorMode, Policy};
use crate::record::Record;
use crate::shape::context::ShapeContext;
use crate::snapshot::Keys;
use crate::snapshot::stored::{Entry, Loaded, snapshots};

/// True if this build answers for catalogues of tools. In other builds, the linker removes the code
/// that only catalogues need.
const HAS_CATALOGUE: bool = cfg!(feature = "catalogue");

/// Maximum size, in bytes, of a message that the guard processes.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Lifetime of stored tool information, in milliseconds: as long as that of a session.
pub const TOOL_INFO_TTL_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// The caller and the upstream of a request, as the host knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The identity of the caller, to which snapshots and cursors are bound.
    pub principal: &'a str,
    /// The name of the upstream MCP server, a part of endpoint names. May be empty.
    pub upstream: &'a str,
    /// The MCP revision of the connection; empty if the host does not know it.
    pub protocol_version: &'a str,
    /// The name in the client's `clientInfo`; empty if the host does not know it.
    pub client_name: &'a str,
    /// True if answers go to a program, not to a model. The guard then counts their tokens and does
    /// not shape them.
    pub only_count: bool,
    /// True if the store cannot be reached, or a local substitute replaces it. Cursors of read-only
    /// tools then repeat the upstream call, and a missing entry is reported as unavailable, not as
    /// expired.
    pub store_unavailable: bool,
    /// The version of the tool catalogue, if the request is for the catalogue of all upstreams.
    /// Empty for requests to one upstream.
    pub catalogue_version: &'a str,
    /// A text that distinguishes upstreams of the same name, if clients see the tools of this
    /// upstream alone. The guard then stores a catalogue of these tools. `None` if the host merges
    /// the upstream's list with others.
    pub lists_tools: Option<&'a str>,
    /// True if the host reads the list of tools for itself. The list then remains in full.
    pub full_list: bool,
    /// The state of the host's other build of the core, which has jq. No effect in a build with jq.
    pub jq_build: JqBuild<'a>,
}

/// The guard's decision about a client's request: the next step for the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The host must load the store entries with these keys, and call [`Guard::on_request`] again
    /// with all entries loaded so far.
    Load(Vec<String>),
    /// The host forwards the request to the upstream, and passes the response to
    /// [`Guard::on_response`].
    Forward {
        /// The rewritten request; `None` to forward the client's request unchanged.
        message: Option<Vec<u8>>,
        /// Opaque bytes to pass to [`Guard::on_response`] with the upstream's response. Empty if
        /// the guard need not see that response.
        ticket: Vec<u8>,
        /// The endpoints of the stored answers whose values replaced references in the arguments,
        /// without duplicates.
        references: Vec<String>,
    },
    /// The host answers the request without calling the upstream.
    Answer {
        /// The JSON-RPC response to send to the client.
        message: Vec<u8>,
        /// Entries to put into the store, before the response is sent.
        entries: Vec<Entry<'static>>,
        /// Keys of stored entries whose time to live the host renews.
        extend: Vec<String>,
        /// The time to live of `entries` and of the entries in `extend`, in milliseconds.
        ttl_ms: u64,
        /// The telemetry record of this decision.
        record: Record,
    },
}

/// The guard's decision about an upstream's response: the message for the client, and the entries
/// to store.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped<'a> {
    /// The new message for the client; `None` to send the upstream's response unchanged.
    pub message: Option<Vec<u8>>,
    /// Entries to store before the message is sent.
    pub entries: Vec<Entry<'a>>,
    /// The time to live of the entries, in milliseconds.
    pub ttl_ms: u64,
    /// True if the message must not be sent unless the entries are stored, because cursors in the
    /// message point to them. False for tool information, whose loss is harmless.
    pub must_be_stored: bool,
    /// The telemetry record of this decision.
    pub record: Record,
}

/// The guard: a policy and the live signing keys.
///
/// ```
/// use context_guard_core::policy::compile;
/// use context_guard_core::snapshot::Keys;
/// use context_guard_core::snapshot::stored::Loaded;
/// use context_guard_core::{Context, Guard, Plan};
///
/// let policy = compile("").unwrap().policy;
/// let keys = Keys::new([b"at least 16 bytes".as_slice()]).unwrap();
/// let guard = Guard::new(policy, keys);
/// let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// let plan = guard.on_request(&Context::default(), request, &Loaded::new(), 0).unwrap();
/// assert!(matches!(plan, Plan::Forward { message: None, .. }));
/// ```
pub struct Guard {
    policy: Policy,
    keys: Keys,
}

impl Guard {
    /// Creates a guard from a policy and the live signing keys.
    #[must_use]
    pub fn new(policy: Policy, keys: Keys) -> Self {
        Self { policy, keys }
    }

    /// Decides how the host proceeds with a client's request. `now_ms` is the time in milliseconds
    /// since 1970. After [`Plan::Load`], the host calls this method again with all entries loaded
    /// so far.
    ///
    /// # Errors
    /// Returns [`Fault`] if the message is too large, not UTF-8 or not JSON, or if another build
    /// of the core must decide ([`Fault::NeedsJq`]).
    pub fn on_request(
        &self,
        cx: &Context<'_>,
        message: &[u8],
        loaded: &Loaded,
        now_ms: u64,
    ) -> Result<Plan, Fault> {
        check(message)?;
        let request = Request::read(message)?;
        let Some(id) = request.id.clone().and_then(|span| message.get(span)) else {
            return Ok(pass());
        };
        let call = Call { guard: self, cx, message, request: &request, loaded, now_ms, id };
        let mut plan = match request.method.as_str() {
            "tools/list" | "tools/call" | ROUTE_METHOD | LINT_METHOD
                if HAS_CATALOGUE && !cx.catalogue_version.is_empty() =>
            {
                self.catalogue_request(&call)
            }
            "tools/list" => Plan::Forward {
                message: None,
                ticket: Ticket::Tools { first: !request.continues, stateless: request.stateless }
                    .to_bytes(),
                references: Vec::new(),
            },
            "tools/call" if HAS_CATALOGUE && self.owns_call(&call) => {
                self.upstream_catalogue_call(&call)?
            }
            "tools/call" => self.refuse_hidden(&call).map_or_else(|| call.tool(), Ok)?,
            "resources/read" => call.resource(),
            "tasks/result" => call.forward(
                "tasks/result",
                None,
                &GuardArguments::default(),
                CalledTool { output: OutputSchema::Closed, ..CalledTool::default() },
            ),
            _ => pass(),
        };
        // A part of a stored answer may have damage that the first page did not show.
        if let Plan::Answer { message, .. } = &mut plan
            && !is_valid_json(message)
        {
            *message = unreadable::repair(message, id);
        }
        Ok(plan)
    }

    /// Reduces an upstream's response to its token budget. `ticket` is from the [`Plan::Forward`]
    /// of the request.
    ///
    /// # Errors
    /// Returns [`Fault`] if the response cannot be processed. The host then decides what the client
    /// gets.
    pub fn on_response<'m>(
        &self,
        cx: &Context<'_>,
        ticket: &[u8],
        message: &'m [u8],
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        check(message)?;
        let ticket = Ticket::from_bytes(ticket).ok_or_else(|| {
            Fault::Other("the ticket was issued by another version of the guard".to_owned())
        })?;
        if ticket.needs_jq() && cx.jq_build == JqBuild::Loadable {
            return Err(Fault::NeedsJq);
        }
        match ticket {
            Ticket::Tools { first, stateless } => self.tools(cx, message, first, stateless, now_ms),
            Ticket::Catalogue { call: Some(call), id, stateless }
                if HAS_CATALOGUE && cx.catalogue_version.is_empty() =>
            {
                self.on_fetched_list(cx, &call, &id, stateless, message, now_ms)
            }
            Ticket::Catalogue { call, id, stateless } if HAS_CATALOGUE => {
                self.on_merged_list(cx, call.as_deref(), &id, stateless, message)
            }
            Ticket::Catalogue { .. } => {
                Err(Fault::Other("this build of the guard has no tool catalogue".to_owned()))
            }
            Ticket::Replay(ticket) => self.on_replayed_response(cx, &ticket, message, now_ms),
            Ticket::Answer { name, arguments, options, query, since, budget, tool, replay } => {
                let mut call = self.environment(cx, tool, budget, now_ms);
                let endpoint = call.endpoint(&name);
                let stores_nothing =
                    cx.store_unavailable || endpoint.settings.cursor_mode == CursorMode::Replay;
                call.replay = replay.as_ref().filter(|_| stores_nothing);
                let context = ShapeContext {
                    since: since.as_ref(),
                    ..call.shape_context(&endpoint, arguments, options, &query)
                };
                let shaped = shape_response(&context, message, cx.only_count);
                let mut shaped = match shaped.and_then(checked(message)) {
                    Ok(shaped) => shaped,
                    Err(fault) => {
                        shape_unreadable(&context, message, &fault, &name).ok_or(fault)?
                    }
                };
                shaped.record.read_only = tool.read_only;
                shaped.record.response_mode = query.mode;
                if call.replay.is_some() {
                    shaped.entries.clear();
                }
                Ok(shaped)
            }
        }
    }

    /// Creates the inputs for shaping the answer of `tool`. `budget` is the token budget that the
    /// caller requests, if any.
    fn environment<'g>(
        &'g self,
        cx: &Context<'g>,
        tool: CalledTool,
        budget: Option<u64>,
        now_ms: u64,
    ) -> CallEnvironment<'g> {
        CallEnvironment {
            policy: &self.policy,
            keys: &self.keys,
            principal: cx.principal,
            upstream: cx.upstream,
            client_name: cx.client_name,
            schema_constraint: tool.output.constraint(),
            read_tool: catalog::read_tool_name(tool.renamed),
            budget,
            now_ms,
            replay: None,
        }
    }
}

/// Returns a plan to forward the request unchanged, without passing its response to the guard.
fn pass() -> Plan {
    Plan::Forward { message: None, ticket: Vec::new(), references: Vec::new() }
}

fn unchanged(record: Record) -> Shaped<'static> {
    Shaped { message: None, entries: Vec::new(), ttl_ms: 0, must_be_stored: false, record }
}

/// Returns an error unless the message is UTF-8 of at most [`MAX_MESSAGE_BYTES`].
fn check(message: &[u8]) -> Result<(), Fault> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(Fault::TooLarge(MAX_MESSAGE_BYTES as u64));
    }
    // Most messages are ASCII throughout, and skipping ASCII is cheaper than validating UTF-8.
    let ascii = blocks::ascii_prefix_length(message);
    simdutf8::compat::from_utf8(message.get(ascii..).unwrap_or_default())
        .map(drop)
        .map_err(|error| Fault::Malformed((ascii + error.valid_up_to()) as u64))
}

/// Returns a function that fails if the message to send in place of `message` is not valid JSON.
/// Shaping skips parts of an answer without reading them, and accepts any character in strings.
fn checked<'m>(message: &'m [u8]) -> impl FnOnce(Shaped<'m>) -> Result<Shaped<'m>, Fault> {
    move |shaped| {
        if is_valid_json(shaped.message.as_deref().unwrap_or(message)) {
            return Ok(shaped);
        }
        let mut scanner = Scanner::new(message, Form::Raw);
        let scanned = scanner.skip_value().and_then(|_| scanner.end());
        Err(scanned.err().map_or(Fault::InvalidString, Fault::from))
    }
}

/// Shapes an answer that cannot be parsed, as a text. Returns `None` if it has no id. Valid JSON
/// within its budget passes unchanged, as without the guard.
fn shape_unreadable<'m>(
    context: &ShapeContext<'_>,
    message: &'m [u8],
    fault: &Fault,
    uri: &str,
) -> Option<Shaped<'m>> {
    let settings = context.limits;
    let budget = settings.budget_for(context.options.pages, context.budget);
    let cost = settings.estimator.cost(message);
    if cost <= budget.allowance() && is_valid_json(message) {
        let original =
            crate::tokens::OriginalCost::estimate(&settings.estimator, message, Form::Raw);
        let endpoint = context.scope.endpoint;
        return Some(unchanged(Record::unchanged(
            endpoint,
            original,
            message.len(),
            budget.threshold,
        )));
    }
    let text = unreadable::as_text(message, fault, uri)?;
    let mut shaped = shape_response(context, &text, false).ok().map(unreadable::into_owned)?;
    if shaped.message.is_none() {
        shaped.record.response_bytes = text.len() as u64;
        shaped.message = Some(text);
    }
    Some(shaped)
}

/// Shapes a response, or only counts its tokens if `only_count` is true.
fn shape_response<'m>(
    context: &ShapeContext<'_>,
    message: &'m [u8],
    only_count: bool,
) -> Result<Shaped<'m>, Fault> {
    let settings = context.limits;
    let answer = Answer::read(message)?;
    // A query is for texts alone.
    let reads_data =
        settings.shown.shows_data && context.query.is_empty() && context.since.is_none();
    let answer = if reads_data { answer.with_data_as_text() } else { answer };
    let cost = AnswerCost::new(context, message, &answer);
    let budget = settings.budget_for(context.options.pages, context.budget);
    let total = cost.total();
    let mut record =
        Record::unchanged(context.scope.endpoint, total, message.len(), budget.threshold);
    let is_shaped = settings.shape && !only_count;
    let can_shape = is_shaped && answer.complete && answer.result.is_some();
    let shaped = can_shape
        .then(|| shape_answer::shape(context, message, &answer, &cost, budget.allowance()))
        .flatten();
    let Some(shaped) = shaped else {
        return Ok(unchanged(record));
    };
    debug_assert!(
        is_json(&shaped.message, Form::Raw) || !is_json(message, Form::Raw),
        "shaping JSON gives JSON"
    );
    record.mode = shaped.mode.to_owned();
    record.loss = shaped.loss;
    record.item_count = shaped.items;
    record.estimated_tokens = shaped.tokens;
    record.response_bytes = shaped.message.len() as u64;
    record.origin.snapshots = snapshots(&shaped.entries);
    Ok(Shaped {
        message: Some(shaped.message),
        entries: shaped.entries,
        // A cursor that is issued just before the first half ends lives for its full time.
        ttl_ms: 2 * settings.cursor_ttl_ms,
        must_be_stored: true,
        record,
    })
}
