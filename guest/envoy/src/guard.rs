//! The core as a message filter. This module passes entries between the core and the cursor store,
//! and handles failures of the core.

pub(crate) mod store_pass;

use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Fault, Guard, JqBuild, Plan, Record};
use context_guard_protocol::{
    Caller, MessageFilter, RequestFault, Settings, Ticket, Verdict, fallback,
};
use log::warn;
use proxy_wasm::hostcalls::get_current_time;

use crate::config::Config;
use crate::gateway_store::GatewayStore;
use crate::metrics::Metrics;
use crate::pause_monitor::PauseMonitor;
use crate::store::Slots;
use store_pass::StorePass;

/// The state that all HTTP exchanges of an Envoy worker share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) pause_monitor: PauseMonitor,
    guard: Guard,
    pub(crate) store: Option<Slots>,
    pub(crate) gateway: Option<GatewayStore>,
    now_ms: Option<u64>,
    on_fault: fallback::OnFault,
    hard_byte_limit: usize,
}

/// The core's decision on a request, after all entries that it needs were loaded.
enum RequestDecision {
    Forward(Option<Vec<u8>>, Vec<u8>),
    Answer(Vec<u8>, Record),
    /// Entries are missing, so the run must be repeated with them.
    Repeat,
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
            gateway: config.gateway.map(GatewayStore::new),
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

    /// Returns the number of bytes that Envoy can buffer for a paused stream. Envoy's process ends
    /// if a paused stream receives more than its buffer holds, which is at least twice
    /// `maxBuffered`.
    pub(crate) fn max_paused_bytes(&self) -> usize {
        2 * self.settings.max_buffered
    }

    fn context<'a>(&self, caller: &'a Caller, pass: &StorePass) -> Context<'a> {
        Context {
            principal: &caller.principal,
            upstream: &caller.upstream,
            protocol_version: &caller.protocol_version,
            client_name: caller.client.as_deref().unwrap_or_default(),
            store_unavailable: self.store.is_none() || pass.is_unavailable(),
            catalogue_version: "",
            lists_tools: caller.server.as_deref(),
            full_list: false,
            only_count: false,
            jq_build: JqBuild::Absent,
        }
    }

    /// Passes a request to the core until it decides. Loads the store entries that the core
    /// requests.
    fn decide(
        &self,
        caller: &Caller,
        message: &[u8],
        pass: &mut StorePass,
    ) -> Result<RequestDecision, Fault> {
        let (mut loaded, now_ms) = (Loaded::new(), self.now_ms());
        let cx = self.context(caller, pass);
        loop {
            match self.guard.on_request(&cx, message, &loaded, now_ms)? {
                Plan::Load(keys) => {
                    for key in keys {
                        let value = pass.load(self, &key);
                        loaded.insert(key, value);
                    }
                    if pass.is_incomplete() {
                        return Ok(RequestDecision::Repeat);
                    }
                }
                Plan::Forward { message, ticket, .. } => {
                    return Ok(RequestDecision::Forward(message, ticket));
                }
                Plan::Answer { message, entries, extend, ttl_ms, record } => {
                    for key in extend {
                        pass.extend(self, key, ttl_ms);
                    }
                    pass.store(self, &entries, ttl_ms, true)?;
                    return Ok(RequestDecision::Answer(message, record));
                }
            }
        }
    }

    /// Passes an upstream's response to the core, and stores the entries that the core returns. The
    /// message is `None` if the response passes unchanged.
    fn shape(
        &self,
        cx: &Context<'_>,
        ticket: &[u8],
        message: &[u8],
        pass: &mut StorePass,
    ) -> Result<(Option<Vec<u8>>, Record), Fault> {
        let shaped = self.guard.on_response(cx, ticket, message, self.now_ms())?;
        let must_be_stored = shaped.must_be_stored;
        let stored = pass.store(self, &shaped.entries, shaped.ttl_ms, must_be_stored);
        if shaped.must_be_stored {
            stored?;
        }
        Ok((shaped.message, shaped.record))
    }

    /// Logs a failure of the core, and counts it.
    pub(crate) fn log_fault(&self, fault: &Fault) {
        self.metrics.fault();
        warn!("context-guard: the guard failed on a message: {fault}");
    }
}

/// The message filter of the Envoy adapter, which calls the core.
pub(crate) struct CoreFilter<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) pass: &'a mut StorePass,
}

impl MessageFilter for CoreFilter<'_> {
    fn on_request(&mut self, caller: &Caller, message: &[u8]) -> Verdict {
        let (shared, pass) = (self.shared, &mut *self.pass);
        match shared.decide(caller, message, pass) {
            Ok(RequestDecision::Repeat) => Verdict::Forward(None, Ticket::Pass),
            Ok(RequestDecision::Forward(message, ticket)) if ticket.is_empty() => {
                Verdict::Forward(message, Ticket::Pass)
            }
            Ok(RequestDecision::Forward(message, ticket)) => {
                Verdict::Forward(message, Ticket::Guard(ticket))
            }
            Ok(RequestDecision::Answer(answer, record)) => {
                pass.on_answer(shared, record);
                Verdict::Answer(answer)
            }
            // A server may be able to read what the guard cannot.
            Err(Fault::Malformed(_)) => Verdict::Answer(RequestFault::NotJson.error()),
            Err(fault) => {
                pass.on_fault(shared, fault);
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
        let (shared, pass) = (self.shared, &mut *self.pass);
        let limited = || fallback::limit(message, shared.on_fault, shared.hard_byte_limit);
        let ticket = match ticket {
            Ticket::Pass => return None,
            Ticket::Limit => return limited(),
            Ticket::Guard(ticket) => ticket,
        };
        let cx = shared.context(caller, pass);
        // Without room in the store, the guard can still offer to repeat the upstream's call.
        let shaped = shared.shape(&cx, ticket, message, pass).or_else(|fault| match fault {
            Fault::Other(_) if !cx.store_unavailable => {
                let cx = Context { store_unavailable: true, ..cx };
                shared.shape(&cx, ticket, message, pass)
            }
            fault => Err(fault),
        });
        match shaped {
            Ok((message, record)) => {
                pass.on_answer(shared, record);
                message
            }
            Err(fault) => {
                pass.on_fault(shared, fault);
                limited()
            }
        }
    }

    fn on_limit_exceeded(&mut self) {
        self.pass.on_limit_exceeded(self.shared);
    }
}
