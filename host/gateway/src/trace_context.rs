//! The W3C trace context of requests: it is read from HTTP headers and `_meta`, and sent to
//! upstreams.

use http::HeaderMap;
use tokio::task_local;

use crate::message::{Head, member, splice, with_member};
use crate::telemetry::TraceContext;

/// The member of `_meta` with the ids of trace and span (SEP-414), and the HTTP header with them.
const TRACEPARENT: &str = "traceparent";
/// The member of `_meta` with the state of tracing systems (SEP-414), and the HTTP header with it.
const TRACESTATE: &str = "tracestate";

task_local! {
    /// The trace context in the headers of the HTTP request that the task serves, or of the request
    /// of which its work is a part.
    static HTTP_CONTEXT: Option<TraceContext>;
}

/// Runs `work`, which serves an HTTP request with these headers. Exchanges that `work` creates use
/// the trace context in the headers.
pub(crate) async fn with_headers<T>(headers: &HeaderMap, work: impl Future<Output = T>) -> T {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let context = TraceContext::parse(value(TRACEPARENT), value(TRACESTATE));
    HTTP_CONTEXT.scope(context, work).await
}

/// Returns the trace context in the headers of the HTTP request that this task serves. `None` if it
/// has none.
pub(crate) fn in_headers() -> Option<TraceContext> {
    HTTP_CONTEXT.try_with(Clone::clone).ok().flatten()
}

/// Runs `work` as a part of the request with this trace context.
pub(crate) async fn within<T>(context: TraceContext, work: impl Future<Output = T>) -> T {
    HTTP_CONTEXT.scope(Some(context), work).await
}

/// Wraps `work` so that another task runs it with the trace context of this task.
pub(crate) fn for_task<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    HTTP_CONTEXT.scope(in_headers(), work)
}

/// Returns the trace context in `params._meta` of a request. `None` if it has none.
pub(crate) fn in_message(head: &Head<'_>) -> Option<TraceContext> {
    let meta = head.parameters().meta?;
    let text = |name| {
        let value = member(meta.get(), name)?;
        serde_json::from_str::<String>(value.get()).ok()
    };
    TraceContext::parse(&text(TRACEPARENT)?, &text(TRACESTATE).unwrap_or_default())
}

/// Returns a request with this trace context in `params._meta`. `None` if the message cannot be
/// parsed, or `params` or `_meta` is not an object.
pub(crate) fn inject(message: &[u8], context: &TraceContext) -> Option<Vec<u8>> {
    let head = Head::read(message)?;
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let with_context = |meta: &str| {
        let meta = with_member(meta, TRACEPARENT, Some(&text(&context.traceparent())));
        let state = Some(text(&context.state)).filter(|_| !context.state.is_empty());
        with_member(&meta, TRACESTATE, state.as_deref())
    };
    let Some(params) = head.params else {
        let whole = std::str::from_utf8(message).ok()?;
        let params = format!("{{\"_meta\":{}}}", with_context("{}"));
        return Some(with_member(whole, "params", Some(&params)).into_bytes());
    };
    if !params.get().starts_with('{') {
        return None;
    }
    match head.parameters().meta {
        Some(meta) if meta.get().starts_with('{') => {
            Some(splice(message, meta.get(), &with_context(meta.get())))
        }
        Some(_) => None,
        None => {
            let params = params.get();
            let changed = with_member(params, "_meta", Some(&with_context("{}")));
            Some(splice(message, params, &changed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn context_is_injected_and_read_again() {
        let context = TraceContext::parse(PARENT, "a=\"b").unwrap();
        for request in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1.50}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"traceparent":"x","baggage":"k=v"}}}"#,
        ] {
            let sent = inject(request.as_bytes(), &context).unwrap();
            let head = Head::read(&sent).unwrap();
            assert_eq!(in_message(&head), Some(context.clone()), "{request}");
            let text = String::from_utf8_lossy(&sent);
            // Other members keep their spelling.
            assert_eq!(text.contains("1.50"), request.contains("1.50"));
            assert_eq!(text.contains("k=v"), request.contains("k=v"));
        }
        assert_eq!(inject(br#"{"id":1,"method":"a","params":[1]}"#, &context), None);
    }
}
