//! A cursor store in Redis or Valkey: on one server, a cluster, or the master that Sentinels
//! report.
//!
//! The server expires entries. The keys of one principal share a hash slot, so that one call needs
//! one round trip.

mod channel;
mod evictions;
mod heartbeat;
mod rate;
mod remote;
mod server;
mod slots;

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use context_guard_sealing::to_hex;
use redis::{FromRedisValue, Pipeline, RedisError};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

use self::server::{Connection, Server};
use crate::health::{Health, StoreFaults};
use crate::{
    ChannelFollower, CursorStore, FLEET_PRINCIPAL, RateGrant, SlotGrant, SlotRequest, StoreError,
    Topology,
};

/// The time between a failure and the first probe of the server. It doubles with each probe.
const INITIAL_PAUSE: Duration = Duration::from_millis(25);
/// The maximum time between two probes of a server that failed.
const MAX_PAUSE: Duration = Duration::from_millis(1_600);
/// The lifetime of the entry that a probe writes.
const PROBE_TTL: Duration = Duration::from_secs(1);
/// The interval at which a waiting call checks if the server is known to be down.
const WAIT_STEP: Duration = Duration::from_millis(10);
/// The total size of values at which a batch is complete, in bytes.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// The options of a [`RedisStore`].
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The URL of the server, or those of several cluster nodes or Sentinels.
    pub urls: Vec<String>,
    /// The meaning of the URLs.
    pub topology: Topology,
    /// The prefix of every key on the server.
    pub prefix: String,
    /// The timeout of connecting and of one operation.
    pub timeout: Duration,
}

struct Remote {
    server: Server,
    connection: tokio::sync::Mutex<Option<Connection>>,
    timeout: Duration,
    health: Health,
    /// True if a connection was opened since the last failure.
    is_connected: AtomicBool,
}

/// A cursor store in Redis or Valkey. It connects at the first call and reconnects when the
/// connection is lost.
pub struct RedisStore {
    remote: Arc<Remote>,
    prefix: String,
    /// The asynchronous runtime that drives the connection. Calls of the store are synchronous and
    /// may come from any thread.
    runtime: Option<Runtime>,
}

impl RedisStore {
    /// Returns a store for the URLs of `options`. Does not connect yet.
    ///
    /// # Errors
    /// [`StoreError::InvalidUrl`] if a URL is invalid. [`StoreError::Other`] if the thread of the
    /// store cannot start.
    pub fn new(options: &RedisOptions) -> Result<Self, StoreError> {
        let setup = |error: RedisError| {
            // The URL is not part of the message because it may contain a password.
            StoreError::InvalidUrl(format!("invalid store.url: {error}"))
        };
        let server = Server::new(options).map_err(setup)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Other(error.to_string()))?;
        let remote = Remote {
            server,
            connection: tokio::sync::Mutex::default(),
            timeout: options.timeout,
            health: Health::default(),
            is_connected: AtomicBool::new(false),
        };
        let remote = Arc::new(remote);
        runtime.spawn(evictions::watch(Arc::downgrade(&remote)));
        let mut store = Self { remote, prefix: options.prefix.clone(), runtime: None };
        let probe_key = store.key(&tag(""), "probe");
        runtime.spawn(heartbeat::watch(Arc::downgrade(&store.remote), probe_key));
        store.runtime = Some(runtime);
        Ok(store)
    }

    /// Returns the key on the server for `key`. `tag` is the hash tag of the principal. In braces,
    /// it puts all keys of the principal into one hash slot of a cluster.
    fn key(&self, tag: &str, key: &str) -> String {
        format!("{}:{{{tag}}}:{key}", self.prefix)
    }

    /// Sends a pipeline of commands for keys of one principal to the server, and waits for the
    /// results.
    ///
    /// # Errors
    /// [`StoreError`]. Fails at once while the server is known to be down.
    fn run<T: FromRedisValue + Send + 'static>(
        &self,
        tag: &str,
        pipeline: Pipeline,
    ) -> Result<T, StoreError> {
        let Some(runtime) = self.runtime.as_ref().filter(|_| self.is_up()) else {
            self.remote.health.skipped();
            return Err(StoreError::Unavailable);
        };
        let (done, result) = sync_channel(1);
        let longest = self.remote.timeout * 2 + Duration::from_millis(200);
        let remote = Arc::clone(&self.remote);
        runtime.spawn(async move {
            let _ = done.send(remote.query(&pipeline).await);
        });
        let end = Instant::now() + longest;
        let answer = loop {
            match result.recv_timeout(WAIT_STEP) {
                Ok(answer) => break Some(answer),
                Err(RecvTimeoutError::Disconnected) => break None,
                // Another call or the heartbeat has found that the server is dead.
                Err(RecvTimeoutError::Timeout) if !self.is_up() => {
                    self.remote.health.skipped();
                    return Err(StoreError::Unavailable);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let reason = match answer {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) if is_full(&error) => {
                self.remote.health.full();
                return Err(StoreError::QuotaExceeded);
            }
            Some(Err(error)) => error.to_string(),
            None => "it does not answer in time".to_owned(),
        };
        if self.remote.health.failed(&reason) {
            // The key is in the hash slot of the failed call: another node of a cluster may be up.
            let key = self.key(tag, "probe");
            runtime.spawn(probe(Arc::downgrade(&self.remote), key));
        }
        Err(StoreError::Unavailable)
    }
}

/// Returns true if the server reports that it has no memory left. A pipeline reports its first
/// error only as text, so the text is searched.
fn is_full(error: &RedisError) -> bool {
    error.to_string().contains("OOM")
}

/// Returns true if the server reports that it accepts no writes, because it is a replica or its
/// disk is full. A pipeline reports its first error only as text.
fn is_read_only(error: &RedisError) -> bool {
    let text = error.to_string();
    // The client library has a name of its own for the code READONLY.
    ["READONLY", "ReadOnly", "MISCONF"].iter().any(|code| text.contains(code))
}

/// Writes a key repeatedly until that succeeds. Meanwhile, no call has to wait for a server that is
/// down.
async fn probe(remote: Weak<Remote>, key: String) {
    let mut pause = INITIAL_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
        let Some(remote) = remote.upgrade() else { return };
        let mut set = redis::pipe();
        set.cmd("SET").arg(&key).arg("").arg("PX").arg(millis(PROBE_TTL)).ignore();
        match remote.query::<()>(&set).await {
            Err(error) if !is_full(&error) => {}
            _ => return remote.health.recovered(),
        }
    }
}

/// Returns the hash tag of a principal: a digest of its name, because the server must not learn the
/// name.
fn tag(principal: &str) -> String {
    let digest = Sha256::digest(principal.as_bytes());
    to_hex(digest.get(..10).unwrap_or(&digest))
}

/// Returns the call of a script with one key. The caller adds its arguments.
fn script_of_key(script: &str, key: &str) -> Pipeline {
    let mut call = redis::pipe();
    call.cmd("EVAL").arg(script).arg(1).arg(key);
    call
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl CursorStore for RedisStore {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let tag = tag(principal);
        let mut values = Vec::with_capacity(keys.len());
        // Segments have at most 64 KiB, so this number of them fits one batch.
        for keys in keys.chunks(MAX_BATCH_BYTES >> 16) {
            let mut get = redis::pipe();
            get.cmd("MGET").arg(keys.iter().map(|key| self.key(&tag, key)).collect::<Vec<_>>());
            let (found,): (Vec<Option<Vec<u8>>>,) = self.run(&tag, get)?;
            values.extend(found.into_iter().map(|value| value.map(Bytes::from)));
        }
        Ok(values)
    }

    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let tag = tag(principal);
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let (mut put, mut bytes) = (redis::pipe(), 0);
            while let Some((key, value)) = entries.next_if(|_| bytes < MAX_BATCH_BYTES) {
                bytes += value.len();
                put.cmd("SET")
                    .arg(self.key(&tag, &key))
                    .arg(value)
                    .arg("PX")
                    .arg(millis(ttl))
                    .ignore();
            }
            self.run::<()>(&tag, put)?;
        }
        Ok(())
    }

    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let tag = tag(principal);
        let mut extend = redis::pipe();
        for key in keys {
            extend.cmd("PEXPIRE").arg(self.key(&tag, key)).arg(millis(ttl)).ignore();
        }
        self.run(&tag, extend)
    }

    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let tag = tag(principal);
        let keys: Vec<String> = keys.iter().map(|key| self.key(&tag, key)).collect();
        let mut delete = redis::pipe();
        delete.cmd("UNLINK").arg(keys).ignore();
        self.run(&tag, delete)
    }

    fn take(
        &self,
        owner: &str,
        interval: Duration,
        tolerance: Duration,
        count: u32,
        unspent: u32,
    ) -> Result<RateGrant, StoreError> {
        let tag = tag(owner);
        let command = rate::command(&self.key(&tag, "rate"), interval, tolerance, count, unspent);
        let (result,) = self.run::<((u32, u64),)>(&tag, command)?;
        Ok(rate::grant(result))
    }

    fn hold_slots(&self, owner: &str, request: &SlotRequest) -> Result<SlotGrant, StoreError> {
        let tag = tag(owner);
        let command = slots::command(&self.key(&tag, "slots"), request);
        let (result,) = self.run::<((u32, u32),)>(&tag, command)?;
        Ok(slots::grant(result))
    }

    fn read_foreign(&self, key: &str, start: usize, length: usize) -> Result<Bytes, StoreError> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let mut range = redis::pipe();
        // The last byte is part of the range.
        let end = start.saturating_add(length - 1);
        range.cmd("GETRANGE").arg(key).arg(start).arg(end);
        let (value,) = self.run::<(Vec<u8>,)>(&tag(FLEET_PRINCIPAL), range)?;
        Ok(value.into())
    }

    fn exchange(
        &self,
        board: &str,
        written: Vec<(String, Vec<u8>)>,
        removed: &[String],
        ttl: Duration,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        let tag = tag(FLEET_PRINCIPAL);
        let key = self.key(&tag, board);
        let mut exchange = redis::pipe();
        if !removed.is_empty() {
            exchange.cmd("HDEL").arg(&key).arg(removed).ignore();
        }
        if !written.is_empty() {
            exchange.cmd("HSET").arg(&key).arg(written).ignore();
        }
        exchange.cmd("PEXPIRE").arg(&key).arg(millis(ttl)).ignore();
        exchange.cmd("HGETALL").arg(&key);
        let (fields,) = self.run::<(Vec<(String, Vec<u8>)>,)>(&tag, exchange)?;
        Ok(fields.into_iter().map(|(name, value)| (name, value.into())).collect())
    }

    fn publish(&self, channel: &str, message: Vec<u8>) -> Result<(), StoreError> {
        let tag = tag(FLEET_PRINCIPAL);
        let mut publish = redis::pipe();
        publish.cmd("PUBLISH").arg(self.key(&tag, channel)).arg(message).ignore();
        self.run(&tag, publish)
    }

    fn follow(&self, channel: &str, follower: ChannelFollower) -> Result<(), StoreError> {
        let runtime = self.runtime.as_ref().ok_or(StoreError::Unavailable)?;
        let name = self.key(&tag(FLEET_PRINCIPAL), channel);
        runtime.spawn(channel::follow(Arc::downgrade(&self.remote), name, follower));
        Ok(())
    }

    fn may_block(&self) -> bool {
        true
    }

    fn is_up(&self) -> bool {
        self.remote.health.is_up()
    }

    fn faults(&self) -> StoreFaults {
        self.remote.health.faults()
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        // Dropping a runtime inside another runtime panics, so it is shut down in the background.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
