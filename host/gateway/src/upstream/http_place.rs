//! The places of connections to upstreams over HTTP. Each has an event stream of its own.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::inbox::Inbox;
use super::places::{EVERYBODY, UpstreamPlace};
use super::server::UpstreamServer;
use super::{CallerHeaders, Failure};
use crate::config::Isolation;

/// The place of a connection over HTTP, which is free when this is dropped.
pub(super) struct HttpPlace {
    _held: DropGuard,
}

impl UpstreamServer {
    /// Waits for the place of a connection over HTTP, whose messages arrive in `inbox`.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the caller, or all callers together, have too many connections, and
    /// none of these is idle.
    pub(super) async fn enter_http(
        &self,
        caller: &CallerHeaders,
        inbox: &Arc<Inbox>,
    ) -> Result<UpstreamPlace, Failure> {
        let is_shared = self.isolation == Isolation::Shared;
        let owner = if is_shared { &EVERYBODY.into() } else { &caller.owner };
        self.connections.enter(&self.name, owner, inbox).await.map_err(|reason| {
            let name = &self.name;
            Failure::Refused(format!("The upstream `{name}` cannot be connected: {reason}."))
        })
    }
}

impl HttpPlace {
    /// Holds a place until the returned value is dropped. If another connection needs the place
    /// before, later requests of this one fail, so that it is replaced, and `close` closes its
    /// event stream.
    pub(super) fn hold(
        place: UpstreamPlace,
        inbox: &Arc<Inbox>,
        close: impl FnOnce() + Send + 'static,
    ) -> Self {
        let dropped = CancellationToken::new();
        let held = dropped.clone().drop_guard();
        let inbox = Arc::clone(inbox);
        tokio::spawn(async move {
            tokio::select! {
                () = dropped.cancelled() => {}
                () = place.end.cancelled() => {
                    let reason = "another connection needed the place of this one".to_owned();
                    inbox.requests.end(&Failure::Unavailable(reason));
                    close();
                }
            }
        });
        Self { _held: held }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    use super::*;
    use crate::access::http_client;
    use crate::config::{ProtocolModeSetting, Upstream};
    use crate::headers::ForwardedCredentials;
    use crate::protocol_mode::{ClientInfo, ProtocolMode};
    use crate::store::clock::SystemClock;
    use crate::telemetry::Recorder;
    use crate::upstream::client::UpstreamClient;
    use crate::upstream::connection::UpstreamConnection;
    use crate::upstream::http_upstream::HttpUpstream;
    use crate::upstream::places::UpstreamPlaces;
    use crate::upstream::processes::Processes;

    /// Answers the requests of one TCP connection as a stateful server. Reports when its event
    /// stream opens (true) and closes (false).
    async fn answer(stream: TcpStream, streams: mpsc::UnboundedSender<bool>) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut line, mut length, mut method) = (String::new(), 0, String::new());
            while stream.read_line(&mut line).await.ok()? > 2 {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
                if method.is_empty() {
                    method = line.split(' ').next()?.to_owned();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            let result = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;
            let reply = match method.as_str() {
                "GET" => "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned(),
                "POST" if body.windows(12).any(|part| part == b"\"initialize\"") => format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\nContent-Length: {}\r\n\r\n{result}",
                    result.len()
                ),
                _ => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            stream.write_all(reply.as_bytes()).await.ok()?;
            if method == "GET" {
                streams.send(true).ok()?;
                let _ = stream.read(&mut [0; 1]).await;
                streams.send(false).ok()?;
                return None;
            }
        }
    }

    async fn upstream(
        max: usize,
        per_owner: usize,
    ) -> (Arc<UpstreamServer>, mpsc::UnboundedReceiver<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (streams, opened) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, streams.clone()));
            }
        });
        let era = ProtocolModeSetting::Stateful;
        let config = Upstream { name: "s".to_owned(), era, ..Upstream::default() };
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let (client, credentials) =
            (UpstreamClient::Shared(Box::new(http_client())), ForwardedCredentials::None);
        let metrics = Arc::clone(&recorder);
        let http = HttpUpstream::new(&config, &url, credentials, None, 10_000, client, metrics);
        let (http, folder) = (Some(Arc::new(http.unwrap())), std::env::temp_dir());
        let places = UpstreamPlaces::of_connections(max, per_owner);
        let processes = Processes::new(1, 1);
        let server = UpstreamServer::new(config, folder, http, 10_000, processes, places, recorder);
        (Arc::new(server), opened)
    }

    async fn open(server: &Arc<UpstreamServer>, owner: &str) -> Arc<UpstreamConnection> {
        let headers = http::HeaderMap::new();
        let caller = CallerHeaders { principal: owner.into(), owner: owner.into(), headers };
        let client = ClientInfo::gateway();
        server.open(ProtocolMode::Stateful, &client, &caller, true).await.unwrap()
    }

    #[tokio::test]
    async fn idle_connection_of_the_owner_makes_room() {
        let (server, mut streams) = upstream(10, 2).await;
        let of_bob = open(&server, "bob").await;
        let first = open(&server, "alice").await;
        let second = open(&server, "alice").await;
        for _ in 0..3 {
            assert_eq!(streams.recv().await, Some(true));
        }
        let third = open(&server, "alice").await;
        assert!(first.has_ended());
        assert!([&of_bob, &second, &third].iter().all(|connection| !connection.has_ended()));
        // The stream of the first closes, and that of the third opens.
        let mut changes = [streams.recv().await, streams.recv().await];
        changes.sort();
        assert_eq!(changes, [Some(false), Some(true)]);
        // A closed connection frees its place at once.
        drop(second);
        assert_eq!(streams.recv().await, Some(false));
        let fourth = open(&server, "alice").await;
        assert!(!third.has_ended() && !fourth.has_ended());
    }
}
