//! The endpoint of a replica for the other replicas of its fleet.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::HeaderValue;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::fleet::{ADDRESS, Fleet, INSTANCE, PRINCIPAL, decode_text};
use crate::headers::header;
use crate::reply;
use crate::router::serve_replica;
use crate::serve::Gateway;

/// The maximum time of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of concurrent requests of another replica, including event streams of its
/// clients.
const MAX_STREAMS: u32 = 10_000;
/// The maximum number of unread bytes of one request.
const STREAM_WINDOW: u32 = 1 << 20;
/// The maximum number of unread bytes of all requests of a connection.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Serves the other replicas until `gateway` stops, then waits at most `drain` for requests in
/// flight.
pub(crate) async fn serve(
    gateway: Arc<Gateway>,
    fleet: Arc<Fleet>,
    listener: TcpListener,
    drain: Duration,
) {
    let (tasks, draining) = (TaskTracker::new(), gateway.closing.clone());
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("cannot accept a connection of a replica: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = draining.cancelled() => break,
        };
        let (gateway, fleet) = (Arc::clone(&gateway), Arc::clone(&fleet));
        let draining = draining.clone();
        tasks.spawn(async move {
            if let Err(error) = connection(gateway, fleet, stream, draining).await {
                debug!("connection of a replica ended: {error}");
            }
        });
    }
    drop(listener);
    tasks.close();
    let _ = timeout(drain, tasks.wait()).await;
}

async fn connection(
    gateway: Arc<Gateway>,
    fleet: Arc<Fleet>,
    stream: TcpStream,
    draining: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let acceptor = fleet.acceptor().ok_or("there is no identity")?;
    let stream = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
    let service = service_fn(move |request| {
        let (gateway, fleet) = (Arc::clone(&gateway), Arc::clone(&fleet));
        async move { Ok::<_, Infallible>(answer(&gateway, &fleet, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = draining.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

/// Serves a request that another replica has admitted.
async fn answer(gateway: &Gateway, fleet: &Fleet, request: http::Request<Incoming>) -> Response {
    let (mut parts, body) = request.into_parts();
    let own = fleet.own().map(|own| own.instance.to_string()).unwrap_or_default();
    if header(&parts.headers, INSTANCE) != own {
        // The process for which the request was has ended, and this one has its address.
        let mut gone = reply::empty(StatusCode::GONE);
        gone.headers_mut().insert(INSTANCE, HeaderValue::from_static("other"));
        return gone;
    }
    let principal = decode_text(header(&parts.headers, PRINCIPAL));
    let address = header(&parts.headers, ADDRESS).parse::<IpAddr>();
    let (Some(principal), Ok(address)) = (principal, address) else {
        return reply::empty(StatusCode::BAD_REQUEST);
    };
    for name in [PRINCIPAL, ADDRESS, INSTANCE] {
        parts.headers.remove(name);
    }
    serve_replica(gateway, address, principal.into(), parts, Body::new(body)).await
}
