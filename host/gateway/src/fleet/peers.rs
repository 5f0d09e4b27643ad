//! The connections to other replicas: HTTP/2 with mutual authentication.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri, Version};
use http_body_util::Full;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::{debug, info, warn};

use super::keys::{DerivedKeys, FleetKeys};
use super::owner::Owner;

/// The header with the principal of the client, in base64.
pub(crate) const PRINCIPAL: HeaderName = HeaderName::from_static("context-guard-principal");
/// The header with the address of the client.
pub(crate) const ADDRESS: HeaderName = HeaderName::from_static("context-guard-address");
/// The header with the random number of the process for which a request is intended.
pub(crate) const INSTANCE: HeaderName = HeaderName::from_static("context-guard-instance");

/// The maximum time to connect to a replica, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which an unreachable replica is not tried again.
const DOWN_PAUSE: Duration = Duration::from_secs(1);
/// The time between two probes of a connection. A frozen replica delays a request for at most this
/// time and [`PROBE_TIMEOUT`].
const PROBE_INTERVAL: Duration = Duration::from_secs(3);
/// The maximum time of one probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum number of unread bytes of one response.
const STREAM_WINDOW: u32 = 1 << 20;
/// The maximum number of unread bytes of all responses of a connection.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The reason why a replica did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerError {
    /// The process has ended or is unreachable. It has not received the request.
    Gone,
    /// The connection was lost during the request, which may have been executed.
    Lost,
}

type PeerSender = SendRequest<Full<Bytes>>;

/// An open connection, and the keys that authenticated it.
struct Peer {
    sender: PeerSender,
    keys: Arc<DerivedKeys>,
}

/// The connections to other replicas, by address.
pub(super) struct Peers {
    keys: Arc<FleetKeys>,
    open: Mutex<HashMap<String, Peer>>,
    /// The unreachable replicas, with the time of the last attempt to connect.
    down: Mutex<HashMap<String, Instant>>,
}

impl Peers {
    pub(super) fn new(keys: Arc<FleetKeys>) -> Self {
        Self { keys, open: Mutex::default(), down: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Peer>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn down(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards a request to the replica `owner`, and returns its response.
    pub(super) async fn forward(
        &self,
        owner: &Owner,
        parts: &Parts,
        body: Bytes,
        principal: &str,
        address: &str,
    ) -> Result<Response, PeerError> {
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = end_to_end(&parts.headers);
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().scheme("https").authority("replica").path_and_query(path);
        *request.uri_mut() = uri.build().map_err(|_| PeerError::Gone)?;
        let headers = request.headers_mut();
        let text = |text: &str| HeaderValue::from_str(text).map_err(|_| PeerError::Gone);
        headers.insert(PRINCIPAL, text(&URL_SAFE_NO_PAD.encode(principal))?);
        headers.insert(ADDRESS, text(address)?);
        headers.insert(INSTANCE, text(&owner.instance.to_string())?);
        let mut sender = self.connect(owner).await?;
        let response = match sender.send_request(request).await {
            Ok(response) => response,
            Err(error) => {
                debug!(replica = owner.address, "lost a replica: {error}");
                self.open().remove(&owner.address);
                return Err(PeerError::Lost);
            }
        };
        if response.status() == StatusCode::GONE && response.headers().contains_key(INSTANCE) {
            return Err(PeerError::Gone);
        }
        Ok(response.map(Body::new))
    }

    /// Returns a connection to a replica. Opens one if there is none.
    async fn connect(&self, owner: &Owner) -> Result<PeerSender, PeerError> {
        let keys = self.keys.current();
        let address = &owner.address;
        if let Some(peer) = self.open().get(address)
            && !peer.sender.is_closed()
            // A connection whose keys were removed must not be used.
            && Arc::ptr_eq(&peer.keys, &keys)
        {
            return Ok(peer.sender.clone());
        }
        let is_down = self.down().get(address).is_some_and(|since| since.elapsed() < DOWN_PAUSE);
        if is_down {
            return Err(PeerError::Gone);
        }
        let opened = timeout(CONNECT_TIMEOUT, open(address, &keys)).await;
        let opened = opened.unwrap_or_else(|_| Err("no connection in time".to_owned()));
        match opened {
            Ok(sender) => {
                if self.down().remove(address).is_some() {
                    info!(replica = address, "the replica can be reached again");
                }
                let peer = Peer { sender: sender.clone(), keys };
                self.open().insert(address.clone(), peer);
                Ok(sender)
            }
            Err(reason) => {
                if self.down().insert(address.clone(), Instant::now()).is_none() {
                    warn!(replica = address, "the replica cannot be reached: {reason}");
                }
                self.forget_old();
                Err(PeerError::Gone)
            }
        }
    }

    /// Removes unreachable replicas that no request has tried for a while, because the replicas of
    /// a fleet that scales change their addresses.
    fn forget_old(&self) {
        self.open().retain(|_, peer| !peer.sender.is_closed());
        self.down().retain(|_, since| since.elapsed() < Duration::from_secs(600));
    }
}

async fn open(address: &str, keys: &DerivedKeys) -> Result<PeerSender, String> {
    let identity = keys.identity.as_ref().ok_or("there is no identity")?;
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let name = ServerName::try_from("replica").map_err(|error| error.to_string())?;
    let stream = identity.connector().connect(name, stream).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_INTERVAL)
        .keep_alive_timeout(PROBE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let address = address.to_owned();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(replica = address, "connection ended: {error}");
        }
    });
    Ok(sender)
}

/// Returns the headers that HTTP/2 may carry to another replica: those that are not hop-by-hop.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    const HOP_BY_HOP: [HeaderName; 6] = [
        CONNECTION,
        HOST,
        TRANSFER_ENCODING,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("upgrade"),
    ];
    let mut headers = headers.clone();
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers
}

/// Decodes the text in a header that another replica has encoded in base64. `None` if it is
/// invalid.
pub(crate) fn decode_text(header: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(header).ok()?).ok()
}
