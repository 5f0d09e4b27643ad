//! An HTTP client for the admin endpoint of a running gateway.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

pub use http::Method;

use crate::access::{HttpClient, http_client};
use crate::{Error, Result};

/// The maximum time for a request that reads.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time for a request that changes the gateway, which compiles and tests a component.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(300);

/// A client of the admin endpoint of one gateway.
pub struct AdminClient {
    base: String,
    token: Option<String>,
    client: HttpClient,
}

impl AdminClient {
    /// Returns a client for the admin endpoint at the URL `base`. `token` is the bearer token, or
    /// `None` to send none.
    #[must_use]
    pub fn new(base: &str, token: Option<&str>) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { base, token: token.map(str::to_owned), client: http_client() }
    }

    /// Sends a request to `path` of the admin endpoint, and returns the answer as JSON. An answer
    /// that is not JSON becomes a string. The request has no body if `body` is null.
    ///
    /// Waits for at most 30 s for an answer to a `GET`, and five minutes for that to another
    /// request. A gateway compiles and tests a component before it answers.
    ///
    /// # Errors
    /// [`Error::Setup`] if the URL is invalid, the gateway cannot be reached, or it does not answer
    /// in time. [`Error::Refused`] with the gateway's reason.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let limit = if method == Method::GET { READ_TIMEOUT } else { CHANGE_TIMEOUT };
        self.send_within(limit, method, path, body).await
    }

    async fn send_within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value> {
        tokio::time::timeout(limit, self.exchange(method, path, body)).await.unwrap_or_else(|_| {
            Err(Error::Setup(format!(
                "the gateway at {}{path} did not answer within {} s",
                self.base,
                limit.as_secs()
            )))
        })
    }

    async fn exchange(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.base);
        let setup = |error: &dyn std::fmt::Display| {
            Error::Setup(format!("cannot reach the gateway at {url}: {error}"))
        };
        let mut request =
            Request::builder().method(method).uri(&url).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = request.body(Full::new(body)).map_err(|error| setup(&error))?;
        let response = self.client.request(request).await.map_err(|error| setup(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| setup(&error))?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).trim().into());
        if status.is_success() {
            return Ok(answer);
        }
        let detail = answer.get("detail").unwrap_or(&answer);
        Err(Error::Refused(detail.as_str().map_or_else(|| detail.to_string(), str::to_owned)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silent_gateway_is_an_error() {
        // The system accepts the connection, but nobody answers.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = AdminClient::new(&url, None);
        let sent = client.send_within(Duration::ZERO, Method::GET, "/admin", &Value::Null).await;
        assert!(sent.unwrap_err().to_string().contains("did not answer within 0 s"));
    }
}
