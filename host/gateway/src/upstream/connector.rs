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
            self.circuit.admit()?;
        } else {
            self.circuit.check()?;
        }
        let opened = self.open_in_any_mode(preferred, client, caller, is_call).await;
        match &opened {
            Ok(_) => self.succeeded(),
            // A refusal of this client must not keep others from the upstream.
            Err(Failure::Refused(_)) => {}
            Err(failure) if failure.is_of_capacity() => {}
            Err(failure) => {
                if is_call {
                    self.failed(failure);
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
                Err(failure) => first_failure = first_failure.or(Some(failure)),
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
                let process = ChildProcess::start(self, place, &inbox)?;
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
            // A refused handshake means that the upstream does not speak the mode, unless its
            // error code has shown that it does. An unreachable upstream shows neither.
            Err(Failure::NotTranslatable(_)) if self.speaks(mode) != Some(true) => {
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
