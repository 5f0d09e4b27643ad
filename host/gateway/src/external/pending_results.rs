//! The requests of agentgateway whose results are pending, by their tickets. Their number and bytes
//! are limited in total and for each principal.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::exchange::Exchange;
use crate::lock::lock;
use crate::memory_shares::{MemoryShare, MemoryShares};

/// The maximum number of requests. Beyond it, the oldest of the principal with the most is dropped.
const MAX_PENDING: usize = 10_000;
/// The maximum number of requests of a principal. Beyond it, its oldest is dropped.
const MAX_PENDING_PER_PRINCIPAL: usize = 2_500;
/// The maximum memory of the requests, in bytes.
const MAX_TOTAL_BYTES: usize = 128 << 20;
/// The maximum memory of the requests of a principal, in bytes.
const MAX_BYTES_PER_PRINCIPAL: usize = 32 << 20;

/// A request whose result is pending.
struct PendingResult {
    exchange: Exchange,
    principal: Arc<str>,
    bytes: usize,
}

/// The requests of a principal.
struct PrincipalResults {
    /// The tickets, the oldest first.
    order: VecDeque<String>,
    share: MemoryShare,
    bytes: usize,
}

#[derive(Default)]
struct PendingTable {
    by_ticket: HashMap<String, PendingResult>,
    principals: HashMap<Arc<str>, PrincipalResults>,
}

/// The requests whose results are pending.
pub(super) struct PendingResults {
    table: Mutex<PendingTable>,
    memory: Arc<MemoryShares>,
}

impl PendingResults {
    pub(super) fn new() -> Self {
        let memory = MemoryShares::new(MAX_TOTAL_BYTES, MAX_BYTES_PER_PRINCIPAL);
        Self { table: Mutex::default(), memory }
    }

    fn table(&self) -> MutexGuard<'_, PendingTable> {
        lock(&self.table)
    }

    /// Adds a request of a principal. Drops older requests, or the request itself, if a limit is
    /// exceeded.
    pub(super) fn add(&self, principal: &str, ticket: String, exchange: Exchange) {
        let bytes = exchange.retained_bytes() + 2 * ticket.len();
        let principal: Arc<str> = principal.into();
        let mut table = self.table();
        let own =
            table.principals.entry(Arc::clone(&principal)).or_insert_with(|| PrincipalResults {
                order: VecDeque::new(),
                share: self.memory.holder(&principal),
                bytes: 0,
            });
        own.order.push_back(ticket.clone());
        own.bytes += bytes;
        let max_bytes = own.share.resize(own.bytes);
        let pending = PendingResult { exchange, principal: Arc::clone(&principal), bytes };
        table.by_ticket.insert(ticket, pending);
        while table.exceeds(&principal, max_bytes) && table.drop_oldest(&principal) {}
        while table.by_ticket.len() > MAX_PENDING {
            let most = table.principals.iter().max_by_key(|(_, own)| own.order.len());
            let Some((largest, _)) = most else { break };
            let largest = Arc::clone(largest);
            table.drop_oldest(&largest);
        }
    }

    /// Removes and returns the request with this ticket. `None` if there is none.
    pub(super) fn take(&self, ticket: &str) -> Option<Exchange> {
        self.table().remove(ticket)
    }
}

impl PendingTable {
    /// Returns true if a principal has too many requests, or more than `max_bytes` bytes.
    fn exceeds(&self, principal: &str, max_bytes: usize) -> bool {
        self.principals
            .get(principal)
            .is_some_and(|own| own.order.len() > MAX_PENDING_PER_PRINCIPAL || own.bytes > max_bytes)
    }

    /// Drops the oldest request of a principal. Returns false if it has none.
    fn drop_oldest(&mut self, principal: &str) -> bool {
        let oldest = self.principals.get(principal).and_then(|own| own.order.front()).cloned();
        oldest.and_then(|ticket| self.remove(&ticket)).is_some()
    }

    fn remove(&mut self, ticket: &str) -> Option<Exchange> {
        let PendingResult { exchange, principal, bytes } = self.by_ticket.remove(ticket)?;
        if let Some(own) = self.principals.get_mut(&principal) {
            if let Some(at) = own.order.iter().position(|known| known == ticket) {
                own.order.remove(at);
            }
            own.bytes -= bytes;
            own.share.resize(own.bytes);
            if own.order.is_empty() {
                self.principals.remove(&principal);
            }
        }
        Some(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::engine::CallContext;

    fn exchange(bytes: usize) -> Exchange {
        Exchange::new(CallContext::default(), "x".repeat(bytes), None)
    }

    #[test]
    fn pending_results_are_limited_per_principal() {
        let pending = PendingResults::new();
        pending.add("bob", "b".to_owned(), exchange(1));
        for number in 0..MAX_PENDING_PER_PRINCIPAL + 5 {
            pending.add("ann", format!("a{number}"), exchange(1));
        }
        assert_eq!(pending.table().by_ticket.len(), MAX_PENDING_PER_PRINCIPAL + 1);
        assert!(pending.take("a4").is_none() && pending.take("a5").is_some());
        for number in 0..20 {
            pending.add("ann", format!("large{number}"), exchange(10 << 20));
        }
        let of_ann = |pending: &PendingResults| {
            pending.table().principals.get("ann").map_or(0, |own| own.bytes)
        };
        assert!(of_ann(&pending) <= MAX_BYTES_PER_PRINCIPAL);
        assert!(pending.take("large16").is_none() && pending.take("large17").is_some());
        assert!(pending.take("b").is_some(), "others are not affected");
        pending.add("ann", "huge".to_owned(), exchange(MAX_BYTES_PER_PRINCIPAL));
        assert!(pending.take("huge").is_none() && of_ann(&pending) == 0);
        assert!(pending.table().principals.is_empty());
    }
}
