//! Serves an exchange: passes a request to the next handler, and shapes its response.

use bytes::Bytes;
use context_guard_protocol::http::{
    HttpResponse, Replacement, RequestAction, RequestHead, ResponseAction, ResponseHead,
};
use context_guard_protocol::{HttpExchange, code, header as headers, response};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use http::{Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::BodyExt;

use crate::body::ForwardedBody;
use crate::config::config;
use crate::filter::ComponentFilter;

/// Serves an HTTP request under the guard. `next` forwards a request to the next handler, whose
/// response the guard shapes.
///
/// # Errors
/// Returns the errors of the bodies and of `next`.
pub async fn serve<I, O, E>(
    request: Request<I>,
    next: impl AsyncFnOnce(Request<ForwardedBody<I>>) -> Result<Response<O>, E>,
) -> Result<Response<ForwardedBody<O>>, E>
where
    I: Body<Data = Bytes> + Unpin,
    O: Body<Data = Bytes> + Unpin,
    E: From<I::Error> + From<O::Error>,
{
    let config = match config() {
        Ok(config) => config,
        Err(fault) => {
            let reason = format!("context-guard is not configured: {fault}");
            let body = response::error("null", code::NOT_CONFIGURED, &reason);
            return Ok(respond(HttpResponse::json(500, body)));
        }
    };
    let (mut head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let lookup = |name: &str| header(&head.headers, name);
    let request = RequestHead { method: head.method.as_str(), target, header: &lookup };
    let mut exchange = HttpExchange::open(&config.protocol, &request);
    if exchange.is_ignored() {
        let response = next(Request::from_parts(head, ForwardedBody::original(body))).await?;
        return Ok(response.map(ForwardedBody::original));
    }
    // A compressed response could not be read.
    head.headers.remove(ACCEPT_ENCODING);
    let mut filter = ComponentFilter(config);
    let (action, sent) = if exchange.needs_request_body() {
        let max_bytes = config.protocol.max_buffered;
        match read(body, content_length(&head.headers), max_bytes).await? {
            Read::Whole(body) => {
                (exchange.on_request(&mut filter, &body), ForwardedBody::whole(body))
            }
            Read::TooLong(read, rest) => {
                if let Some(response) = HttpResponse::request_too_long(&config.protocol) {
                    return Ok(respond(response));
                }
                let sent = ForwardedBody::resumed(read, rest);
                let response = next(Request::from_parts(head, sent)).await?;
                return Ok(response.map(ForwardedBody::original));
            }
        }
    } else {
        headers::PARTIAL_REQUEST_HEADERS.iter().for_each(|name| drop(head.headers.remove(*name)));
        (exchange.on_request(&mut filter, b""), ForwardedBody::original(body))
    };
    let sent = match action {
        RequestAction::Respond(response) => return Ok(respond(response)),
        RequestAction::Forward { body, target, mcp_headers } => {
            if let Some(uri) = target.and_then(|target| with_target(&head.uri, &target)) {
                head.uri = uri;
            }
            for (name, value) in mcp_headers {
                let known = head.headers.remove(name);
                let value = value.and_then(|value| HeaderValue::from_str(&value).ok());
                if let Some(value) = value.filter(|_| known.is_some()) {
                    head.headers.insert(name, value);
                }
            }
            match body {
                Some(body) => {
                    head.headers.insert(CONTENT_LENGTH, body.len().into());
                    ForwardedBody::whole(body)
                }
                None => sent,
            }
        }
    };
    let response = next(Request::from_parts(head, sent)).await?;
    on_response(response, exchange, filter).await
}

/// Shapes the response that the next handler returned.
async fn on_response<O, E>(
    response: Response<O>,
    mut exchange: HttpExchange,
    mut filter: ComponentFilter,
) -> Result<Response<ForwardedBody<O>>, E>
where
    O: Body<Data = Bytes> + Unpin,
    E: From<O::Error>,
{
    let (mut head, body) = response.into_parts();
    let content_type = header(&head.headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let encoding = header(&head.headers, CONTENT_ENCODING.as_str());
    let known = ResponseHead {
        status: head.status.as_u16(),
        content_type: &content_type,
        is_encoded: headers::is_encoded(encoding.as_deref()),
        content_length: content_length(&head.headers),
    };
    let (replacement, read, rest) = match exchange.on_response(&known) {
        ResponseAction::Pass => {
            return Ok(Response::from_parts(head, ForwardedBody::original(body)));
        }
        ResponseAction::Respond(response) => return Ok(respond(response)),
        ResponseAction::Events => {
            head.headers.remove(CONTENT_LENGTH);
            return Ok(Response::from_parts(head, ForwardedBody::events(exchange, filter, body)));
        }
        ResponseAction::TooLong => {
            (exchange.on_oversized_body(&mut filter, true), Vec::new(), Some(body))
        }
        ResponseAction::Collect { max_bytes, .. } => {
            match self::read(body, known.content_length, max_bytes).await? {
                Read::Whole(body) => (exchange.on_body(&mut filter, &body), body, None),
                Read::TooLong(read, rest) => {
                    (exchange.on_oversized_body(&mut filter, true), read, Some(rest))
                }
            }
        }
    };
    let sent = match (replacement, rest) {
        (Some(replacement), _) => {
            if let Some(changed) = replacement.head() {
                change_head(&mut head, changed);
            }
            let (Replacement::Body(body) | Replacement::Response(HttpResponse { body, .. })) =
                replacement;
            head.headers.insert(CONTENT_LENGTH, body.len().into());
            ForwardedBody::whole(body)
        }
        (None, None) => {
            head.headers.insert(CONTENT_LENGTH, read.len().into());
            ForwardedBody::whole(read)
        }
        (None, Some(rest)) => ForwardedBody::resumed(read, rest),
    };
    Ok(Response::from_parts(head, sent))
}

/// The result of reading a body up to a limit.
enum Read<B> {
    Whole(Vec<u8>),
    /// The body is longer than the limit. Holds the bytes that were read, and the unread remainder.
    TooLong(Vec<u8>, B),
}

/// Reads a body up to `max_bytes`. If its `content_length` is greater, reads nothing.
async fn read<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    content_length: Option<usize>,
    max_bytes: usize,
) -> Result<Read<B>, B::Error> {
    let mut read =
        Vec::with_capacity(content_length.filter(|length| *length <= max_bytes).unwrap_or(0));
    if content_length.is_some_and(|length| length > max_bytes) {
        return Ok(Read::TooLong(read, body));
    }
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame?.into_data() {
            read.extend_from_slice(&chunk);
            if read.len() > max_bytes {
                return Ok(Read::TooLong(read, body));
            }
        }
    }
    Ok(Read::Whole(read))
}

/// Converts a response of the guard to the response type of the `http` crate.
fn respond<O>(response: HttpResponse) -> Response<ForwardedBody<O>> {
    let (mut head, ()) = Response::new(()).into_parts();
    change_head(&mut head, &response);
    head.headers.insert(CONTENT_LENGTH, response.body.len().into());
    Response::from_parts(head, ForwardedBody::whole(response.body))
}

/// Replaces status and content type of `head` by those of `response`, and adds the other headers of
/// `response`. Removes the headers that describe the upstream's body.
fn change_head(head: &mut http::response::Parts, response: &HttpResponse) {
    headers::WHOLE_BODY_HEADERS.iter().for_each(|name| drop(head.headers.remove(*name)));
    if let Ok(status) = StatusCode::from_u16(response.status) {
        head.status = status;
    }
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(response.content_type));
    for (name, value) in &response.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            head.headers.append(HeaderName::from_static(name), value);
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// Returns a URI with path and query replaced by `target`. `None` if the result is invalid.
fn with_target(uri: &Uri, target: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
}
