//! The entry points: a request, and a response.

mod call;
mod replay;
mod ticket;

use thiserror::Error;

use call::{Call, CalledTool};

use crate::blocks;
use crate::json::scan::{ScanError, is_json};
use crate::json::text::Form;
use crate::mcp::answer::Answer;
use crate::mcp::arguments::GuardArguments;
use crate::mcp::catalog::{self, READ_TOOL_RENAMED};
use crate::mcp::cost::AnswerCost;
use crate::mcp::request::Request;
use crate::mcp::shape_answer;
use crate::mcp::tool_info::OutputSchema;
use crate::policy::{CursorMode, Policy};
use crate::record::{Loss, Record};
use crate::shape::context::ShapeContext;
use crate::shape::notice::READ_TOOL;
use crate::shape::render::SchemaConstraint;
use crate::snapshot::stored::{Entry, Loaded};
use crate::snapshot::{Keys, Scope};
use ticket::Ticket;

/// The largest message that is shaped, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// How long facts on a tool are kept, in milliseconds: as long as a client may go without listing tools again.
pub const TOOL_INFO_TTL_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// Why the guard could not do its work on a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Not JSON or not UTF-8, at this byte.
    #[error("the message is not JSON at byte {0}")]
    Malformed(u64),
    /// Nested deeper than the guard follows.
    #[error("the message is nested too deep")]
    TooDeep,
    /// Longer than the guard takes, in bytes.
    #[error("the message is longer than {0} bytes")]
    TooLarge(u64),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Syntax(at) => Fault::Malformed(at as u64),
            ScanError::TooDeep => Fault::TooDeep,
        }
    }
}

/// Who asks, through what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// What snapshots and cursors are bound to.
    pub principal: &'a str,
    /// The upstream's name, part of the endpoint; may be empty.
    pub upstream: &'a str,
    /// The MCP revision in use; empty where the host does not know.
    pub protocol_version: &'a str,
    /// The store cannot be reached: nothing is written to it, and every stored value counts as absent.
    pub store_unavailable: bool,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Fetch these keys, and ask again with all that was fetched so far.
    Load(Vec<String>),
    /// Send it on.
    Forward {
        /// The new message; none to send it as it came.
        message: Option<Vec<u8>>,
        /// For the response; empty where that needs no look.
        ticket: Vec<u8>,
    },
    /// Do not send it on: this is the answer.
    Answer {
        /// The response.
        message: Vec<u8>,
        /// What to put into the store, and for how long in milliseconds.
        entries: Vec<Entry<'static>>,
        /// Keys to keep as long again.
        extend: Vec<String>,
        /// How long, in milliseconds.
        ttl_ms: u64,
        /// What was done.
        record: Record,
    },
}

/// What to do with a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped<'a> {
    /// The new message; none to send it as it came.
    pub message: Option<Vec<u8>>,
    /// What must be in the store before the message is sent.
    pub entries: Vec<Entry<'a>>,
    /// How long to keep it, in milliseconds.
    pub ttl_ms: u64,
    /// Whether the message may only be sent if that is kept. What is learnt of tools may be lost.
    pub must_be_stored: bool,
    /// What was done.
    pub record: Record,
}

/// A policy and the live keys.
pub struct Guard {
    policy: Policy,
    keys: Keys,
}

impl Guard {
    /// A guard.
    #[must_use]
    pub fn new(policy: Policy, keys: Keys) -> Self {
        Self { policy, keys }
    }

    /// Looks at a request. Call again with all that was loaded so far when the answer is [`Plan::Load`].
    ///
    /// # Errors
    /// Where the message is no JSON.
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
        match request.method.as_str() {
            "tools/list" => Ok(Plan::Forward {
                message: None,
                ticket: Ticket::Tools { first: !request.continues }.to_bytes(),
            }),
            "tools/call" => Ok(call.tool()),
            "resources/read" => Ok(call.resource()),
            "tasks/result" => Ok(call.forward(
                "tasks/result",
                None,
                &GuardArguments::default(),
                CalledTool { output: OutputSchema::Closed, ..CalledTool::default() },
            )),
            _ => Ok(pass()),
        }
    }

    /// Looks at the response to a request that was forwarded with this ticket.
    ///
    /// # Errors
    /// [`Fault`]. Then the host decides what becomes of the message.
    pub fn on_response<'m>(
        &self,
        cx: &Context<'_>,
        ticket: &[u8],
        message: &'m [u8],
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        check(message)?;
        match Ticket::from_bytes(ticket).ok_or_else(|| {
            Fault::Other("a ticket that this version of the guard did not give".to_owned())
        })? {
            Ticket::Tools { first } => self.tools(cx, message, first),
            Ticket::Replay(replayed) => self.replayed(cx, *replayed, message, now_ms),
            Ticket::Answer {
                name,
                arguments,
                options,
                query,
                budget,
                output,
                renamed,
                read_only,
                replay,
            } => {
                let limits = self.policy.settings_for(cx.upstream, &name);
                let endpoint = crate::endpoint(cx.upstream, &name);
                let context = ShapeContext {
                    limits: &limits,
                    keys: &self.keys,
                    scope: Scope { principal: cx.principal, endpoint: &endpoint },
                    name: &name,
                    arguments,
                    options,
                    query: &query,
                    budget,
                    is_transformed: false,
                    now_ms,
                    read_tool: read_tool(renamed),
                    schema_constraint: schema_constraint(output),
                    replay: replay.as_ref().filter(|_| {
                        cx.store_unavailable || limits.cursor_mode == CursorMode::Replay
                    }),
                };
                let mut shaped = answer(&context, message)?;
                shaped.record.read_only = read_only;
                shaped.record.response_mode = query.mode;
                if context.replay.is_some() {
                    shaped.entries.clear();
                }
                Ok(shaped)
            }
        }
    }

    fn tools<'m>(
        &self,
        cx: &Context<'_>,
        message: &'m [u8],
        first: bool,
    ) -> Result<Shaped<'m>, Fault> {
        let base = self.policy.settings_for(cx.upstream, "tools/list");
        let price =
            |message: &[u8]| crate::tokens::Original::price(&base.estimator, message, Form::Raw);
        let original = price(message);
        let mut record = Record::unchanged("tools/list", original, message.len(), base.threshold);
        let catalog =
            catalog::shape(message, first, |name| self.policy.settings_for(cx.upstream, name))?;
        let Some(catalog) = catalog.filter(|_| base.shape) else {
            return Ok(unchanged(record));
        };
        let entries = catalog.facts.into_iter().filter_map(|(name, facts)| {
            let endpoint = crate::endpoint(cx.upstream, &name);
            let key = self
                .keys
                .tool(Scope { principal: cx.principal, endpoint: &endpoint })
                .into_iter()
                .next()?;
            Some(Entry { key, value: facts.to_bytes().into() })
        });
        record.mode = "catalog".to_owned();
        record.loss = Loss::Lossless;
        record.estimated_tokens = price(&catalog.message).tokens;
        record.response_bytes = catalog.message.len() as u64;
        Ok(Shaped {
            entries: entries.collect(),
            message: Some(catalog.message),
            ttl_ms: TOOL_INFO_TTL_MS,
            must_be_stored: false,
            record,
        })
    }
}

fn read_tool(renamed: bool) -> &'static str {
    if renamed { READ_TOOL_RENAMED } else { READ_TOOL }
}

/// What an output schema leaves room for.
fn schema_constraint(output: OutputSchema) -> SchemaConstraint {
    match output {
        OutputSchema::Free => SchemaConstraint::None,
        OutputSchema::Open => SchemaConstraint::AllowsExtra,
        OutputSchema::Closed | OutputSchema::Widened => SchemaConstraint::Closed,
    }
}

fn pass() -> Plan {
    Plan::Forward { message: None, ticket: Vec::new() }
}

fn unchanged(record: Record) -> Shaped<'static> {
    Shaped { message: None, entries: Vec::new(), ttl_ms: 0, must_be_stored: false, record }
}

fn check(message: &[u8]) -> Result<(), Fault> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(Fault::TooLarge(MAX_MESSAGE_BYTES as u64));
    }
    // Most messages are all ASCII.
    let ascii = blocks::ascii(message);
    simdutf8::compat::from_utf8(message.get(ascii..).unwrap_or_default())
        .map(drop)
        .map_err(|error| Fault::Malformed((ascii + error.valid_up_to()) as u64))
}

fn answer<'m>(context: &ShapeContext<'_>, message: &'m [u8]) -> Result<Shaped<'m>, Fault> {
    let limits = context.limits;
    let found = Answer::read(message)?;
    let cost = AnswerCost::new(context, message, &found);
    let budget = limits.budget_for(context.options.pages, context.budget);
    let total = cost.total();
    let mut record =
        Record::unchanged(context.scope.endpoint, total, message.len(), budget.threshold);
    let shapeable = limits.shape && found.complete && found.result.is_some();
    let shaped = shapeable
        .then(|| shape_answer::shape(context, message, &found, &cost, budget.allowance()))
        .flatten();
    let Some(shaped) = shaped else {
        return Ok(unchanged(record));
    };
    debug_assert!(
        is_json(&shaped.message, Form::Raw) || !is_json(message, Form::Raw),
        "what was JSON still is"
    );
    record.mode = shaped.mode.to_owned();
    record.loss = shaped.loss;
    record.item_count = shaped.items;
    record.estimated_tokens = shaped.tokens;
    record.response_bytes = shaped.message.len() as u64;
    Ok(Shaped {
        message: Some(shaped.message),
        entries: shaped.entries,
        ttl_ms: 2 * limits.cursor_ttl_ms,
        must_be_stored: true,
        record,
    })
}
