//! An upstream as the gateway knows it: how to reach it, which eras it speaks, how it is.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;

use super::Failure;
use super::calls::Calls;
use super::child::Child;
use super::http::HttpUpstream;
use super::link::{Carrier, ClientHello, Era, Link};
use super::remote::Remote;
use crate::breaker::Breaker;
use crate::config::{EraChoice, Isolation, Upstream};
use crate::telemetry::Recorder;

/// What is known of the eras that an upstream speaks: none where nobody has asked yet.
#[derive(Clone, Copy, Debug, Default)]
struct Eras {
    legacy: Option<bool>,
    modern: Option<bool>,
}

/// An upstream.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) isolation: Isolation,
    config: Upstream,
    folder: PathBuf,
    http: Option<Arc<HttpUpstream>>,
    breaker: Breaker,
    eras: Mutex<Eras>,
    turns: tokio::sync::Semaphore,
    longest: usize,
    recorder: Arc<Recorder>,
}

impl Server {
    pub(crate) fn new(
        config: Upstream,
        folder: PathBuf,
        http: Option<Arc<HttpUpstream>>,
        longest: usize,
        recorder: Arc<Recorder>,
    ) -> Self {
        let eras = match config.era {
            EraChoice::Auto => Eras::default(),
            EraChoice::Legacy => Eras { legacy: Some(true), modern: Some(false) },
            EraChoice::Modern => Eras { legacy: Some(false), modern: Some(true) },
            EraChoice::Both => Eras { legacy: Some(true), modern: Some(true) },
        };
        Self {
            name: config.name.clone(),
            isolation: config.isolation,
            breaker: Breaker::new(
                config.limits.failures,
                Duration::from_secs(config.limits.pause_seconds),
            ),
            eras: Mutex::new(eras),
            turns: tokio::sync::Semaphore::new(config.limits.concurrency),
            config,
            folder,
            http,
            longest,
            recorder,
        }
    }

    fn eras(&self) -> std::sync::MutexGuard<'_, Eras> {
        self.eras.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection, of the era that the client speaks if the upstream speaks it.
    pub(crate) async fn open(
        self: &Arc<Self>,
        wanted: Era,
        client: &ClientHello,
        headers: &HeaderMap,
    ) -> Result<Arc<Link>, Failure> {
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
        wanted: Era,
        client: &ClientHello,
        headers: &HeaderMap,
    ) -> Result<Arc<Link>, Failure> {
        let other = match wanted {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        };
        let mut last = None;
        for era in [wanted, other] {
            if self.speaks(era) == Some(false) {
                continue;
            }
            match self.open_as(era, client, headers).await {
                Ok(link) => return Ok(link),
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
        era: Era,
        client: &ClientHello,
        headers: &HeaderMap,
    ) -> Result<Arc<Link>, Failure> {
        let (calls, unrelated) = (Arc::new(Calls::default()), Link::channel());
        let carrier = match &self.http {
            Some(http) => {
                self.started();
                Carrier::Remote(Remote::new(Arc::clone(http), era, headers.clone()))
            }
            None => Carrier::Child(Child::start(
                self,
                &self.config,
                &self.folder,
                &calls,
                &unrelated,
                self.longest,
            )?),
        };
        let agree = Link::agree(Arc::clone(self), era, client, carrier, calls, unrelated);
        let agreed = tokio::time::timeout(self.config.limits.start(), agree).await;
        let opened = agreed.unwrap_or_else(|_| {
            Err(Failure::Timeout(format!(
                "The upstream `{}` did not finish the handshake within {} s (limits.startSeconds).",
                self.name, self.config.limits.start_seconds
            )))
        });
        // What does not understand the question does not speak the era. What is not there at all says nothing about it.
        match &opened {
            Ok(_) => self.learnt(era, true),
            // Unless its error has shown that it does.
            Err(Failure::NotTranslatable(_)) if self.speaks(era) != Some(true) => {
                self.learnt(era, false);
            }
            Err(_) => {}
        }
        opened
    }

    /// Whether it speaks an era; none where nobody has asked yet.
    pub(crate) fn speaks(&self, era: Era) -> Option<bool> {
        match era {
            Era::Legacy => self.eras().legacy,
            Era::Modern => self.eras().modern,
        }
    }

    /// It has shown whether it speaks an era.
    pub(crate) fn learnt(&self, era: Era, speaks: bool) {
        match era {
            Era::Legacy => self.eras().legacy = Some(speaks),
            Era::Modern => self.eras().modern = Some(speaks),
        }
    }

    /// Asks whether it speaks an era, where that is not known.
    pub(crate) async fn ask_era(self: &Arc<Self>, era: Era, headers: &HeaderMap) -> Option<bool> {
        if self.speaks(era).is_none() {
            // What is to be known is noted on the way.
            let _ = self.open_as(era, &ClientHello::of_gateway(), headers).await;
        }
        self.speaks(era)
    }

    /// Whether it speaks the stateless era, as far as is known.
    pub(crate) fn may_be_stateless(&self) -> bool {
        self.eras().modern != Some(false)
    }

    /// Waits for a turn: so many requests at once and no more.
    pub(crate) async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
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
        self.recorder.metrics.upstream_is(&self.name, !self.is_left_alone());
    }

    /// Whether it has failed so often that it is left alone.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.breaker.is_open() || self.http.as_ref().is_some_and(|http| http.breaker.is_open())
    }
}
