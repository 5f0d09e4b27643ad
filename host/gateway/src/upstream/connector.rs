//! Opens connections to an upstream, in a protocol mode that it speaks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::child_process::{ChildProcess, not_started};
use super::connection::{Transport, UpstreamConnection};
use super::server::UpstreamServer;
use super::{CallerHeaders, Failure};
use crate::config::Isolation;
use crate::protocol_mode::{ClientInfo, ProtocolMode};

/// The owner of processes that all callers share. No principal has this name: those of
/// authenticated callers begin with their kind, such as `key:`.
const EVERYBODY: &str = "all callers";

/// The time after which a starting process exchanges its start permit for that of a slow one, as
/// soon as there is one. The time limit of the handshake bounds its wait.
const MAX_START_TURN: Duration = Duration::from_secs(5);

impl UpstreamServer {
    /// Opens a connection in the preferred protocol mode, or in the other one if that fails.
    /// `client` and `caller` describe the client on whose behalf the gateway connects.
    ///
    /// The circuit breaker counts a failure if `is_call` is true, which means that a client's call
    /// needs the connection.
    pub(crate) async fn open(
        self: &Arc<Self>,
        preferred: ProtocolMode,
        client: &ClientInfo,
        caller: &CallerHeaders,
        is_call: bool,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        if is_call {
            self.circuit.admit(&caller.owner)?;
        } else {
            self.circuit.check()?;
        }
        let opened = self.open_in_any_mode(preferred, client, caller, is_call).await;
        match &opened {
            Ok(_) => self.succeeded(),
            // A refusal of this client, or of its description of itself, must not keep others from
            // the upstream.
            Err(Failure::Refused(_) | Failure::NotTranslatable(_)) => {}
            Err(failure) if failure.is_of_capacity() => {}
            Err(failure) => {
                if is_call {
                    self.connection_failed(failure, &caller.owner);
                }
                // No process runs, for any client. HTTP upstreams may refuse one client.
                if self.http.is_none() && !self.processes.are_ending() {
                    self.circuit.availability.down(&failure.to_string());
                }
            }
        }
        opened
    }

    async fn open_in_any_mode(
        self: &Arc<Self>,
        preferred: ProtocolMode,
        client: &ClientInfo,
        caller: &CallerHeaders,
        is_call: bool,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        let other = match preferred {
            ProtocolMode::Stateful => ProtocolMode::Stateless,
            ProtocolMode::Stateless => ProtocolMode::Stateful,
        };
        let mut first_failure = None;
        for mode in [preferred, other] {
            if self.speaks(mode) == Some(false) {
                continue;
            }
            match self.open_in_mode(mode, client, caller, is_call).await {
                Ok(connection) => {
                    // Servers of some SDKs exit on a request that they do not expect before
                    // `initialize`. Each later process would end in the same way.
                    if mode == other
                        && self.http.is_none()
                        && self.speaks(preferred).is_none()
                        && matches!(first_failure, Some(Failure::Unavailable(_)))
                    {
                        self.set_speaks(preferred, false);
                    }
                    return Ok(connection);
                }
                // The other mode needs a process, too.
                Err(failure) if failure.is_of_capacity() => return Err(failure),
                Err(failure) => {
                    // The upstream may have refused the description of this client. Only a probe
                    // of the gateway's own shows that it does not speak the mode.
                    if matches!(failure, Failure::NotTranslatable(_)) {
                        self.probe_mode(mode, caller).await;
                    }
                    first_failure = first_failure.or(Some(failure));
                }
            }
        }
        Err(first_failure.unwrap_or_else(|| {
            Failure::NotTranslatable(format!(
                "The upstream `{}` speaks no supported protocol version of MCP.",
                self.name
            ))
        }))
    }

    async fn open_in_mode(
        self: &Arc<Self>,
        mode: ProtocolMode,
        client: &ClientInfo,
        caller: &CallerHeaders,
        is_call: bool,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        let limits = &self.config.limits;
        let opened = match &self.http {
            Some(http) => timeout(limits.start(), self.open_http(http, mode, client, caller)).await,
            None => {
                let (inbox, is_shared) = (self.new_inbox(), self.isolation == Isolation::Shared);
                let owner = if is_shared { &EVERYBODY.into() } else { &caller.owner };
                // The waits for a place and for a turn are no part of the handshake.
                let entered = self.processes.enter(&self.name, owner, &inbox, is_call).await;
                let (place, turn) = entered
                    .map_err(|reason| Failure::NoCapacity(not_started(&self.name, reason)))?;
                let process = ChildProcess::start(self, &caller.owner, place, &inbox)?;
                let (server, transport) = (Arc::clone(self), Transport::Process(process));
                let table = Arc::clone(&inbox);
                let handshake = async {
                    let opened =
                        UpstreamConnection::handshake(server, mode, client, transport, inbox).await;
                    // A process that was ended for another one has not failed.
                    opened.map_err(|failure| table.requests.eviction().unwrap_or(failure))
                };
                let mut handshake = pin!(timeout(limits.start(), handshake));
                // Servers that start slowly must not delay all others. Without a limit for them, a
                // loaded machine would start ever more, and none in time.
                let slow_turn = async {
                    tokio::time::sleep(MAX_START_TURN).await;
                    self.processes.starting_slowly().await
                };
                tokio::select! {
                    opened = &mut handshake => opened,
                    _slow_turn = slow_turn => {
                        drop(turn);
                        handshake.await
                    }
                }
            }
        };
        let opened = opened.unwrap_or_else(|_| {
            Err(Failure::Timeout(format!(
                "The upstream `{}` did not finish the handshake within {} s \
                 (upstreams[].limits.startSeconds).",
                self.name, limits.start_seconds
            )))
        });
        match &opened {
            Ok(_) => self.set_speaks(mode, true),
            // A refused handshake of the gateway means that the upstream does not speak the mode,
            // unless its error code has shown that it does. The refusal of another client may be
            // the fault of that client. An unreachable upstream shows neither.
            Err(Failure::NotTranslatable(_))
                if *client == ClientInfo::gateway() && self.speaks(mode) != Some(true) =>
            {
                self.set_speaks(mode, false);
            }
            Err(_) => {}
        }
        opened
    }

    /// Returns true if the upstream speaks a protocol mode. Tries the mode if that is not known
    /// yet. `None` if the attempt is inconclusive, for example because the upstream is unreachable.
    pub(crate) async fn probe_mode(
        self: &Arc<Self>,
        mode: ProtocolMode,
        caller: &CallerHeaders,
    ) -> Option<bool> {
        if self.speaks(mode).is_none() {
            // The attempt records its result in the known modes.
            let _ = self.open_in_mode(mode, &ClientInfo::gateway(), caller, true).await;
        }
        self.speaks(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Limits, Upstream};
    use crate::store::clock::SystemClock;
    use crate::stream_limits::StreamLimits;
    use crate::telemetry::Recorder;
    use crate::upstream::processes::Processes;

    /// A stateful server that refuses the handshake of a client with the capability `bad`.
    const SERVER: &str = r#"
        id=0
        while read -r line; do
            case "$line" in *'"id"'*) ;; *) continue ;; esac
            id=$((id + 1))
            case "$line" in
            *'"bad"'* | *'"server/discover"'*) answer='"error":{"code":-32602,"message":"Invalid params"}' ;;
            *) answer='"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}' ;;
            esac
            echo '{"jsonrpc":"2.0","id":'$id','$answer'}'
        done"#;

    fn server() -> Arc<UpstreamServer> {
        let config = Upstream {
            name: "s".to_owned(),
            command: ["sh", "-c", SERVER].map(str::to_owned).to_vec(),
            ..Upstream::default()
        };
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let (folder, max_bytes) = (std::env::temp_dir(), Limits::default().response_bytes);
        let processes = Processes::new(8, 8);
        Arc::new(UpstreamServer::new(config, folder, None, max_bytes, processes, recorder))
    }

    fn caller(principal: &str) -> CallerHeaders {
        CallerHeaders {
            principal: principal.into(),
            owner: principal.into(),
            headers: http::HeaderMap::new(),
            streams: StreamLimits::new(&crate::config::Limits::default()),
        }
    }

    #[tokio::test]
    async fn refused_descriptions_affect_only_their_client() {
        let server = server();
        let bad = ClientInfo::new("2025-11-25", r#"{"bad":1}"#.into(), "{}".into()).unwrap();
        // The first refusal precedes all successful handshakes. The number exceeds
        // `limits.failures`.
        for _ in 0..6 {
            let refused = server.open(ProtocolMode::Stateful, &bad, &caller("mallory"), true).await;
            let refused = refused.err();
            assert!(matches!(refused, Some(Failure::NotTranslatable(_))), "{refused:?}");
            assert_eq!(server.speaks(ProtocolMode::Stateful), Some(true));
            assert_eq!(server.speaks(ProtocolMode::Stateless), Some(false));
            assert!(!server.circuit.is_open() && !server.circuit.availability.is_down());
        }
        let good = ClientInfo::new("2025-11-25", "{}".into(), "{}".into()).unwrap();
        for mode in [ProtocolMode::Stateful, ProtocolMode::Stateless] {
            let opened = server.open(mode, &good, &caller("alice"), true).await;
            assert_eq!(opened.unwrap().mode, ProtocolMode::Stateful);
        }
    }
}
