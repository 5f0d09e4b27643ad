//! Listens for client connections, plain or TLS, over HTTP/1 and HTTP/2. At shutdown it waits for
//! requests in flight.

use std::convert::Infallible;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::activity::{ActiveRequest, Activity};
use super::certificates::{Acceptor, client_name};
use super::client_body::{DiscardedRest, RequestBody, ResponseBody};
use super::client_stream::{ClientStream, DISCARD_BYTES};
use super::connections::{ClientConnections, OpenConnection};
use super::proxy_protocol::read_client;
use crate::access::{ClientName, client_network};
use crate::config::Timeouts;
use crate::telemetry::Recorder;
use crate::{Error, Result};

/// The maximum time for which the shutdown waits for admin requests in flight.
pub(crate) const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// The maximum number of bytes that an HTTP/1 connection buffers, which limits request heads.
const MAX_HTTP1_BUFFER: usize = 128 << 10;
/// The maximum number of concurrent requests of an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// The maximum number of unread bytes of an HTTP/2 request. The gateway does not read requests that
/// wait for a permit.
const STREAM_WINDOW: u32 = 256 << 10;
/// The maximum number of unread bytes of all requests of an HTTP/2 connection.
const CONNECTION_WINDOW: u32 = 512 << 10;

/// The TCP keep-alive probes of silent connections. Without them, the event stream of a client that
/// has lost its network would never close.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));

/// Binds a TCP listener to an address such as `127.0.0.1:8080`.
pub(crate) async fn bind(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        Error::Setup(format!(
            "cannot listen on {address}: {error} (is another gateway running? `listen` sets the address)"
        ))
    })
}

/// A listener with its protocol and limits.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) connections: Arc<ClientConnections>,
    pub(crate) timeouts: Timeouts,
    /// A function that returns true for the addresses of trusted proxies. Their connections do not
    /// count against the limit of an address, because they carry the requests of many clients.
    pub(crate) is_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// True if connections of trusted proxies begin with a PROXY protocol header.
    pub(crate) uses_proxy_protocol: bool,
    pub(crate) recorder: Arc<Recorder>,
}

impl Listener {
    /// Serves connections until `stop` resolves, then waits at most `drain` for requests in flight.
    pub(crate) async fn serve(
        self,
        router: Router,
        stop: impl Future<Output = ()>,
        drain: Duration,
    ) {
        let tasks = TaskTracker::new();
        let shared = Arc::new(Shared {
            builder: builder(),
            tls: self.tls,
            router,
            timeouts: self.timeouts,
            is_proxy: self.is_proxy,
            uses_proxy_protocol: self.uses_proxy_protocol,
            recorder: self.recorder,
            draining: CancellationToken::new(),
        });
        let mut stop = std::pin::pin!(stop);
        loop {
            let (stream, peer) = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Most likely, no file descriptor is free. Retrying at once would spin
                        // until a connection closes.
                        warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = &mut stop => break,
            };
            let open = self.connections.add().filter(|open| shared.admit(open, peer));
            let Some(open) = open else {
                shared.recorder.metrics.connection_refused();
                refuse(stream, shared.tls.is_some());
                continue;
            };
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                if let Err(error) = shared.connection(stream, peer, &open).await {
                    debug!(%peer, "connection ended: {error}");
                }
            });
        }
        drop(self.socket);
        shared.draining.cancel();
        tasks.close();
        if tokio::time::timeout(drain, tasks.wait()).await.is_err() {
            warn!(
                "requests were still in flight after {} s (limits.drainSeconds)",
                drain.as_secs()
            );
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(MAX_HTTP1_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

/// The response on a connection that exceeds the limit.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Connection: close\r\nContent-Length: 0\r\n\r\n";

/// Sends [`REFUSAL`] on a connection that exceeds the limit. Does nothing for TLS, which would need
/// a handshake.
fn refuse(stream: TcpStream, uses_tls: bool) {
    if !uses_tls && let Ok(mut stream) = stream.into_std() {
        // The socket does not block. A new one has room for these bytes.
        let _ = stream.write_all(REFUSAL);
        // Unread bytes would reset the connection, and the client might lose the refusal.
        let _ = stream.read(&mut [0; DISCARD_BYTES]);
    }
}

/// The state that all connections of a listener share.
struct Shared {
    builder: Builder<TokioExecutor>,
    tls: Option<Acceptor>,
    router: Router,
    timeouts: Timeouts,
    is_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    uses_proxy_protocol: bool,
    recorder: Arc<Recorder>,
    /// Cancelled when the listener stops.
    draining: CancellationToken,
}

impl Shared {
    /// Counts a connection for the address of its client. Returns false if the address has too
    /// many.
    fn admit(&self, open: &OpenConnection, client: SocketAddr) -> bool {
        let address = client.ip().to_canonical();
        (self.is_proxy)(address) || open.assign(client_network(address))
    }

    async fn connection(
        &self,
        stream: TcpStream,
        mut peer: SocketAddr,
        open: &OpenConnection,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_keepalive(&KEEP_ALIVE)?;
        let activity = &open.activity;
        let mut stream = ClientStream::new(stream, Arc::clone(activity));
        if self.uses_proxy_protocol && (self.is_proxy)(peer.ip()) {
            peer = tokio::select! {
                client = read_client(&mut stream, peer) => client?,
                () = activity.expired(&self.timeouts) => return Ok(()),
                () = activity.evicted() => return Ok(()),
                () = self.draining.cancelled() => return Ok(()),
            };
            if !self.admit(open, peer) {
                self.recorder.metrics.connection_refused();
                if self.tls.is_none() {
                    stream.write_all(REFUSAL).await?;
                    // The head of the request, which nobody reads.
                    activity.left_body();
                }
                return Ok(stream.shutdown().await?);
            }
        }
        let Some(tls) = &self.tls else {
            return self.exchange(stream, peer, None, activity).await;
        };
        let stream = tokio::select! {
            accepted = tls.current().accept(stream) => accepted?,
            () = activity.expired(&self.timeouts) => return Ok(()),
            () = activity.evicted() => return Ok(()),
            () = self.draining.cancelled() => return Ok(()),
        };
        let client = client_name(stream.get_ref().1);
        self.exchange(stream, peer, client, activity).await
    }

    /// Serves the requests of a connection until it ends, is idle for too long, or is evicted.
    /// `client` is the name in the client's certificate. `None` without a certificate.
    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        client: Option<ClientName>,
        activity: &Arc<Activity>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (router, shared_activity) = (self.router.clone(), Arc::clone(activity));
        let service = service_fn(move |request: http::Request<Incoming>| {
            let active = ActiveRequest::begin(&shared_activity, request.version());
            let (router, version) = (router.clone(), request.version());
            let body_activity = Arc::clone(&shared_activity);
            let client = client.clone();
            let rest = DiscardedRest::default();
            async move {
                let mut request = request.map(|body| {
                    Body::new(RequestBody::new(body, version, rest.clone(), body_activity))
                });
                request.extensions_mut().insert(peer);
                if let Some(client) = client {
                    request.extensions_mut().insert(client);
                }
                let response = match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                rest.wait().await;
                // The request is active until its response has been sent.
                Ok::<_, Infallible>(response.map(|body| ResponseBody::new(body, active)))
            }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut is_closing = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = activity.evicted() => return Ok(()),
                () = activity.expired(&self.timeouts) => {
                    if is_closing {
                        return Ok(());
                    }
                    is_closing = true;
                    activity.closing();
                    connection.as_mut().graceful_shutdown();
                }
                () = self.draining.cancelled(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
