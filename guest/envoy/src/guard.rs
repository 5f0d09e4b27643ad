//! The core behind the face that `context-guard-protocol` knows: a loop round the store, and what happens on a fault.

use context_guard_core::policy::OnFault;
use context_guard_core::snapshot::stored::{Entry, Loaded};
use context_guard_core::{Context, Fault, Guard, Plan, Record};
use context_guard_protocol::{Caller, Filter, Settings, Ticket, Verdict, fallback};
use log::warn;
use proxy_wasm::hostcalls::get_current_time;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::store::Slots;

/// What all exchanges of a worker share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    guard: Guard,
    store: Option<Slots>,
    now_ms: Option<u64>,
    on_fault: fallback::OnFault,
    hard_byte_limit: usize,
}

/// A request that was looked at.
enum Seen {
    Forward(Option<Vec<u8>>, Vec<u8>),
    Answer(Vec<u8>, Record),
}

impl Shared {
    pub(crate) fn new(config: Config) -> Result<Self, Vec<String>> {
        Ok(Self {
            on_fault: match config.policy.on_fault() {
                OnFault::Pass => fallback::OnFault::Pass,
                OnFault::Limit => fallback::OnFault::Limit,
                OnFault::Block => fallback::OnFault::Block,
            },
            hard_byte_limit: usize::try_from(config.policy.hard_byte_limit()).unwrap_or(usize::MAX),
            metrics: Metrics::new(),
            guard: Guard::new(config.policy, config.keys),
            settings: config.settings,
            store: config.store,
            now_ms: config.now_ms,
        })
    }

    fn now_ms(&self) -> u64 {
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
            store_unavailable: self.store.is_none(),
        }
    }

    fn ask(&self, caller: &Caller, message: &[u8]) -> Result<Seen, Fault> {
        let (mut loaded, now_ms) = (Loaded::new(), self.now_ms());
        loop {
            match self.guard.on_request(&self.context(caller), message, &loaded, now_ms)? {
                Plan::Load(keys) => loaded.extend(keys.into_iter().map(|key| {
                    let value = self.store.and_then(|store| store.get(&key, now_ms));
                    (key, value)
                })),
                Plan::Forward { message, ticket } => return Ok(Seen::Forward(message, ticket)),
                Plan::Answer { message, entries, extend, ttl_ms, record } => {
                    for key in extend {
                        self.store.inspect(|store| store.extend(&key, now_ms + ttl_ms));
                    }
                    self.keep(&entries, ttl_ms)?;
                    return Ok(Seen::Answer(message, record));
                }
            }
        }
    }

    fn tell(
        &self,
        cx: &Context<'_>,
        ticket: &[u8],
        message: &[u8],
    ) -> Result<(Option<Vec<u8>>, Record), Fault> {
        let shaped = self.guard.on_response(cx, ticket, message, self.now_ms())?;
        let kept = self.keep(&shaped.entries, shaped.ttl_ms);
        if shaped.must_be_stored {
            kept?;
        }
        Ok((shaped.message, shaped.record))
    }

    fn keep(&self, entries: &[Entry<'_>], ttl_ms: u64) -> Result<(), Fault> {
        let now_ms = self.now_ms();
        for entry in entries {
            let kept = self
                .store
                .map(|store| store.put(&entry.key, &entry.value, now_ms + ttl_ms, now_ms));
            if !matches!(kept, Some(Ok(()))) {
                self.metrics.store_full();
                return Err(Fault::Other(
                    "there is no room to keep the rest of the answer".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn fault(&self, fault: &Fault) {
        self.metrics.fault();
        warn!("context-guard: a message was not shaped: {fault}");
    }
}

/// The guard, for one exchange.
pub(crate) struct Asking<'a>(pub(crate) &'a Shared);

impl Filter for Asking<'_> {
    fn request(&mut self, caller: &Caller, message: &[u8]) -> Verdict {
        match self.0.ask(caller, message) {
            Ok(Seen::Forward(message, ticket)) if ticket.is_empty() => {
                Verdict::Forward(message, Ticket::Pass)
            }
            Ok(Seen::Forward(message, ticket)) => Verdict::Forward(message, Ticket::Guard(ticket)),
            Ok(Seen::Answer(answer, record)) => {
                self.0.metrics.answered(&record);
                Verdict::Answer(answer)
            }
            // What is no JSON is the upstream's to refuse.
            Err(Fault::Malformed(_)) => Verdict::Forward(None, Ticket::Limit),
            Err(fault) => {
                self.0.fault(&fault);
                Verdict::Forward(None, Ticket::Limit)
            }
        }
    }

    fn response(&mut self, caller: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        #[cfg(feature = "sabotage")]
        assert!(!String::from_utf8_lossy(message).contains("sabotage:panic"), "as was wanted");
        let shared = self.0;
        let limited = || fallback::limit(message, shared.on_fault, shared.hard_byte_limit);
        let ticket = match ticket {
            Ticket::Pass => return None,
            Ticket::Limit => return limited(),
            Ticket::Guard(ticket) => ticket,
        };
        let cx = shared.context(caller);
        // What finds no room may still be fetched again.
        let told = shared.tell(&cx, ticket, message).or_else(|fault| match fault {
            Fault::Other(_) if !cx.store_unavailable => {
                shared.tell(&Context { store_unavailable: true, ..cx }, ticket, message)
            }
            fault => Err(fault),
        });
        match told {
            Ok((message, record)) => {
                shared.metrics.answered(&record);
                message
            }
            Err(fault) => {
                shared.fault(&fault);
                limited()
            }
        }
    }

    fn over_limit(&mut self) {
        self.0.metrics.over_limit();
    }
}
