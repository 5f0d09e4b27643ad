//! Cursors of answers that are kept nowhere: the call is made again, and what it answers must be what it answered (requirements, replay).

use super::ticket::{ParsedRequest, ReplayTicket};
use super::{Context, Fault, Guard, Shaped, answer, read_tool, schema_constraint};
use crate::mcp::arguments::GuardArguments;
use crate::mcp::read::{ReadError, SnapshotReader};
use crate::mcp::reply::Envelope;
use crate::mcp::serve_part::{ServedPart, part};
use crate::record::Record;
use crate::shape::context::ShapeContext;
use crate::snapshot::{Cursor, CursorError, Loaded, Scope};
use crate::tokens::Original;

/// The longest arguments that a cursor carries, in bytes: a cursor costs tokens each time it is shown.
pub(super) const MAX_REPLAY_ARGUMENT_BYTES: usize = 1_024;

/// What is said where a query finds more than fits, and nothing can be kept for its next page.
const RESULT_TOO_LARGE_ERROR: &str = "what this finds does not fit in one answer, and nothing is kept here that could be read on in. PageRequest for less: fewer fields, a smaller limit, a stricter where or grep.";

impl Guard {
    /// Reads on in what an upstream has answered again.
    pub(super) fn replayed<'m>(
        &self,
        cx: &Context<'_>,
        ticket: ReplayTicket,
        message: &'m [u8],
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        let ReplayTicket { replay, arguments, first, now, budget, output, renamed, .. } = &ticket;
        let limits = self.policy.settings_for(&replay.upstream, &replay.name);
        let endpoint = crate::endpoint(&replay.upstream, &replay.name);
        let context = ShapeContext {
            limits: &limits,
            keys: &self.keys,
            scope: Scope { principal: cx.principal, endpoint: &endpoint },
            name: &replay.name,
            arguments: *arguments,
            options: first.options,
            query: &first.query,
            budget: *budget,
            is_transformed: false,
            now_ms,
            read_tool: read_tool(*renamed),
            schema_constraint: schema_constraint(*output),
            replay: Some(replay),
        };
        let shaped = answer(&context, message)?;
        if shaped.message.is_none() && failed(message) {
            return Ok(Shaped { entries: Vec::new(), ..shaped });
        }
        let original = Original { tokens: shaped.record.original_tokens, ..Original::default() };
        let again: Loaded = shaped
            .entries
            .into_iter()
            .map(|entry| (entry.key, Some(entry.value.into_owned())))
            .collect();
        let envelope = Envelope { id: &ticket.id, stateless: ticket.stateless };
        let cursor = Cursor::from(ticket.cursor.clone());
        let refuse = |reason: &str| {
            let message = envelope.tool_error(reason);
            let record = Record {
                mode: "error".to_owned(),
                ..Record::unchanged(&endpoint, original, message.len(), limits.threshold)
            };
            Shaped {
                message: Some(message),
                entries: Vec::new(),
                ttl_ms: 0,
                must_be_stored: false,
                record,
            }
        };
        if !again.contains_key(&cursor.snapshot) {
            return Ok(refuse(&CursorError::Changed.to_string()));
        }
        let reader = SnapshotReader {
            policy: &self.policy,
            keys: &self.keys,
            principal: cx.principal,
            upstream: &replay.upstream,
            endpoint: Some(&replay.name),
            structured: ticket.structured,
            schema_constraint: schema_constraint(*output),
            read_tool: read_tool(*renamed),
            budget: *budget,
            now_ms,
            replay: Some(replay),
        };
        let ParsedRequest { options, query } = now.clone();
        // Whoever reads has a cursor: one to the whole need not be given again.
        let guarded = GuardArguments { cursor: Some(String::new()), options, query };
        match reader.read_at(cursor, &guarded, &again) {
            Ok(read) if !guarded.query.is_empty() && read.rendered.cursor.is_some() => {
                Ok(refuse(RESULT_TOO_LARGE_ERROR))
            }
            Ok(read) => {
                let ServedPart { message, record } = part(&envelope, &read, &replay.upstream, None);
                Ok(Shaped {
                    message: Some(message),
                    entries: Vec::new(),
                    ttl_ms: 0,
                    must_be_stored: false,
                    record,
                })
            }
            Err(ReadError::InvalidRequest(reason)) => Ok(refuse(&reason)),
            Err(ReadError::Cursor(error)) => Ok(refuse(&error.to_string())),
            Err(ReadError::Load(_) | ReadError::Replay(..)) => {
                Ok(refuse(&CursorError::Changed.to_string()))
            }
        }
    }
}

/// Whether the upstream failed this time: that is told as it is.
fn failed(message: &[u8]) -> bool {
    crate::mcp::answer::Answer::read(message)
        .is_ok_and(|answer| answer.result.is_none() || answer.is_error || !answer.complete)
}
