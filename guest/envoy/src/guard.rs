//! The core as a message filter. This module reads and writes the cursor store for the core, and
//! handles failures of the core.

use context_guard_core::snapshot::stored::{Entry, Loaded};
use context_guard_core::{Context, Fault, Guard, Plan, Record};
use context_guard_protocol::{Caller, MessageFilter, Settings, Ticket, Verdict, fallback};
use log::warn;
use proxy_wasm::hostcalls::get_current_time;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::pause_monitor::PauseMonitor;
use crate::store::Slots;

/// The state that all HTTP exchanges of an Envoy worker share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) pause_monitor: PauseMonitor,
    guard: Guard,
    pub(crate) store: Option<Slots>,
    now_ms: Option<u64>,
    on_fault: fallback::OnFault,
    hard_byte_limit: usize,
}

/// The core's decision on a request, after all entries that it needs were loaded.
enum RequestDecision {
    Forward(Option<Vec<u8>>, Vec<u8>),
    Answer(Vec<u8>, Record),
}

impl Shared {
    pub(crate) fn new(config: Config) -> Result<Self, Vec<String>> {
        Ok(Self {
            on_fault: config.policy.on_fault().into(),
            hard_byte_limit: usize::try_from(config.policy.hard_byte_limit()).unwrap_or(usize::MAX),
            metrics: Metrics::new(),
            pause_monitor: PauseMonitor::default(),
            guard: Guard::new(config.policy, config.keys),
            settings: config.settings,
            store: config.store,
            now_ms: config.now_ms,
        })
    }

    /// Returns the time, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let clock = || {
            let now = get_current_time().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
            u64::try_from(now.as_millis()).ok()
        };
        self.now_ms.or_else(clock).unwrap_or_default()
    }

    fn context<'a>(&self, caller: &'a Caller) -> Context<'a> {
        Context {
            principal: &caller.principal,
            upstream: &caller.upstream,
            protocol_version: &caller.protocol_version,
            client_name: "",
            store_unavailable: self.store.is_none(),
            // The filter has one upstream, whose list passes through it.
            catalogue_version: "",
            only_count: false,
        }
    }

    /// Passes a request to the core until it decides, and loads the store entries that the core
    /// asks for.
    fn decide(&self, caller: &Caller, message: &[u8]) -> Result<RequestDecision, Fault> {
        let (mut loaded, now_ms) = (Loaded::new(), self.now_ms());
        loop {
            match self.guard.on_request(&self.context(caller), message, &loaded, now_ms)? {
                Plan::Load(keys) => loaded.extend(keys.into_iter().map(|key| {
                    let value = self.store.and_then(|store| store.get(&key, now_ms));
                    (key, value)
                })),
                Plan::Forward { message, ticket, .. } => {
                    return Ok(RequestDecision::Forward(message, ticket));
                }
                Plan::Answer { message, entries, extend, ttl_ms, record } => {
                    for key in extend {
                        self.store.inspect(|store| store.extend(&key, now_ms + ttl_ms));
                    }
                    self.store_entries(&entries, ttl_ms)?;
                    return Ok(RequestDecision::Answer(message, record));
                }
            }
        }
    }

    /// Passes an upstream's response to the core, and stores the entries that the core returns.
    /// Returns no message if the response passes unchanged.
    fn shape(
        &self,
        cx: &Context<'_>,
        ticket: &[u8],
        message: &[u8],
    ) -> Result<(Option<Vec<u8>>, Record), Fault> {
        let shaped = self.guard.on_response(cx, ticket, message, self.now_ms())?;
        let stored = self.store_entries(&shaped.entries, shaped.ttl_ms);
        if shaped.must_be_stored {
            stored?;
        }
        Ok((shaped.message, shaped.record))
    }

    fn store_entries(&self, entries: &[Entry<'_>], ttl_ms: u64) -> Result<(), Fault> {
        let now_ms = self.now_ms();
        for entry in entries {
            let stored = self
                .store
                .map(|store| store.put(&entry.key, &entry.value, now_ms + ttl_ms, now_ms));
            if !matches!(stored, Some(Ok(()))) {
                self.metrics.store_full();
                return Err(Fault::Other(
                    "the store has no room for the rest of the answer".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn log_fault(&self, fault: &Fault) {
        self.metrics.fault();
        warn!("context-guard: the guard failed on a message: {fault}");
    }
}

/// The message filter of the Envoy adapter, which calls the core.
pub(crate) struct CoreFilter<'a>(pub(crate) &'a Shared);

impl MessageFilter for CoreFilter<'_> {
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict {
        match self.0.decide(caller, message) {
            Ok(RequestDecision::Forward(message, ticket)) if ticket.is_empty() => {
                Verdict::Forward(message, Ticket::Pass)
            }
            Ok(RequestDecision::Forward(message, ticket)) => {
                Verdict::Forward(message, Ticket::Guard(ticket))
            }
            Ok(RequestDecision::Answer(answer, record)) => {
                self.0.metrics.answered(&record);
                Verdict::Answer(answer)
            }
            // A malformed request is no fault of the guard. The upstream refuses it.
            Err(Fault::Malformed(_)) => Verdict::Forward(None, Ticket::Limit),
            Err(fault) => {
                self.0.log_fault(&fault);
                Verdict::Forward(None, Ticket::Limit)
            }
        }
    }

    fn on_response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        #[cfg(feature = "fault-injection")]
        assert!(
            !String::from_utf8_lossy(message).contains("inject-fault:panic"),
            "a test requested this panic"
        );
        let shared = self.0;
        let limited = || fallback::limit(message, shared.on_fault, shared.hard_byte_limit);
        let ticket = match ticket {
            Ticket::Pass => return None,
            Ticket::Limit => return limited(),
            Ticket::Guard(ticket) => ticket,
        };
        let cx = shared.context(caller);
        // Without room in the store, the guard can still offer to repeat the upstream's call.
        let shaped = shared.shape(&cx, ticket, message).or_else(|fault| match fault {
            Fault::Other(_) if !cx.store_unavailable => {
                shared.shape(&Context { store_unavailable: true, ..cx }, ticket, message)
            }
            fault => Err(fault),
        });
        match shaped {
            Ok((message, record)) => {
                shared.metrics.answered(&record);
                message
            }
            Err(fault) => {
                shared.log_fault(&fault);
                limited()
            }
        }
    }

    fn on_limit_exceeded(&mut self) {
        self.0.metrics.over_limit();
    }
}
