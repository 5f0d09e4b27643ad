//! An exchange: a request of a client, through the guard, to the next handler, and its response back.

use bytes::Bytes;
use context_guard_protocol::{
    Exchange, OF_A_PART, OF_THE_WHOLE, Onward, Reply, RequestHead, ResponseHead, Shaped, Way,
};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use http::{Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::BodyExt;

use crate::config::config;
use crate::filter::Asking;
use crate::sent::Sent;

/// The tool, prompt or resource of a stateless request.
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Serves a request; `next` sends one on.
///
/// # Errors
/// What bodies and `next` end with.
pub async fn serve<I, O, E>(
    request: Request<I>,
    next: impl AsyncFnOnce(Request<Sent<I>>) -> Result<Response<O>, E>,
) -> Result<Response<Sent<O>>, E>
where
    I: Body<Data = Bytes> + Unpin,
    O: Body<Data = Bytes> + Unpin,
    E: From<I::Error> + From<O::Error>,
{
    let config = match config() {
        Ok(config) => config,
        Err(fault) => {
            let fault =
                serde_json::Value::from(format!("context-guard is not configured: {fault}"));
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-31006,"message":{fault}}}}}"#
            );
            return Ok(replied(Reply::json(500, body.into_bytes())));
        }
    };
    let (mut head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let named = |name: &str| header(&head.headers, name);
    let request = RequestHead { method: head.method.as_str(), target, header: &named };
    let mut exchange = Exchange::open(&config.protocol, &request);
    if exchange.passes() {
        let response = next(Request::from_parts(head, Sent::same(body))).await?;
        return Ok(response.map(Sent::same));
    }
    head.headers.remove(ACCEPT_ENCODING);
    let mut asking = Asking(config);
    let (onward, sent) = if exchange.reads_request() {
        let most = config.protocol.max_buffered;
        match read(body, length(&head.headers), most).await? {
            Read::Whole(body) => (exchange.request(&mut asking, &body), Sent::whole(body)),
            Read::TooLong(read, rest) => {
                if let Some(reply) = Reply::request_too_long(&config.protocol) {
                    return Ok(replied(reply));
                }
                let sent = Sent::after(read, rest);
                let response = next(Request::from_parts(head, sent)).await?;
                return Ok(response.map(Sent::same));
            }
        }
    } else {
        OF_A_PART.iter().for_each(|name| drop(head.headers.remove(*name)));
        (exchange.request(&mut asking, b""), Sent::same(body))
    };
    let sent = match onward {
        Onward::Answer(reply) => return Ok(replied(reply)),
        Onward::Forward { body, target, subject } => {
            if let Some(uri) = target.and_then(|target| with_target(&head.uri, &target)) {
                head.uri = uri;
            }
            if let Some(subject) = subject.and_then(|name| HeaderValue::from_str(&name).ok())
                && head.headers.contains_key(NAME)
            {
                head.headers.insert(NAME, subject);
            }
            match body {
                Some(body) => {
                    head.headers.insert(CONTENT_LENGTH, body.len().into());
                    Sent::whole(body)
                }
                None => sent,
            }
        }
    };
    let response = next(Request::from_parts(head, sent)).await?;
    answer(response, exchange, asking).await
}

/// The response of the next handler, as the client gets it.
async fn answer<O, E>(
    response: Response<O>,
    mut exchange: Exchange,
    mut asking: Asking,
) -> Result<Response<Sent<O>>, E>
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
        encoded: encoding.is_some_and(|encoding| encoding != "identity"),
        length: length(&head.headers),
    };
    let (shaped, read, rest) = match exchange.response(&known) {
        Way::Pass => return Ok(Response::from_parts(head, Sent::same(body))),
        Way::Events => {
            head.headers.remove(CONTENT_LENGTH);
            return Ok(Response::from_parts(head, Sent::events(exchange, asking, body)));
        }
        Way::TooLong => (exchange.too_long(&mut asking, true), Vec::new(), Some(body)),
        Way::Collect { most, .. } => match self::read(body, known.length, most).await? {
            Read::Whole(body) => (exchange.answer(&mut asking, &body), body, None),
            Read::TooLong(read, rest) => (exchange.too_long(&mut asking, true), read, Some(rest)),
        },
    };
    let sent = match (shaped, rest) {
        (Some(Shaped { head: changed, body }), _) => {
            if let Some(changed) = changed {
                change(&mut head, &changed);
            }
            head.headers.insert(CONTENT_LENGTH, body.len().into());
            Sent::whole(body)
        }
        (None, None) => {
            head.headers.insert(CONTENT_LENGTH, read.len().into());
            Sent::whole(read)
        }
        (None, Some(rest)) => Sent::after(read, rest),
    };
    Ok(Response::from_parts(head, sent))
}

/// A body that was read.
enum Read<B> {
    Whole(Vec<u8>),
    /// As much as was read, and the rest.
    TooLong(Vec<u8>, B),
}

/// Reads a body up to so many bytes. One that is known to be longer is not begun.
async fn read<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    length: Option<usize>,
    most: usize,
) -> Result<Read<B>, B::Error> {
    let mut read = Vec::with_capacity(length.filter(|length| *length <= most).unwrap_or(0));
    if length.is_some_and(|length| length > most) {
        return Ok(Read::TooLong(read, body));
    }
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame?.into_data() {
            read.extend_from_slice(&chunk);
            if read.len() > most {
                return Ok(Read::TooLong(read, body));
            }
        }
    }
    Ok(Read::Whole(read))
}

/// A reply of the guard's own.
fn replied<O>(reply: Reply) -> Response<Sent<O>> {
    let (mut head, ()) = Response::new(()).into_parts();
    change(&mut head, &reply);
    head.headers.insert(CONTENT_LENGTH, reply.body.len().into());
    Response::from_parts(head, Sent::whole(reply.body))
}

fn change(head: &mut http::response::Parts, reply: &Reply) {
    OF_THE_WHOLE.iter().for_each(|name| drop(head.headers.remove(*name)));
    if let Ok(status) = StatusCode::from_u16(reply.status) {
        head.status = status;
    }
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    for (name, value) in &reply.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            head.headers.insert(HeaderName::from_static(name), value);
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The same URI with another path and query.
fn with_target(uri: &Uri, target: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
}
