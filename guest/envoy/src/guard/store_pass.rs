//! The cursor store from the perspective of one run of the core.
//!
//! The core decides at once, but a gateway answers later. With the store of a gateway, a run
//! therefore only records which entries it needs and writes. The stream then calls the gateway, and
//! repeats the run with the entries. If the gateway cannot be used, it repeats the run without
//! them. Only the last run has effects.

use std::collections::BTreeMap;

use context_guard_core::snapshot::stored::Entry;
use context_guard_core::{Fault, Record};
use context_guard_protocol::store_message::{MAX_READ_KEYS, WrittenEntry, decode_values};

use super::Shared;

/// The maximum age, in milliseconds, of a copy of a mutable entry that is used without a call to
/// the gateway.
const FRESH_FOR_MS: u64 = 2_000;
/// The lifetime, in milliseconds, of a copy of an entry that was read from the gateway.
const COPY_TTL_MS: u64 = 600_000;
/// The maximum number of reads of an exchange: more than the largest stored answer needs.
const MAX_READS: usize = 64;

/// The store that a run uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreAccess {
    /// Envoy's shared data, if any. The run has effects at once.
    Local,
    /// The gateway's store, with copies in Envoy's shared data.
    Gateway,
    /// Envoy's shared data, because the gateway's store cannot be used. The core is informed of
    /// this.
    Unavailable,
}

/// The call that a run needs before it has effects.
pub(crate) struct StoreCall {
    /// The token of the call. `None` if it failed at once.
    pub(crate) token: Option<u32>,
    /// True for a read of the entries that the run lacks, false for a write of its entries.
    pub(crate) is_read: bool,
}

/// An event of a run, for statistics and the log.
enum Event {
    Answered(Record),
    Fault(Fault),
    StoreFull,
    OverLimit,
}

/// The entries that a run reads and writes.
pub(crate) struct StorePass {
    access: StoreAccess,
    /// The values that the gateway returned, by key.
    fetched: BTreeMap<String, Option<Vec<u8>>>,
    /// The keys of entries that the run needs and that are not available locally.
    missing: Vec<String>,
    /// The keys of the pending read.
    requested: Vec<String>,
    reads: usize,
    written: Vec<WrittenEntry>,
    /// True if a message of the run must not be sent unless its entries are stored.
    is_write_required: bool,
    events: Vec<Event>,
}

impl StorePass {
    /// Creates the pass of an exchange that may wait for the gateway, if one is configured.
    pub(crate) fn new(shared: &Shared) -> Self {
        let access = match &shared.gateway {
            None => StoreAccess::Local,
            Some(gateway) if gateway.can_call() => StoreAccess::Gateway,
            Some(_) => StoreAccess::Unavailable,
        };
        Self::with_access(access)
    }

    /// Creates the pass of an exchange that cannot wait.
    pub(crate) fn local() -> Self {
        Self::with_access(StoreAccess::Local)
    }

    fn with_access(access: StoreAccess) -> Self {
        Self {
            access,
            fetched: BTreeMap::new(),
            missing: Vec::new(),
            requested: Vec::new(),
            reads: 0,
            written: Vec::new(),
            is_write_required: false,
            events: Vec::new(),
        }
    }

    /// Returns true if the pass uses the gateway, so that the run may have to be repeated.
    pub(crate) fn uses_gateway(&self) -> bool {
        self.access == StoreAccess::Gateway
    }

    /// Returns true if the gateway's store cannot be used.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.access == StoreAccess::Unavailable
    }

    /// Returns true if entries are missing, so that the decision of the run must be discarded.
    pub(crate) fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Returns the value of a key. `None` if the store has no such entry, or if it must be read
    /// from the gateway first.
    pub(crate) fn load(&mut self, shared: &Shared, key: &str) -> Option<Vec<u8>> {
        let now_ms = shared.now_ms();
        let copy = |since_ms| shared.store?.get_written_since(key, since_ms, now_ms);
        let fetched = self.fetched.get(key);
        if fetched.is_some() || !self.uses_gateway() {
            // An entry that was stored while the gateway was down exists here only.
            let value = fetched.cloned().flatten().or_else(|| copy(0));
            if value.is_none() && self.is_unavailable() {
                shared.metrics.store_unavailable();
            }
            return value;
        }
        // A key with a dot names an immutable segment by its content; all other entries can change.
        let since_ms = if key.contains('.') { 0 } else { now_ms.saturating_sub(FRESH_FOR_MS) };
        let value = copy(since_ms);
        if value.is_none() {
            self.missing.push(key.to_owned());
        }
        value
    }

    /// Extends the lifetime of an entry.
    pub(crate) fn extend(&mut self, shared: &Shared, key: String, ttl_ms: u64) {
        if self.uses_gateway() {
            self.written.push(WrittenEntry { key, value: None, ttl_ms });
        } else if let Some(store) = shared.store {
            store.extend(&key, shared.now_ms() + ttl_ms);
        }
    }

    /// Stores entries. `is_required` is true if the message must not be sent without them.
    pub(crate) fn store(
        &mut self,
        shared: &Shared,
        entries: &[Entry<'_>],
        ttl_ms: u64,
        is_required: bool,
    ) -> Result<(), Fault> {
        if self.uses_gateway() {
            let written = entries.iter().map(|entry| WrittenEntry {
                key: entry.key.clone(),
                value: Some(entry.value.to_vec()),
                ttl_ms,
            });
            self.written.extend(written);
            self.is_write_required |= is_required && !entries.is_empty();
            return Ok(());
        }
        if self.is_unavailable() && is_required && !entries.is_empty() {
            shared.metrics.store_unavailable();
        }
        let now_ms = shared.now_ms();
        for entry in entries {
            let stored = shared
                .store
                .map(|store| store.put(&entry.key, &entry.value, now_ms + ttl_ms, now_ms));
            if !matches!(stored, Some(Ok(()))) {
                self.add(shared, Event::StoreFull);
                return Err(Fault::Other(
                    "the store has no room for the rest of the answer".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Records an answer of the core.
    pub(crate) fn on_answer(&mut self, shared: &Shared, record: Record) {
        self.add(shared, Event::Answered(record));
    }

    /// Records a failure of the core.
    pub(crate) fn on_fault(&mut self, shared: &Shared, fault: Fault) {
        self.add(shared, Event::Fault(fault));
    }

    /// Records a body that exceeds a limit.
    pub(crate) fn on_limit_exceeded(&mut self, shared: &Shared) {
        self.add(shared, Event::OverLimit);
    }

    fn add(&mut self, shared: &Shared, event: Event) {
        if self.uses_gateway() {
            self.events.push(event);
        } else {
            event.publish(shared);
        }
    }

    /// Starts the call that the run needs for entries of `principal`. `None` if it needs none. The
    /// call fails at once if the stream cannot pause.
    pub(crate) fn call(
        &mut self,
        shared: &Shared,
        principal: &str,
        can_pause: bool,
    ) -> Option<StoreCall> {
        let gateway = shared.gateway.as_ref().filter(|_| self.uses_gateway())?;
        if self.is_incomplete() {
            self.reads += 1;
            let mut keys = std::mem::take(&mut self.missing);
            keys.sort_unstable();
            keys.dedup();
            keys.truncate(MAX_READ_KEYS);
            let can_read = can_pause && self.reads <= MAX_READS;
            let token = can_read.then(|| gateway.read(principal, &keys)).flatten();
            self.requested = keys;
            return Some(StoreCall { token, is_read: true });
        }
        if self.written.is_empty() {
            return None;
        }
        let token = can_pause.then(|| gateway.write(principal, &self.written)).flatten();
        Some(StoreCall { token, is_read: false })
    }

    /// Adds the gateway's answer to a read. Returns false if the answer is invalid.
    pub(crate) fn add_values(&mut self, shared: &Shared, answer: &[u8]) -> bool {
        let keys = std::mem::take(&mut self.requested);
        let Ok(values) = decode_values(answer, keys.len()) else {
            if let Some(gateway) = &shared.gateway {
                gateway.failed("its answer is invalid: it is no store of a context-guard gateway");
            }
            return false;
        };
        let now_ms = shared.now_ms();
        for (key, value) in keys.into_iter().zip(values) {
            if let (Some(store), Some(value)) = (shared.store, &value) {
                let _ = store.put(&key, value, now_ms + COPY_TTL_MS, now_ms);
            }
            self.fetched.insert(key, value);
        }
        self.restart();
        true
    }

    /// Switches to local data, after a call to the gateway failed.
    pub(crate) fn fail(&mut self) {
        self.access = StoreAccess::Unavailable;
        self.restart();
    }

    /// Returns true if the messages of the run may be sent although its write failed.
    pub(crate) fn may_send_unwritten(&self) -> bool {
        !self.is_write_required
    }

    /// Discards the results of the last run.
    fn restart(&mut self) {
        self.missing.clear();
        self.written.clear();
        self.is_write_required = false;
        self.events.clear();
    }

    /// Applies the effects of the last run: copies of its entries, statistics, the log.
    pub(crate) fn commit(self, shared: &Shared) {
        let now_ms = shared.now_ms();
        if let Some(store) = shared.store {
            for WrittenEntry { key, value, ttl_ms } in &self.written {
                let expires_ms = now_ms + ttl_ms;
                match value {
                    Some(value) => {
                        // A copy without room only costs a call later.
                        let _ = store.put(key, value, expires_ms, now_ms);
                    }
                    None => store.extend(key, expires_ms),
                }
            }
        }
        self.events.into_iter().for_each(|event| event.publish(shared));
    }
}

impl Event {
    fn publish(self, shared: &Shared) {
        match self {
            Self::Answered(record) => shared.metrics.answered(&record),
            Self::Fault(fault) => shared.log_fault(&fault),
            Self::StoreFull => shared.metrics.store_full(),
            Self::OverLimit => shared.metrics.over_limit(),
        }
    }
}
