//! Serves gRPC over HTTP/2, plain or TLS.

use std::convert::Infallible;
use std::time::Duration;

use context_guard_grpc::tonic::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use tracing::{debug, warn};

use crate::config::Timeouts;
use crate::front::certificates::Acceptor;

/// The maximum number of concurrent calls of a connection. Each call is a client's request, which
/// the other gateway limits.
const MAX_STREAMS: u32 = 10_000;
/// The maximum number of unread bytes of one call.
const STREAM_WINDOW: u32 = 1 << 20;
/// The maximum number of unread bytes of all calls of a connection.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A listener for other gateways.
pub(super) struct GrpcListener {
    pub(super) socket: TcpListener,
    pub(super) tls: Option<Acceptor>,
    pub(super) timeouts: Timeouts,
}

impl GrpcListener {
    /// Serves connections until `stop` resolves, then waits at most `drain` for calls in flight.
    pub(super) async fn serve<S>(self, service: S, stop: impl Future<Output = ()>, drain: Duration)
    where
        S: Service<http::Request<Incoming>, Response = http::Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let (tasks, draining) = (TaskTracker::new(), CancellationToken::new());
        let mut stop = std::pin::pin!(stop);
        loop {
            let stream = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = &mut stop => break,
            };
            let (service, draining) = (service.clone(), draining.clone());
            let (tls, limit) = (self.tls.clone(), self.timeouts.head());
            tasks.spawn(async move {
                if let Err(error) = accept(stream, tls, limit, service, draining).await {
                    debug!("connection of a gateway ended: {error}");
                }
            });
        }
        drop(self.socket);
        draining.cancel();
        tasks.close();
        if timeout(drain, tasks.wait()).await.is_err() {
            warn!("calls were still in flight after {} s (limits.drainSeconds)", drain.as_secs());
        }
    }
}

type ConnectionResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn accept<S>(
    stream: TcpStream,
    tls: Option<Acceptor>,
    limit: Duration,
    service: S,
    draining: CancellationToken,
) -> ConnectionResult
where
    S: Service<http::Request<Incoming>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    stream.set_nodelay(true)?;
    match tls {
        None => serve_connection(stream, service, draining).await,
        Some(tls) => {
            let stream = timeout(limit, tls.current().accept(stream)).await??;
            serve_connection(stream, service, draining).await
        }
    }
}

async fn serve_connection<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    draining: CancellationToken,
) -> ConnectionResult
where
    S: Service<http::Request<Incoming>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let service = TowerToHyperService::new(service);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = draining.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}
