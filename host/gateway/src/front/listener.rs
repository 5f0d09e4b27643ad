//! Listens for client connections, plain or TLS, over HTTP/1 and HTTP/2. At shutdown it waits for
//! requests in flight.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower::ServiceExt;
use tracing::{debug, warn};

use crate::config::{self, Tls};
use crate::{Error, Result};

/// The maximum time for a TLS handshake, and for the head of a request. The limit rejects clients
/// that occupy connections without sending a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Loads the certificate and key of a TLS listener. Relative paths refer to `folder`.
pub(crate) fn acceptor(tls: &Tls, folder: &Path) -> Result<TlsAcceptor> {
    let fault =
        |path: &Path, reason: String| config::Error::Format { path: path.to_owned(), reason };
    let (cert, key) = (folder.join(&tls.cert), folder.join(&tls.key));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&cert)
        .and_then(Iterator::collect)
        .map_err(|error| fault(&cert, format!("invalid PEM certificate: {error}")))?;
    let private = PrivateKeyDer::from_pem_file(&key)
        .map_err(|error| fault(&key, format!("invalid PEM private key: {error}")))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| fault(&cert, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Binds a TCP listener to an address such as `127.0.0.1:8080`.
pub(crate) async fn bind(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        Error::Setup(format!(
            "cannot listen on {address}: {error} (is another gateway running? `listen` sets the address)"
        ))
    })
}

/// Serves connections until `stop` resolves, then waits at most `drain` for requests in flight.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let connections = GracefulShutdown::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .max_concurrent_streams(256);
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely, no file descriptor is free. Retrying at once would spin until
                    // a connection closes.
                    warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let (router, builder, tls) = (router.clone(), builder.clone(), tls.clone());
        let watcher = connections.watcher();
        tokio::spawn(async move {
            if let Err(error) = connection(stream, peer, tls, router, builder, watcher).await {
                debug!(%peer, "connection ended: {error}");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(drain, connections.shutdown()).await.is_err() {
        warn!("requests were still in flight after {} s (limits.drainSeconds)", drain.as_secs());
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    builder: Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let service =
        hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer);
            let router = router.clone();
            async move {
                let response = router.oneshot(request.map(axum::body::Body::new)).await;
                Ok::<_, Infallible>(match response {
                    Ok(response) => response,
                    Err(never) => match never {},
                })
            }
        });
    match tls {
        None => {
            let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            watcher.watch(served).await
        }
        Some(tls) => {
            let stream = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await??;
            let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            watcher.watch(served).await
        }
    }
}
