//! Load from many clients.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::gateway::HttpClient;

/// Returns the number after a command-line flag, or the default.
#[must_use]
pub fn number(name: &str, default: u32) -> u32 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The counters and latencies of all clients.
#[derive(Default)]
pub struct Counts {
    /// The number of requests.
    pub requests: AtomicU64,
    /// The number of requests that failed or returned an error.
    pub errors: AtomicU64,
    last_error: Mutex<String>,
    micros: Mutex<Vec<u64>>,
}

impl Counts {
    /// Returns the latest error.
    #[must_use]
    pub fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns quantiles of the latency, in milliseconds.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let micros = self.micros.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times: Vec<Duration> = micros.iter().copied().map(Duration::from_micros).collect();
        drop(micros);
        quantiles(&mut times, shares)
    }
}

/// Sorts times, and returns quantiles of them in milliseconds.
pub fn quantiles<const N: usize>(times: &mut [Duration], shares: [f64; N]) -> [f64; N] {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a list of times"
    )]
    let at = |share: f64| {
        let index = ((times.len() as f64 * share) as usize).min(last);
        times.get(index).copied().unwrap_or_default().as_secs_f64() * 1_000.0
    };
    shares.map(at)
}

/// The gateway and the tool that clients call.
#[derive(Clone, Debug)]
pub struct LoadTarget {
    /// The MCP endpoint.
    pub url: String,
    /// The values of the header `Authorization`, which the clients use in turn. Empty for clients
    /// without this header.
    pub keys: Vec<String>,
    /// The tool of the example server for properties that lists bookings, by its name there.
    pub tool: String,
}

/// Runs a client: reads a list and its next page, in turn.
fn client(
    target: &LoadTarget,
    key: Option<&str>,
    pause: Duration,
    counts: &Counts,
    stop: &AtomicBool,
) {
    let fail = |error: anyhow::Error| {
        counts.errors.fetch_add(1, Ordering::Relaxed);
        *counts.last_error.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error:#}");
    };
    let headers: Vec<_> = key.map(|key| ("authorization", key)).into_iter().collect();
    let mut session = match HttpClient::open(&target.url, &headers, json!({})) {
        Ok(session) => session,
        Err(error) => return fail(error),
    };
    let mut cursor = None::<String>;
    while !stop.load(Ordering::Relaxed) {
        let since = Instant::now();
        let answer = match cursor.take() {
            None => session.call(&target.tool, json!({"limit": 20})),
            Some(cursor) => session.call("context_guard_read", json!({"cursor": cursor})),
        };
        let read = answer.and_then(|answer| {
            ensure!(!answer.is_error(), "{:?}", answer.all_texts());
            Ok(answer)
        });
        match read {
            Ok(answer) => {
                let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                counts.micros.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
                cursor = answer.next_cursor();
            }
            Err(error) => fail(error),
        }
        counts.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(pause.saturating_sub(since.elapsed()));
    }
}

/// Clients that run until they are stopped.
pub struct Clients {
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts clients, spread over one pause. Each sends a request every `pause`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(url: &str, clients: u32, pause: Duration) -> Result<Self> {
        let (url, tool) = (url.to_owned(), "list_bookings".to_owned());
        Self::start_at(&LoadTarget { url, keys: Vec::new(), tool }, clients, pause)
    }

    /// Starts clients of a target as [`Self::start`] does.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_at(target: &LoadTarget, clients: u32, pause: Duration) -> Result<Self> {
        let (counts, stop) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let start = |at: u32| {
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            let target = target.clone();
            let key = (at as usize).checked_rem(target.keys.len());
            let key = key.and_then(|at| target.keys.get(at)).cloned();
            let first = pause.mul_f64(f64::from(at) / f64::from(clients));
            std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
                std::thread::sleep(first);
                client(&target, key.as_deref(), pause, &counts, &stop);
            })
        };
        let threads = (0..clients).map(start).collect::<std::io::Result<_>>()?;
        Ok(Self { counts, stop, threads })
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Stops the clients, and returns the counters.
    ///
    /// # Errors
    /// A client panicked.
    pub fn finish(self) -> Result<Arc<Counts>> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                bail!("a client panicked");
            }
        }
        Ok(self.counts)
    }
}

/// Returns the resident memory of a process, in KiB.
///
/// # Errors
/// The process does not exist.
pub fn resident(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).context("no number")
}
