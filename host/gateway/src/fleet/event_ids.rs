//! The ids of events, from which a client resumes a stream. Each id begins with the tag of the
//! replica that has the event.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::header::is_event_stream;
use context_guard_protocol::sse::Framer;
use futures_util::stream::{self, StreamExt};
use http::header::CONTENT_TYPE;

use crate::headers::header;

/// Adds `prefix` to the ids of all events in an event-stream response. Returns other responses
/// unchanged.
pub(crate) fn with_owner(response: Response, prefix: &str) -> Response {
    if prefix.is_empty() || !is_event_stream(header(response.headers(), CONTENT_TYPE)) {
        return response;
    }
    let prefix = prefix.to_owned();
    let (head, body) = response.into_parts();
    let state = (body.into_data_stream(), Framer::default(), prefix, false);
    let body = stream::unfold(state, |(mut body, mut framer, prefix, is_over)| async move {
        if is_over {
            return None;
        }
        loop {
            let mut ready = Vec::new();
            while let Some(event) = framer.next_event() {
                ready.extend(prefixed(event.0, &prefix));
            }
            if !ready.is_empty() {
                return Some((Ok::<_, Infallible>(ready.into()), (body, framer, prefix, false)));
            }
            match body.next().await {
                Some(Ok(chunk)) => framer.push(&chunk),
                Some(Err(_)) | None => {
                    let last = framer.finish().map_or_else(Vec::new, |event| event.0);
                    let last = Bytes::from(prefixed(last, &prefix));
                    return Some((Ok(last), (body, framer, prefix, true)));
                }
            }
        }
    });
    Response::from_parts(head, Body::from_stream(body))
}

/// Returns an event with `prefix` added before its id. Events without an id are unchanged.
fn prefixed(event: Vec<u8>, prefix: &str) -> Vec<u8> {
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut is_id = false;
    for line in event.split(is_line_end) {
        is_id |= line.starts_with(b"id:");
    }
    if !is_id {
        return event;
    }
    let mut changed = Vec::with_capacity(event.len() + prefix.len());
    for line in event.split_inclusive(is_line_end) {
        let Some(id) = line.strip_prefix(b"id:") else {
            changed.extend_from_slice(line);
            continue;
        };
        let id = id.strip_prefix(b" ").unwrap_or(id);
        changed.extend_from_slice(b"id: ");
        // An empty id means that the stream cannot be resumed (HTML, server-sent events).
        if id.first().is_some_and(|first| !is_line_end(first)) {
            changed.extend_from_slice(prefix.as_bytes());
        }
        changed.extend_from_slice(id);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event: &str) -> String {
        String::from_utf8(prefixed(event.as_bytes().to_vec(), "tag~")).unwrap()
    }

    #[test]
    fn ids_name_their_owner() {
        assert_eq!(text("id: 3-1\ndata: {}\n\n"), "id: tag~3-1\ndata: {}\n\n");
        assert_eq!(text("data: id: 7\r\nid:x\r\n\r\n"), "data: id: 7\r\nid: tag~x\r\n\r\n");
        for event in ["data: id: 7\n\n", ": \n\n", "id: \ndata: {}\n\n"] {
            assert_eq!(text(event), event);
        }
    }

    #[tokio::test]
    async fn streams_pass_in_any_chunks() {
        let stream = ": \n\nid: 1\nevent: message\ndata: {\"id\":1}\n\ndata: 2\n\nid: 2\ndata: end";
        for size in [1, 7, 1_000] {
            let chunks: Vec<Result<Vec<u8>, Infallible>> =
                stream.as_bytes().chunks(size).map(|chunk| Ok(chunk.to_vec())).collect();
            let response = crate::reply::events(Body::from_stream(stream::iter(chunks)));
            let body = with_owner(response, "t~").into_body();
            let read = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let expected = stream.replace("id: 1\n", "id: t~1\n").replace("id: 2\n", "id: t~2\n");
            assert_eq!(String::from_utf8(read.to_vec()).unwrap(), expected);
        }
    }
}
