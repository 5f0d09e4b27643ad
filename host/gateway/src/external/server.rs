//! Serves gRPC over HTTP/2, plain or TLS.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use context_guard_grpc::tonic::body::Body;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt as _};
use tracing::{debug, warn};

use crate::config::Timeouts;
use crate::front::activity::{ActiveRequest, Activity};
use crate::front::certificates::Acceptor;
use crate::front::connections::ClientConnections;
use crate::telemetry::Recorder;

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
    /// The open connections. They are not limited for each address, because another gateway has
    /// one address for all its clients.
    pub(super) connections: Arc<ClientConnections>,
    pub(super) timeouts: Timeouts,
    pub(super) recorder: Arc<Recorder>,
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
            let Some(open) = self.connections.add() else {
                self.recorder.metrics.connection_refused();
                continue;
            };
            let (service, draining) = (service.clone(), draining.clone());
            let (tls, limit) = (self.tls.clone(), self.timeouts.head());
            tasks.spawn(async move {
                let activity = &open.activity;
                let ended = tokio::select! {
                    ended = accept(stream, tls, service, activity, draining) => ended,
                    () = activity.unused(limit) => Err("no request within timeouts.headSeconds".into()),
                    () = activity.evicted() => Err("closed for another connection".into()),
                };
                if let Err(error) = ended {
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

/// Serves a connection, after the TLS handshake if there is one.
async fn accept<S>(
    stream: TcpStream,
    tls: Option<Acceptor>,
    service: S,
    activity: &Arc<Activity>,
    draining: CancellationToken,
) -> ConnectionResult
where
    S: Service<http::Request<Incoming>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    stream.set_nodelay(true)?;
    match tls {
        None => serve_connection(stream, service, activity, draining).await,
        Some(tls) => {
            let stream = tls.current().accept(stream).await?;
            serve_connection(stream, service, activity, draining).await
        }
    }
}

async fn serve_connection<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    activity: &Arc<Activity>,
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
    let activity = Arc::clone(activity);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let active = ActiveRequest::begin(&activity, request.version());
        let service = service.clone();
        async move {
            let response = service.oneshot(request).await?;
            // The request is active until its response has been sent.
            Ok::<_, Infallible>(response.map(|body| {
                body.map_frame(move |frame| {
                    let _active = &active;
                    frame
                })
            }))
        }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = draining.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::io::AsyncReadExt as _;
    use tower::service_fn as tower_service;

    use crate::store::clock::SystemClock;

    /// Serves with a limit of connections and of seconds until the first request. Returns a
    /// connection for each of `clients`.
    async fn connected(max: usize, head_seconds: u64, clients: usize) -> Vec<TcpStream> {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let listener = GrpcListener {
            socket,
            tls: None,
            connections: ClientConnections::new("limits.connections", max, max),
            timeouts: Timeouts { head_seconds, ..Timeouts::default() },
            recorder: Arc::new(Recorder::new(0, None, Arc::new(SystemClock))),
        };
        let service = tower_service(|_| async { Ok(http::Response::new(Body::default())) });
        tokio::spawn(listener.serve(service, std::future::pending(), Duration::ZERO));
        let mut streams = Vec::new();
        for _ in 0..clients {
            streams.push(TcpStream::connect(address).await.unwrap());
        }
        streams
    }

    #[tokio::test]
    async fn connections_without_a_request_are_closed() {
        let mut clients = connected(10, 0, 1).await;
        clients[0].read_to_end(&mut Vec::new()).await.unwrap();
    }

    #[tokio::test]
    async fn idle_connections_make_way_for_others() {
        let mut clients = connected(1, 3_600, 2).await;
        clients[0].read_to_end(&mut Vec::new()).await.unwrap();
    }
}
