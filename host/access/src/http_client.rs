//! The HTTP client of the gateway: fetches signing keys of tokens and sends requests to upstreams.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tracing::warn;

/// An HTTP client. Clones share its connection pool.
pub type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The time after which an idle connection is closed.
///
/// Common servers close idle connections after 5 s. A request that is sent at that moment is lost,
/// and must not be repeated.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns a client that trusts the certificate authorities of the system.
#[must_use]
pub fn http_client() -> HttpClient {
    let builder = HttpsConnectorBuilder::new();
    let builder = match builder.with_native_roots() {
        Ok(builder) => builder,
        Err(error) => {
            warn!(
                "cannot load the certificate authorities of the system, https:// upstreams will fail: {error}"
            );
            let none = ClientConfig::builder()
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(none)
        }
    };
    build(builder.https_or_http().enable_http1().enable_http2().wrap_connector(connector()))
}

/// The certificate of a client with its chain, and its private key.
pub type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns a client for https:// URLs. It trusts `authorities`, or those of the system if it is
/// `None`. It presents the certificate of `identity` to servers that request one.
///
/// # Errors
/// The authorities of the system cannot be loaded, or the key does not belong to the certificate.
pub fn tls_client(
    authorities: Option<RootCertStore>,
    identity: Option<ClientIdentity>,
) -> Result<HttpClient, rustls::Error> {
    let builder = ClientConfig::builder();
    let builder = match authorities {
        Some(authorities) => builder.with_root_certificates(authorities),
        None => builder.with_native_roots().map_err(|error| {
            let reason = format!("cannot load the certificate authorities of the system: {error}");
            rustls::Error::General(reason)
        })?,
    };
    let config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
    Ok(build(builder.enable_http1().enable_http2().wrap_connector(connector())))
}

fn connector() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(Duration::from_secs(10)));
    http
}

fn build(https: HttpsConnector<HttpConnector>) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(https)
}
