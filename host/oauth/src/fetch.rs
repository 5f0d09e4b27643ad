//! HTTP requests to authorization servers, with limits of size and time.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use context_guard_access::HttpClient;
use context_guard_config::is_secure_url;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use oauth2::url::Url;
use oauth2::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// The maximum length of an authorization server's response, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Parses a URL to which tokens or codes are sent. `what` is the name of the URL in errors.
///
/// # Errors
/// The URL is invalid, or neither uses TLS nor is on this machine.
pub(crate) fn secure_url(url: &str, what: &str) -> Result<Url> {
    match Url::parse(url) {
        Ok(parsed) if is_secure_url(url) => Ok(parsed),
        Ok(_) => Err(Error::Discovery(format!(
            "{what} is {url}: https:// is needed, or http:// on this machine"
        ))),
        Err(error) => Err(Error::Discovery(format!("{what} is not a URL: {url}: {error}"))),
    }
}

/// The HTTP client of the gateway, for requests to authorization servers.
#[derive(Clone)]
pub(crate) struct Fetcher(HttpClient);

impl Fetcher {
    pub(crate) fn new(client: HttpClient) -> Self {
        Self(client)
    }

    /// Sends a request and returns the whole response. Does not follow redirects, which could lead
    /// to a server that was not checked.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let url = request.uri().clone();
        let failed = |reason: String| Error::Unavailable(format!("{url}: {reason}"));
        let answer = async {
            let sent = self.0.request(request.map(Full::new)).await;
            let (head, body) = sent.map_err(|error| failed(root_cause(&error)))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| failed(error.to_string()))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let seconds = TIMEOUT.as_secs();
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(failed(format!("no answer within {seconds} s"))))
    }

    /// Reads a JSON document. `None` if the server has no document at this URL, which any status
    /// 4xx reports.
    pub(crate) async fn document<T: DeserializeOwned>(&self, url: &str) -> Result<Option<T>> {
        let request = Request::get(url).header(ACCEPT, "application/json").body(Bytes::new());
        let request = request.map_err(|error| Error::Discovery(format!("{url}: {error}")))?;
        let response = self.send(request).await?;
        if response.status().is_client_error() {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(Error::Unavailable(format!("{url}: status {}", response.status())));
        }
        match serde_json::from_slice(response.body()) {
            Ok(document) => Ok(Some(document)),
            Err(error) => Err(Error::Discovery(format!("{url}: invalid metadata: {error}"))),
        }
    }

    /// Sends a JSON document, and returns the response.
    pub(crate) async fn post(
        &self,
        url: &str,
        body: &serde_json::Value,
    ) -> Result<Response<Bytes>> {
        let mut request = Request::new(Bytes::from(body.to_string()));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() =
            url.parse().map_err(|error| Error::Discovery(format!("{url}: {error}")))?;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json.clone());
        request.headers_mut().insert(ACCEPT, json);
        self.send(request).await
    }
}

impl<'c> AsyncHttpClient<'c> for Fetcher {
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(
            async move { Ok(self.send(request.map(Bytes::from)).await?.map(|body| body.to_vec())) },
        )
    }
}

/// Returns the message of an error's innermost cause.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
