//! The HTTP client of the gateway: fetches signing keys of tokens and sends requests to upstreams.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::warn;

/// An HTTP client. Clones share its connection pool.
pub type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The time after which an idle connection is closed.
///
/// Common servers close idle connections after 5 s. A request that is sent at that moment is lost,
/// and must not be sent twice.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns a client that trusts the certificate authorities of the system.
#[must_use]
pub fn http_client() -> HttpClient {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(Duration::from_secs(10)));
    let builder = hyper_rustls::HttpsConnectorBuilder::new();
    let builder = match builder.with_native_roots() {
        Ok(builder) => builder,
        Err(error) => {
            warn!(
                "cannot load the certificate authorities of the system, https:// upstreams will fail: {error}"
            );
            let none = ClientConfig::builder()
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(none)
        }
    };
    let https = builder.https_or_http().enable_http1().enable_http2().wrap_connector(http);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(https)
}
