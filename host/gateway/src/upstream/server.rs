//! An upstream as the gateway knows it: how to reach it, which modes it speaks, how it is.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;

use super::Failure;
use super::child_process::ChildProcess;
use super::connection::{ClientInfo, ProtocolMode, Transport, UpstreamConnection};
use super::http_upstream::HttpUpstream;
use super::request_table::RequestTable;
use super::streamable_http::StreamableHttp;
use crate::config::{Isolation, ProtocolModeSetting, Upstream};
use crate::store::Breaker;
use crate::telemetry::Recorder;

/// What is known of the modes that an upstream speaks: none where nobody has asked yet.
#[derive(Clone, Copy, Debug, Default)]
struct KnownModes {
    stateful: Option<bool>,
    stateless: Option<bool>,
}

/// An upstream.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) isolation: Isolation,
    config: Upstream,
    folder: PathBuf,
    http: Option<Arc<HttpUpstream>>,
    breaker: Breaker,
    modes: Mutex<KnownModes>,
    permits: tokio::sync::Semaphore,
    max_bytes: usize,
    recorder: Arc<Recorder>,
}

impl Server {
    pub(crate) fn new(
        config: Upstream,
        folder: PathBuf,
        http: Option<Arc<HttpUpstream>>,
        max_bytes: usize,
        recorder: Arc<Recorder>,
    ) -> Self {
        let modes = match config.era {
            ProtocolModeSetting::Auto => KnownModes::default(),
            ProtocolModeSetting::Stateful => {
                KnownModes { stateful: Some(true), stateless: Some(false) }
            }
            ProtocolModeSetting::Stateless => {
                KnownModes { stateful: Some(false), stateless: Some(true) }
            }
            ProtocolModeSetting::Both => KnownModes { stateful: Some(true), stateless: Some(true) },
        };
        Self {
            name: config.name.clone(),
            isolation: config.isolation,
            breaker: Breaker::new(
                config.limits.failures,
                Duration::from_secs(config.limits.pause_seconds),
            ),
            modes: Mutex::new(modes),
            permits: tokio::sync::Semaphore::new(config.limits.concurrency),
            config,
            folder,
            http,
            max_bytes,
            recorder,
        }
    }

    fn modes(&self) -> std::sync::MutexGuard<'_, KnownModes> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection, of the era that the client speaks if the upstream speaks it.
    pub(crate) async fn open(
        self: &Arc<Self>,
        wanted: ProtocolMode,
        client: &ClientInfo,
        headers: &HeaderMap,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        self.breaker.admit(Instant::now()).map_err(|wait| {
            Failure::Unavailable(format!(
                "The upstream `{}` has failed several times in a row and is left alone for {} s more.",
                self.name,
                wait.as_secs() + 1
            ))
        })?;
        let opened = self.open_some(wanted, client, headers).await;
        match &opened {
            Ok(_) => self.succeeded(),
            Err(_) => self.failed(),
        }
        opened
    }

    async fn open_some(
        self: &Arc<Self>,
        wanted: ProtocolMode,
        client: &ClientInfo,
        headers: &HeaderMap,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        let other = match wanted {
            ProtocolMode::Stateful => ProtocolMode::Stateless,
            ProtocolMode::Stateless => ProtocolMode::Stateful,
        };
        let mut last = None;
        for mode in [wanted, other] {
            if self.speaks(mode) == Some(false) {
                continue;
            }
            match self.open_as(mode, client, headers).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => last = last.or(Some(failure)),
            }
        }
        Err(last.unwrap_or_else(|| {
            Failure::NotTranslatable(format!(
                "The upstream `{}` speaks no revision of MCP that is known here.",
                self.name
            ))
        }))
    }

    async fn open_as(
        self: &Arc<Self>,
        mode: ProtocolMode,
        client: &ClientInfo,
        headers: &HeaderMap,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        let (requests, unrelated) =
            (Arc::new(RequestTable::default()), UpstreamConnection::channel());
        let transport = match &self.http {
            Some(http) => {
                self.started();
                Transport::StreamableHttp(StreamableHttp::new(
                    Arc::clone(http),
                    mode,
                    headers.clone(),
                ))
            }
            None => Transport::ChildProcess(ChildProcess::start(
                self,
                &self.config,
                &self.folder,
                &requests,
                &unrelated,
                self.max_bytes,
            )?),
        };
        let agree = UpstreamConnection::agree(
            Arc::clone(self),
            mode,
            client,
            transport,
            requests,
            unrelated,
        );
        let agreed = tokio::time::timeout(self.config.limits.start(), agree).await;
        let opened = agreed.unwrap_or_else(|_| {
            Err(Failure::Timeout(format!(
                "The upstream `{}` did not finish the handshake within {} s (limits.startSeconds).",
                self.name, self.config.limits.start_seconds
            )))
        });
        // What does not understand the question does not speak the era. What is not there at all says nothing about it.
        match &opened {
            Ok(_) => self.set_mode(mode, true),
            // Unless its error has shown that it does.
            Err(Failure::NotTranslatable(_)) if self.speaks(mode) != Some(true) => {
                self.set_mode(mode, false);
            }
            Err(_) => {}
        }
        opened
    }

    /// Whether it speaks a mode; none where nobody has asked yet.
    pub(crate) fn speaks(&self, mode: ProtocolMode) -> Option<bool> {
        match mode {
            ProtocolMode::Stateful => self.modes().stateful,
            ProtocolMode::Stateless => self.modes().stateless,
        }
    }

    /// It has shown whether it speaks an era.
    pub(crate) fn set_mode(&self, mode: ProtocolMode, speaks: bool) {
        match mode {
            ProtocolMode::Stateful => self.modes().stateful = Some(speaks),
            ProtocolMode::Stateless => self.modes().stateless = Some(speaks),
        }
    }

    /// Asks whether it speaks a mode, where that is not known.
    pub(crate) async fn probe_mode(
        self: &Arc<Self>,
        mode: ProtocolMode,
        headers: &HeaderMap,
    ) -> Option<bool> {
        if self.speaks(mode).is_none() {
            // What is to be known is noted on the way.
            let _ = self.open_as(mode, &ClientInfo::gateway(), headers).await;
        }
        self.speaks(mode)
    }

    /// Whether it speaks the stateless mode, as far as is known.
    pub(crate) fn may_be_stateless(&self) -> bool {
        self.modes().stateless != Some(false)
    }

    /// Waits for a turn: so many requests at once and no more.
    pub(crate) async fn permit(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> std::time::Duration {
        self.config.limits.timeout()
    }

    /// A process or session was started.
    pub(super) fn started(&self) {
        self.recorder.metrics.upstream_started(&self.name);
    }

    pub(crate) fn succeeded(&self) {
        self.breaker.succeeded();
        self.recorder.metrics.upstream_is(&self.name, true);
    }

    pub(crate) fn failed(&self) {
        self.breaker.failed(Instant::now());
        self.recorder.metrics.upstream_failed(&self.name);
        self.recorder.metrics.upstream_is(&self.name, !self.is_circuit_open());
    }

    /// Whether it has failed so often that it is left alone.
    pub(crate) fn is_circuit_open(&self) -> bool {
        self.breaker.is_open() || self.http.as_ref().is_some_and(|http| http.breaker.is_open())
    }
}
