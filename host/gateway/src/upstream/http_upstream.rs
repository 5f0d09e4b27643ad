//! An HTTP endpoint of an upstream: each request has one response, whose body is streamed.

mod circuit_probe;

use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method, Request, Response, StatusCode, Uri};
use bytes::{Bytes, BytesMut};
use context_guard_protocol::header::is_encoded;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::Failure;
use super::circuit::Circuit;
use super::client::UpstreamClient;
use super::credentials;
use super::turns::Turns;
use crate::config::{Secret, Upstream};
use crate::headers::{self, ForwardedCredentials, credential_lines};
use crate::oauth::UpstreamTokens;
use crate::telemetry::Recorder;
use crate::{Error, Result};

/// The headers that are not forwarded: hop-by-hop headers (RFC 9110, 7.6.1), and those that the
/// HTTP client library sets itself.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::CONTENT_LENGTH,
];

/// Returns the headers of a request or response without the hop-by-hop ones.
pub(crate) fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    // The Connection header names further hop-by-hop headers.
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    headers
        .iter()
        .filter(|(name, _)| {
            !HOP_BY_HOP.contains(name) && !named.iter().any(|hop| hop == name.as_str())
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The response headers that are not sent to clients, because they would affect the whole origin of
/// the gateway: cookies, browser rules, and other addresses.
const ORIGIN_WIDE: [HeaderName; 7] = [
    header::SET_COOKIE,
    header::STRICT_TRANSPORT_SECURITY,
    header::ALT_SVC,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
];

/// Returns the headers of an upstream's response that a client receives. Excludes CORS headers,
/// because the gateway itself decides about other origins.
pub(crate) fn response_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = end_to_end_headers(headers);
    let is_refused = |name: &HeaderName| {
        ORIGIN_WIDE.contains(name) || name.as_str().starts_with("access-control-")
    };
    let refused: Vec<HeaderName> = kept.keys().filter(|name| is_refused(name)).cloned().collect();
    for name in refused {
        kept.remove(name);
    }
    kept
}

/// An HTTP endpoint of an upstream, with its circuit breaker and its limits.
pub(crate) struct HttpUpstream {
    pub(crate) name: String,
    url: Uri,
    headers: HeaderMap,
    credentials: ForwardedCredentials,
    /// The OAuth tokens of the principals. `None` if the upstream needs no tokens.
    tokens: Option<Arc<UpstreamTokens>>,
    timeout: Duration,
    /// The maximum time until a response is complete.
    call_limit: Duration,
    max_bytes: usize,
    client: UpstreamClient,
    pub(crate) circuit: Arc<Circuit>,
    /// The permits of clients' requests. The gateway's own requests need none.
    pub(crate) turns: Arc<Turns>,
}

impl HttpUpstream {
    /// Creates an endpoint for `url`. `max_bytes` is the maximum size of an answer. `credentials`
    /// selects the client's credentials that the upstream receives. `tokens` has the OAuth tokens
    /// that it receives instead.
    pub(crate) fn new(
        config: &Upstream,
        url: &str,
        credentials: ForwardedCredentials,
        tokens: Option<Arc<UpstreamTokens>>,
        max_bytes: usize,
        client: UpstreamClient,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        let error = |what: String| Error::Setup(format!("upstream {}: {what}", config.name));
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let name: HeaderName =
                name.parse().map_err(|_| error(format!("`{name}` is not a header name")))?;
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| error(format!("the value of header {name} cannot be sent")))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self {
            name: config.name.clone(),
            url: url.parse().map_err(|reason| error(format!("invalid url: {reason}")))?,
            headers,
            credentials,
            tokens,
            timeout: config.limits.timeout(),
            call_limit: config.limits.call(),
            max_bytes,
            client,
            circuit: Arc::new(Circuit::new(&config.name, &config.limits, recorder)),
            turns: Turns::new(config),
        })
    }

    /// Returns the credentials in a client's headers that the upstream receives, each as a header
    /// line.
    pub(crate) fn forwarded_credentials(&self, headers: &HeaderMap) -> Vec<Vec<u8>> {
        let mut headers = headers.clone();
        self.credentials.retain(&mut headers);
        credential_lines(&headers, |_| true)
    }

    /// Sends a request of a principal to the configured URL, or to `path` below it. The circuit
    /// breaker counts the outcome for the caller `owner`. Returns the response before its body has
    /// arrived. Dropping the response cancels the request.
    pub(crate) async fn send(
        self: &Arc<Self>,
        method: Method,
        path: Option<&str>,
        (principal, owner): (&str, &str),
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        self.send_to(method, self.target(path)?, (principal, owner), headers, body).await
    }

    /// Sends a client's request to `target`, a URL of the upstream. Otherwise as [`Self::send`].
    pub(super) async fn send_to(
        self: &Arc<Self>,
        method: Method,
        target: Uri,
        (principal, owner): (&str, &str),
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        self.circuit.admit(owner)?;
        let answered = self.send_uncounted_to(method, target, principal, headers, body).await;
        match &answered {
            Ok(response) if response.status().is_server_error() => {
                let (status, owner) = (response.status(), Some(owner));
                let reason = format!("it answered with {status}");
                self.opened(self.circuit.failed(&reason, is_unreachable(status), owner));
            }
            Ok(_) => self.circuit.succeeded(),
            // A principal without a token must not keep others from the upstream.
            Err(Failure::Refused(_)) => {}
            Err(failure) => self.count_failure(failure, Some(owner)),
        }
        answered
    }

    /// Sends a request that the gateway makes itself, such as a request for an event stream.
    /// Otherwise as [`Self::send`], but the circuit breaker neither refuses nor counts the request.
    pub(crate) async fn send_uncounted(
        &self,
        method: Method,
        path: Option<&str>,
        principal: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        self.send_uncounted_to(method, self.target(path)?, principal, headers, body).await
    }

    /// Sends a request that the gateway makes itself to `target`, a URL of the upstream. Otherwise
    /// as [`Self::send_uncounted`].
    pub(super) async fn send_uncounted_to(
        &self,
        method: Method,
        target: Uri,
        principal: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let token = credentials::token(self.tokens.as_ref(), principal).await?;
        let again = self.tokens.as_ref().map(|_| (method.clone(), body.clone()));
        let mut response =
            self.transmit(method, target.clone(), headers, body, token.as_ref()).await?;
        let (Some(tokens), Some(token), Some((method, body))) = (&self.tokens, token, again) else {
            return Ok(response);
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            let token = tokens.renew(principal, &token).await?;
            response = self.transmit(method, target, headers, body, Some(&token)).await?;
        }
        let refused =
            credentials::refusal(&self.name, principal, response.status(), response.headers());
        refused.map_or(Ok(response), Err)
    }

    /// Sends a request once. `token` is the OAuth token of the principal, if the upstream needs
    /// one.
    async fn transmit(
        &self,
        method: Method,
        target: Uri,
        headers: &HeaderMap,
        body: Bytes,
        token: Option<&Secret>,
    ) -> Result<Response<Incoming>, Failure> {
        let has_body = method != Method::HEAD;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target;
        *request.headers_mut() = end_to_end_headers(headers);
        let headers = request.headers_mut();
        // The guard cannot read compressed answers.
        headers.remove(header::ACCEPT_ENCODING);
        self.credentials.retain(headers);
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| {
                Failure::Refused(format!("The token for {} cannot be sent.", self.display_name()))
            })?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let sent = tokio::time::timeout(self.timeout, self.client.current().request(request)).await;
        let response = sent.map_err(|_| self.timed_out("did not answer"))?.map_err(|error| {
            let (name, cause) = (self.display_name(), root_cause(&error));
            let text = format!("{name} cannot be reached: {cause}.");
            if error.is_connect() { Failure::Unreachable(text) } else { Failure::Unavailable(text) }
        })?;
        // The guard cannot read such a body, which a client would expand without a limit.
        let codings = response.headers().get_all(header::CONTENT_ENCODING);
        if has_body && codings.iter().any(|coding| is_encoded(Some(coding.to_str().unwrap_or("?"))))
        {
            return Err(Failure::Unavailable(format!(
                "{} answered with a content coding that was not requested: {}.",
                self.display_name(),
                headers::header(response.headers(), header::CONTENT_ENCODING)
            )));
        }
        Ok(response)
    }

    fn target(&self, path: Option<&str>) -> Result<Uri, Failure> {
        let Some(path) = path else { return Ok(self.url.clone()) };
        let base = self.url.path().trim_end_matches('/');
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query = Some(format!("{base}{path}").parse().map_err(|_| {
            Failure::Unavailable(format!("{} has no such path.", self.display_name()))
        })?);
        Uri::from_parts(parts).map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// Returns the upstream's name as the subject of error messages.
    fn display_name(&self) -> String {
        format!("The upstream `{}`", self.name)
    }

    fn timed_out(&self, what: &str) -> Failure {
        Failure::Timeout(format!(
            "{} {what} within {} s.",
            self.display_name(),
            self.timeout.as_secs()
        ))
    }

    /// Counts a failed call in the circuit breaker, for the caller `owner` or for all callers.
    /// Failures that neither the upstream nor the connection to it caused must not be counted.
    pub(crate) fn count_failure(self: &Arc<Self>, failure: &Failure, owner: Option<&str>) {
        self.opened(self.circuit.count(failure, owner));
    }

    /// Starts to probe the upstream if its circuit was opened.
    fn opened(self: &Arc<Self>, is_opened: bool) {
        if is_opened {
            tokio::spawn(circuit_probe::run(Arc::downgrade(self)));
        }
    }

    /// Reads the next chunk of a response body for the caller `owner` within the upstream's time
    /// limit. Returns `None` at the end of the body.
    pub(crate) async fn next_chunk_in_time(
        self: &Arc<Self>,
        body: &mut Incoming,
        owner: &str,
    ) -> Result<Option<Bytes>, Failure> {
        let read = match tokio::time::timeout(self.timeout, next_chunk(body)).await {
            Ok(chunk) => chunk.map_err(|reason| self.broke_off(&reason)),
            Err(_) => Err(self.went_silent()),
        };
        if let Err(failure) = &read {
            self.count_failure(failure, Some(owner));
        }
        read
    }

    /// Reads a response body for the caller `owner` to its end.
    ///
    /// # Errors
    /// The body exceeds the maximum size or the time limit, or the connection fails.
    pub(crate) async fn collect(
        self: &Arc<Self>,
        body: Incoming,
        owner: &str,
    ) -> Result<Bytes, Failure> {
        let collecting = self.collect_all(body, owner);
        let collected = tokio::time::timeout(self.call_limit, collecting).await;
        collected.unwrap_or_else(|_| Err(self.call_too_long()))
    }

    async fn collect_all(
        self: &Arc<Self>,
        mut body: Incoming,
        owner: &str,
    ) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        while let Some(part) = self.next_chunk_in_time(&mut body, owner).await? {
            if whole.len() + part.len() > self.max_bytes {
                return Err(self.too_large());
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }

    /// Returns the failure for a response that ended early because of `reason`.
    pub(crate) fn broke_off(&self, reason: &str) -> Failure {
        let name = self.display_name();
        Failure::Unavailable(format!("{name} broke off in its answer: {reason}."))
    }

    /// Returns the failure for a response whose next part did not arrive in time.
    pub(crate) fn went_silent(&self) -> Failure {
        self.timed_out("went silent in its answer: nothing came")
    }

    /// Returns the maximum time until the next part of a response.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the maximum time until a response is complete.
    pub(crate) fn call_limit(&self) -> Duration {
        self.call_limit
    }

    /// Returns the failure for a response that was not complete in time.
    pub(crate) fn call_too_long(&self) -> Failure {
        Failure::call_too_long(&self.name, self.call_limit)
    }

    /// Returns the configured URL.
    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// Returns the maximum size of an answer of the upstream, in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns the failure for an answer that exceeds the maximum size.
    pub(crate) fn too_large(&self) -> Failure {
        Failure::TooLarge(format!(
            "{} answered with more than {} bytes (limits.responseBytes). Ask for less.",
            self.display_name(),
            self.max_bytes
        ))
    }
}

/// Returns true if the status reports that the server behind a proxy cannot be reached.
fn is_unreachable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Reads the next chunk of a response body, without a time limit. Returns `None` at the end of the
/// body.
pub(crate) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(root_cause(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Returns the message of an error's innermost cause. The outer errors only report that a request
/// failed.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
pub(in crate::upstream) mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::access::http_client;
    use crate::store::clock::SystemClock;

    /// Answers each request with 500 if its path is `/bad`, otherwise with 200.
    async fn answer(listener: TcpListener) {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            let mut request = vec![0; 4_096];
            let length = stream.read(&mut request).await.unwrap();
            let is_bad = request[..length].starts_with(b"GET /bad ");
            let status = if is_bad { "500 Internal Server Error" } else { "200 OK" };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    }

    /// Returns the upstream that `listener` plays.
    pub(in crate::upstream) fn upstream_at(listener: &TcpListener) -> Arc<HttpUpstream> {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let client = UpstreamClient::Shared(Box::new(http_client()));
        let (config, credentials) = (Upstream::default(), ForwardedCredentials::None);
        let http = HttpUpstream::new(&config, &url, credentials, None, 1_000, client, recorder);
        Arc::new(http.unwrap())
    }

    #[tokio::test]
    async fn errors_of_one_caller_do_not_refuse_another() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = upstream_at(&listener);
        tokio::spawn(answer(listener));
        let send = async |caller: &str, path: &str| {
            let headers = HeaderMap::new();
            let names = ("anonymous", caller);
            let sent = http.send(Method::GET, Some(path), names, &headers, Bytes::new()).await;
            sent.map(|response| response.status().as_u16())
        };
        assert_eq!(send("alice", "/good").await.unwrap(), 200);
        // The number exceeds `limits.failures`.
        for _ in 0..10 {
            assert_eq!(send("mallory", "/bad").await.unwrap(), 500);
        }
        assert_eq!(send("alice", "/good").await.unwrap(), 200);
        assert!(!http.circuit.is_open() && !http.circuit.availability.is_down());
    }
}
