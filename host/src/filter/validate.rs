//! Whether what a component gives is a message at all, and one to what it was given.

use crate::message::{Head, Kind};

/// Whether a request was changed to one of the same method and id.
pub(super) fn same_request(before: &[u8], after: &[u8]) -> bool {
    match (Head::read(before), Head::read(after)) {
        (Some(before), Some(after)) => {
            before.raw_id() == after.raw_id() && before.method() == after.method()
        }
        _ => false,
    }
}

/// Whether a message is an answer under the id of another, a request or a response.
pub(super) fn is_answer(to: &[u8], message: &[u8]) -> bool {
    let Some(answer) = Head::read(message).filter(|head| head.kind() == Some(Kind::Response))
    else {
        return false;
    };
    (answer.result.is_some() || answer.error.is_some()) && starts_with_id(to, answer.raw_id())
}

/// Whether a message has this id. Most have it at their beginning, so that few are read to their end for it.
fn starts_with_id(message: &[u8], id: &str) -> bool {
    let head = message.get(..message.len().min(96)).unwrap_or_default();
    let at = memchr::memmem::find(head, b"\"id\"").map(|at| at + 4);
    let value = at.and_then(|at| message.get(at..)).map(|rest| rest.trim_ascii_start());
    let near = value.and_then(|rest| rest.strip_prefix(b":")).map(|rest| rest.trim_ascii_start());
    let ends = |rest: &[u8]| rest.first().is_some_and(|next| b",} \t\r\n".contains(next));
    near.and_then(|rest| rest.strip_prefix(id.as_bytes())).is_some_and(ends)
        || Head::read(message).is_some_and(|head| head.raw_id() == id)
}
