//! An upstream that speaks HTTP: one request, one response whose body is read as it comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method, Request, Response, StatusCode, Uri};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::Failure;
use crate::access::HttpClient;
use crate::config::{Authorization, Upstream};
use crate::store::Breaker;
use crate::telemetry::Recorder;
use crate::{Error, Result};

/// Headers that are between two hops only, and those that the client library sets itself.
const HOPS: [HeaderName; 10] = [
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

/// The headers that go on to the other side, except those between two hops.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    headers
        .iter()
        .filter(|(name, _)| !HOPS.contains(name) && !named.iter().any(|hop| hop == name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// An upstream that speaks HTTP.
pub(crate) struct HttpUpstream {
    pub(crate) name: String,
    url: Uri,
    headers: HeaderMap,
    forward_authorization: bool,
    timeout: Duration,
    max_bytes: usize,
    client: HttpClient,
    pub(crate) breaker: Breaker,
    permits: tokio::sync::Semaphore,
    recorder: Arc<Recorder>,
}

impl HttpUpstream {
    /// The upstream that a configuration describes. `guarded`: the gateway asks for authorization itself. `max_bytes`: bytes of an answer.
    pub(crate) fn new(
        config: &Upstream,
        url: &str,
        guarded: bool,
        max_bytes: usize,
        client: HttpClient,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        let fault = |what: String| Error::Setup(format!("upstream {}: {what}", config.name));
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let name: HeaderName =
                name.parse().map_err(|_| fault(format!("`{name}` is no header name")))?;
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| fault(format!("the value of header {name} cannot be sent")))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self {
            name: config.name.clone(),
            url: url.parse().map_err(|error| fault(format!("{error}")))?,
            headers,
            forward_authorization: match config.authorization {
                Authorization::Auto => !guarded,
                Authorization::Forward => true,
                Authorization::Drop => false,
            },
            timeout: config.limits.timeout(),
            max_bytes,
            client,
            breaker: Breaker::new(
                config.limits.failures,
                Duration::from_secs(config.limits.pause_seconds),
            ),
            permits: tokio::sync::Semaphore::new(config.limits.concurrency),
            recorder,
        })
    }

    /// Sends a request to its URL, or with `path` to another path of it.
    ///
    /// The response has started when this returns, in the upstream's time limit. Dropping the response ends the request.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: Option<&str>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        self.breaker.admit(Instant::now()).map_err(|wait| {
            Failure::Unavailable(format!(
                "{} has failed several times in a row and is left alone for {} s more.",
                self.named(),
                wait.as_secs() + 1
            ))
        })?;
        let waited = tokio::time::timeout(self.timeout, self.permits.acquire()).await;
        let _permit = waited.map_err(|_| self.late("has too many requests to answer"))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target(path)?;
        *request.headers_mut() = passed_on(headers);
        let headers = request.headers_mut();
        // What is compressed cannot be shaped.
        headers.remove(header::ACCEPT_ENCODING);
        if !self.forward_authorization {
            headers.remove(header::AUTHORIZATION);
            headers.remove(crate::access::API_KEY);
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        let sent = tokio::time::timeout(self.timeout, self.client.request(request)).await;
        let answered = match sent {
            Err(_) => Err(self.late("did not answer")),
            Ok(Err(error)) => Err(Failure::Unavailable(format!(
                "{} cannot be reached: {}.",
                self.named(),
                root(&error)
            ))),
            Ok(Ok(response)) => Ok(response),
        };
        match &answered {
            Ok(response) if !response.status().is_server_error() => self.succeeded(),
            _ => self.failed(),
        }
        answered
    }

    fn target(&self, path: Option<&str>) -> Result<Uri, Failure> {
        let Some(path) = path else { return Ok(self.url.clone()) };
        let base = self.url.path().trim_end_matches('/');
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query =
            Some(format!("{base}{path}").parse().map_err(|_| {
                Failure::Unavailable(format!("{} has no such path.", self.named()))
            })?);
        Uri::from_parts(parts).map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// The upstream as errors name it.
    fn named(&self) -> String {
        format!("The upstream `{}`", self.name)
    }

    fn late(&self, what: &str) -> Failure {
        Failure::Timeout(format!("{} {what} within {} s.", self.named(), self.timeout.as_secs()))
    }

    fn succeeded(&self) {
        self.breaker.succeeded();
        self.recorder.metrics.upstream_is(&self.name, true);
    }

    fn failed(&self) {
        self.breaker.failed(Instant::now());
        self.recorder.metrics.upstream_failed(&self.name);
        self.recorder.metrics.upstream_is(&self.name, !self.breaker.is_open());
    }

    /// The next part of a body, in the upstream's time limit; none at its end.
    pub(crate) async fn part(&self, body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
        match tokio::time::timeout(self.timeout, data(body)).await {
            Ok(part) => part.map_err(|reason| {
                self.failed();
                Failure::Unavailable(format!("{} broke off in its answer: {reason}.", self.named()))
            }),
            Err(_) => {
                self.failed();
                Err(self.late("went silent in its answer: nothing came"))
            }
        }
    }

    /// A body, whole.
    pub(crate) async fn collect(&self, mut body: Incoming) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        while let Some(part) = self.part(&mut body).await? {
            if whole.len() + part.len() > self.max_bytes {
                return Err(self.too_large());
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }

    /// Bytes that an answer may have.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// What is said of an answer that has more.
    pub(crate) fn too_large(&self) -> Failure {
        Failure::TooLarge(format!(
            "{} answered with more than {} bytes (limits.responseBytes). Ask for less.",
            self.named(),
            self.max_bytes
        ))
    }
}

/// Whether a status says that one is not let in, or not now: then it answers nothing of what was asked.
pub(crate) fn is_refusal(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 407 | 429)
}

/// The next part of a body; none at its end.
pub(crate) async fn data(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(root(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// What went wrong at the bottom of it.
fn root(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}
