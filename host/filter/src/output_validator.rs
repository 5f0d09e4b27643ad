//! Rejects guard output that is not a JSON-RPC message, or does not belong to the input message.

use context_guard_protocol::is_same_id;

use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::{Error, Result};
use context_guard_protocol::{Head, Kind};

/// The number of leading bytes of a message that are searched for its id. If the id is not found,
/// the whole message is parsed.
const ID_SEARCH_BYTES: usize = 96;

/// A layer that validates the output of the guard component, so that a faulty component cannot send
/// arbitrary bytes.
pub(super) struct OutputValidator;

impl Layer for OutputValidator {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let output = next.on_request(call)?;
        let is_valid = match &output {
            RequestOutput::Forward { changed, .. } => {
                changed.as_ref().is_none_or(|changed| is_same_request(call.message, changed))
            }
            RequestOutput::Answer(answer, ..) => is_answer(call.message, answer),
        };
        if is_valid { Ok(output) } else { Err(invalid_output()) }
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        let output = next.on_response(call, ticket)?;
        let is_valid = output.shaped.as_ref().is_none_or(|shaped| is_answer(call.message, shaped));
        if is_valid { Ok(output) } else { Err(invalid_output()) }
    }
}

fn invalid_output() -> Error {
    Error::Trap("invalid output: not a message, or not one that fits the request".to_owned())
}

/// Returns true if both requests have the same method and id. `before` is the client's request, and
/// `after` the guard's version. The guard may request the list of tools in place of a call of one
/// of its own tools.
fn is_same_request(before: &[u8], after: &[u8]) -> bool {
    match (Head::read(before), Head::read(after)) {
        (Some(before), Some(after)) => {
            let asks_for_list = before.method() == "tools/call"
                && before.subject().is_some_and(|name| name.starts_with("context_guard_"))
                && after.method() == "tools/list";
            is_same_id(before.raw_id(), after.raw_id())
                && (before.method() == after.method() || asks_for_list)
        }
        _ => false,
    }
}

/// Returns true if `message` is a response under the same id as `other`, which is a request or a
/// response.
fn is_answer(other: &[u8], message: &[u8]) -> bool {
    let Some(answer) = Head::read(message).filter(|head| head.kind() == Some(Kind::Response))
    else {
        return false;
    };
    (answer.result.is_some() || answer.error.is_some()) && has_id(other, answer.raw_id())
}

/// Returns true if a message has the id `id` (raw JSON). First searches the beginning of the
/// message, because most messages have the id there, and parsing large messages is slow.
fn has_id(message: &[u8], id: &str) -> bool {
    let head = message.get(..message.len().min(ID_SEARCH_BYTES)).unwrap_or_default();
    let value_start = memchr::memmem::find(head, b"\"id\"").map(|start| start + b"\"id\"".len());
    let value = value_start
        .and_then(|start| message.get(start..))
        .and_then(|rest| rest.trim_ascii_start().strip_prefix(b":"))
        .map(<[u8]>::trim_ascii_start);
    // Without a delimiter after it, `1` would also match the id `17`.
    let is_delimited = |rest: &[u8]| rest.first().is_some_and(|next| b",} \t\r\n".contains(next));
    value.and_then(|value| value.strip_prefix(id.as_bytes())).is_some_and(is_delimited)
        || Head::read(message).is_some_and(|head| is_same_id(head.raw_id(), id))
}
