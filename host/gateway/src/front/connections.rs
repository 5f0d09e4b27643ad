//! The open connections of a listener. Their number is limited in total and for each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use super::activity::Activity;

/// The open connections of a listener.
pub(crate) struct ClientConnections {
    /// The name of the setting that limits the number of connections, for the log.
    setting: &'static str,
    max: usize,
    max_per_address: usize,
    open: Mutex<OpenConnections>,
    /// True if the log has already reported that the total limit was reached.
    is_reported: AtomicBool,
    /// True if the log has already reported that the limit of an address was reached.
    reported_address: AtomicBool,
}

#[derive(Default)]
struct OpenConnections {
    last: u64,
    entries: HashMap<u64, Entry>,
    by_address: HashMap<IpAddr, usize>,
}

struct Entry {
    activity: Arc<Activity>,
    address: Option<IpAddr>,
}

impl OpenConnections {
    fn remove(&mut self, id: u64) {
        let Some(Entry { address: Some(address), .. }) = self.entries.remove(&id) else { return };
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Closes the connection without requests that has been idle for the longest time. With
    /// `address`, only connections of that address are considered. Returns false if every
    /// connection has a request.
    fn evict(&mut self, address: Option<IpAddr>) -> bool {
        let candidates =
            self.entries.iter().filter(|(_, entry)| address.is_none() || entry.address == address);
        let idle = candidates.filter_map(|(id, entry)| Some((entry.activity.idle_since()?, *id)));
        let Some((_, id)) = idle.min() else { return false };
        if let Some(entry) = self.entries.get(&id) {
            entry.activity.evict();
        }
        self.remove(id);
        true
    }
}

/// An open connection. It counts against the limits until this value is dropped.
pub(crate) struct OpenConnection {
    all: Arc<ClientConnections>,
    id: u64,
    pub(crate) activity: Arc<Activity>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.open().remove(self.id);
    }
}

impl ClientConnections {
    /// Creates an empty set that allows `max` connections in total and `max_per_address` for each
    /// address. `setting` is the name of the limit in the log.
    pub(crate) fn new(setting: &'static str, max: usize, max_per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            setting,
            max,
            max_per_address,
            open: Mutex::default(),
            is_reported: AtomicBool::new(false),
            reported_address: AtomicBool::new(false),
        })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection. If the limit is reached, closes the connection that has been idle for
    /// the longest time. Returns `None` if every connection has a request.
    pub(crate) fn add(self: &Arc<Self>) -> Option<OpenConnection> {
        let mut open = self.open();
        if open.entries.len() >= self.max {
            self.report();
            if !open.evict(None) {
                return None;
            }
        } else if open.entries.len() < self.max / 2 {
            self.is_reported.store(false, Ordering::Relaxed);
        }
        open.last += 1;
        let (id, activity) = (open.last, Activity::new());
        open.entries.insert(id, Entry { activity: Arc::clone(&activity), address: None });
        Some(OpenConnection { all: Arc::clone(self), id, activity })
    }

    /// Logs the first address that reaches its limit. The address may be that of a proxy.
    fn report_address(&self, address: IpAddr) {
        if !self.reported_address.swap(true, Ordering::Relaxed) {
            warn!(
                "{address} has {} connections (limits.connectionsPerAddress): its idle ones are \
                 closed, and further ones are refused; add it to access.trustedProxies if it is a \
                 reverse proxy",
                self.max_per_address
            );
        }
    }

    fn report(&self) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            warn!(
                "{} connections are open ({}): idle ones are closed, and further ones are refused",
                self.max, self.setting
            );
        }
    }
}

impl OpenConnection {
    /// Counts the connection for the address of its client. If the limit of that address is
    /// reached, closes its connection that has been idle for the longest time. Returns false if
    /// every one has a request.
    pub(crate) fn assign(&self, address: IpAddr) -> bool {
        let mut open = self.all.open();
        let count = open.by_address.get(&address).copied().unwrap_or(0);
        if count >= self.all.max_per_address {
            self.all.report_address(address);
            if !open.evict(Some(address)) {
                return false;
            }
        }
        // The connection may have been evicted meanwhile.
        if let Some(entry) = open.entries.get_mut(&self.id) {
            entry.address = Some(address);
            *open.by_address.entry(address).or_default() += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::ActiveRequest;
    use super::*;
    use http::Version;

    #[test]
    fn longest_idle_connection_makes_way() {
        let connections = ClientConnections::new("limits.connections", 3, 2);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let open = |address| {
            let connection = connections.add()?;
            connection.assign(address).then_some(connection)
        };
        let is_evicted =
            |connection: &OpenConnection| !connections.open().entries.contains_key(&connection.id);
        let first = open(one).unwrap();
        let busy = open(one).unwrap();
        let request = ActiveRequest::begin(&busy.activity, Version::HTTP_11);
        // The address has two connections. The idle one is closed for a third one.
        let third = open(one).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&busy) && !is_evicted(&third));
        let requests = [&third].map(|one| ActiveRequest::begin(&one.activity, Version::HTTP_2));
        assert!(open(one).is_none());
        let far = open(other).unwrap();
        assert_eq!(connections.open().entries.len(), 3);
        let late = open(other).unwrap();
        assert!(is_evicted(&far), "the only idle one of all");
        let last = ActiveRequest::begin(&late.activity, Version::HTTP_11);
        assert!(open(other).is_none());
        drop((request, requests, last, first, busy, third, far, late));
        assert!(connections.open().entries.is_empty());
        assert!(connections.open().by_address.is_empty());
    }
}
