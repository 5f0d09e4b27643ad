//! Serves cursors of answers that are not stored: repeats the call, and serves the cursor only if
//! the upstream's answer is unchanged.

use super::ticket::{CalledTool, ParsedRequest, ReplayTicket};
use super::{Context, Fault, Guard, Shaped, shape_response, unchanged};
use crate::mcp::answer::Answer;
use crate::mcp::arguments::GuardArguments;
use crate::mcp::call_environment::CallEnvironment;
use crate::mcp::read::{ReadError, SnapshotReader};
use crate::mcp::reply::Envelope;
use crate::mcp::serve_part::{ServedPart, serve_part};
use crate::record::Record;
use crate::snapshot::{Cursor, CursorError, Loaded};
use crate::tokens::OriginalCost;

/// Maximum size, in bytes, of call arguments that a cursor may include. A model pays for each byte
/// whenever the cursor is shown.
pub(super) const MAX_REPLAY_ARGUMENT_BYTES: usize = 1_024;

/// The error message for a query result that exceeds one answer but cannot be stored for later
/// pages.
const RESULT_TOO_LARGE_ERROR: &str = "the result does not fit in one answer, and is not stored for later pages. Ask for less: fewer fields, a smaller limit, a stricter where or grep.";

impl Guard {
    /// Returns the part of an answer to which a cursor points, from the upstream's response to the
    /// repeated call.
    pub(super) fn on_replayed_response<'m>(
        &self,
        cx: &Context<'_>,
        ticket: &ReplayTicket,
        message: &'m [u8],
        now_ms: u64,
    ) -> Result<Shaped<'m>, Fault> {
        let ReplayTicket { replay, first, output, renamed, .. } = ticket;
        let tool = CalledTool { output: *output, renamed: *renamed, read_only: true };
        let call = CallEnvironment {
            upstream: &replay.upstream,
            replay: Some(replay),
            ..self.environment(cx, tool, ticket.budget, now_ms)
        };
        let endpoint = call.endpoint(&replay.name);
        let context = call.shape_context(&endpoint, ticket.arguments, first.options, &first.query);
        let shaped = shape_response(&context, message, false)?;
        if shaped.message.is_none() && is_failure(message) {
            return Ok(Shaped { entries: Vec::new(), ..shaped });
        }
        let original =
            OriginalCost { tokens: shaped.record.original_tokens, ..OriginalCost::default() };
        // The snapshot's name is a keyed digest of the answer: the same name means the same answer.
        let loaded: Loaded = shaped
            .entries
            .into_iter()
            .map(|entry| (entry.key, Some(entry.value.into_owned())))
            .collect();
        let envelope = Envelope { id: &ticket.id, stateless: ticket.stateless };
        let cursor = Cursor::from(ticket.cursor.clone());
        let snapshot = cursor.snapshot.clone();
        let refuse = |reason: &str, error: Option<CursorError>| {
            let message = envelope.tool_error(reason);
            let threshold = endpoint.settings.threshold;
            let mut record = Record::error(&endpoint.full_name, original, message.len(), threshold);
            record.origin.continues = Some(snapshot.clone());
            record.origin.cursor_error = error.map(CursorError::code);
            Ok(Shaped { message: Some(message), ..unchanged(record) })
        };
        let refuse_cursor = |error: CursorError| refuse(&error.to_string(), Some(error));
        if !loaded.contains_key(&cursor.snapshot) {
            return refuse_cursor(CursorError::Changed);
        }
        let reader =
            SnapshotReader { call, endpoint: Some(&replay.name), structured: ticket.structured };
        let ParsedRequest { options, query } = ticket.now.clone();
        // The caller has a cursor to the whole, so the answer need not repeat it.
        let guarded = GuardArguments { cursor: Some(String::new()), since: None, options, query };
        match reader.read_at(cursor, &guarded, &loaded) {
            Ok(read) if !guarded.query.is_empty() && read.rendered.cursor.is_some() => {
                refuse(RESULT_TOO_LARGE_ERROR, None)
            }
            Ok(read) => {
                let ServedPart { message, record } = serve_part(&envelope, &read, None);
                Ok(Shaped { message: Some(message), ..unchanged(record) })
            }
            Err(ReadError::InvalidRequest(reason)) => refuse(&reason, None),
            Err(ReadError::Cursor(error)) => refuse_cursor(error),
            Err(ReadError::Load(_) | ReadError::Replay(..) | ReadError::Reference(..)) => {
                refuse_cursor(CursorError::Changed)
            }
        }
    }
}

/// Returns true if the repeated call failed or needs further input. The client then gets the
/// upstream's response unchanged.
fn is_failure(message: &[u8]) -> bool {
    Answer::read(message)
        .is_ok_and(|answer| answer.result.is_none() || answer.is_error || !answer.complete)
}
