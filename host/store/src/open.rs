//! Opens a cursor store by its URL.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "redis")]
use crate::redis::{RedisOptions, RedisStore};
use crate::{Clock, CursorStore, MemoryLimits, MemoryStore, NoStore, StoreError};

/// The options of a cursor store.
#[derive(Clone, Debug)]
pub struct StoreOptions<'a> {
    /// The URL: `memory:`, `none:`, `redis://…` or a variant of it.
    pub url: &'a str,
    /// The prefix of every key in a shared store.
    pub prefix: &'a str,
    /// The timeout of one operation on a shared store.
    pub timeout: Duration,
    /// The quota of a store in memory, in bytes.
    pub memory_bytes: usize,
    /// The quota of each principal in a store in memory, in bytes. Local copies of a shared store
    /// have no such quota: they are evicted from the principal with the most bytes.
    pub principal_bytes: usize,
    /// The quota of the local copies of a shared store, in bytes. 0 disables local copies.
    pub local_bytes: usize,
}

/// The servers that the URLs of a store lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A single server.
    One,
    /// Nodes of one cluster.
    Cluster,
    /// Sentinels, which know the master with this name.
    Sentinel(String),
}

/// The URL schemes of shared stores: the scheme in settings, and that of the client library.
const SCHEMES: [(&str, &str); 4] =
    [("redis", "redis"), ("rediss", "rediss"), ("valkey", "redis"), ("valkeys", "rediss")];

/// Opens the cursor store that the URL in `options` selects. Does not connect yet. Values in a
/// shared store are encrypted with the keys that [`CursorStore::rekey`] sets.
///
/// # Errors
/// [`StoreError::InvalidUrl`] if the URL does not select a supported store. [`StoreError::Other`]
/// if the threads of a shared store cannot start.
pub fn open(
    options: &StoreOptions<'_>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn CursorStore>, StoreError> {
    let memory = |principal_bytes: usize, total_bytes: usize| {
        let limits = MemoryLimits { principal_bytes, total_bytes };
        MemoryStore::new(Arc::clone(clock), limits)
    };
    match options.url.trim_end_matches('/') {
        "" | "memory:" => {
            return Ok(Arc::new(memory(options.principal_bytes, options.memory_bytes)));
        }
        "none:" => return Ok(Arc::new(NoStore)),
        _ => {}
    }
    let Some((scheme, rest)) = options.url.split_once("://") else { return Err(unknown()) };
    let (scheme, topology) = scheme.split_once('-').unwrap_or((scheme, ""));
    let &(_, scheme) = SCHEMES.iter().find(|(name, _)| *name == scheme).ok_or_else(unknown)?;
    // `redis-cluster://user:password@a:6379,b:6379`: the login before the first host is for all hosts.
    let (login, hosts) = rest.rsplit_once('@').map_or(("", rest), |(login, hosts)| (login, hosts));
    let login = if login.is_empty() { String::new() } else { format!("{login}@") };
    let (topology, hosts, path) = match topology {
        "" => (Topology::One, hosts, ""),
        "cluster" => (Topology::Cluster, hosts, ""),
        "sentinel" => {
            let (hosts, path) = hosts.split_once('/').unwrap_or((hosts, ""));
            let (name, database) = path.split_once('/').unwrap_or((path, ""));
            if name.is_empty() {
                return Err(StoreError::InvalidUrl(
                    "store.url names no master: write redis-sentinel://host:26379,host:26379/NAME"
                        .to_owned(),
                ));
            }
            (Topology::Sentinel(name.to_owned()), hosts, database)
        }
        _ => return Err(unknown()),
    };
    let hosts = if topology == Topology::One { vec![hosts] } else { hosts.split(',').collect() };
    let url = |host: &str| {
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        format!("{scheme}://{login}{host}{path}")
    };
    let urls = hosts.into_iter().map(url).collect();
    open_shared(options, urls, topology, || memory(options.local_bytes, options.local_bytes), clock)
}

#[cfg(feature = "redis")]
fn open_shared(
    options: &StoreOptions<'_>,
    urls: Vec<String>,
    topology: Topology,
    near: impl FnOnce() -> MemoryStore,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn CursorStore>, StoreError> {
    let remote = RedisStore::new(&RedisOptions {
        urls,
        topology,
        prefix: options.prefix.to_owned(),
        timeout: options.timeout,
    })?;
    let remote = Arc::new(crate::SealedStore::new(remote));
    if options.local_bytes == 0 {
        return Ok(remote);
    }
    Ok(Arc::new(crate::LayeredStore::new(remote, near(), Arc::clone(clock))))
}

#[cfg(not(feature = "redis"))]
fn open_shared(
    _: &StoreOptions<'_>,
    _: Vec<String>,
    _: Topology,
    _: impl FnOnce() -> MemoryStore,
    _: &Arc<dyn Clock>,
) -> Result<Arc<dyn CursorStore>, StoreError> {
    Err(StoreError::InvalidUrl(
        "a store.url of Redis or Valkey is not supported by this build: build context-guard with the \
         cargo feature `redis`, or use the released program"
            .to_owned(),
    ))
}

fn unknown() -> StoreError {
    // The URL is not part of the message because it may contain a password.
    let names = SCHEMES.map(|(name, _)| format!("{name}://")).join(", ");
    StoreError::InvalidUrl(format!(
        "store.url names no supported store: use memory:, none:, {names}, or one of these with \
         -cluster or -sentinel, such as redis-sentinel://"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn opened(url: &str) -> Result<Arc<dyn CursorStore>, StoreError> {
        let options = StoreOptions {
            url,
            prefix: "p",
            timeout: Duration::from_millis(50),
            memory_bytes: 1_000,
            principal_bytes: 1_000,
            local_bytes: 1_000,
        };
        open(&options, &(Arc::new(SystemClock) as Arc<dyn Clock>))
    }

    #[test]
    fn scheme_selects_store_and_password_is_hidden() {
        assert!(!opened("memory:").unwrap().may_block());
        assert!(opened("none:").unwrap().put("", Vec::new(), Duration::ZERO).is_err());
        assert!(opened("valkey://127.0.0.1:1/2").unwrap().may_block());
        assert!(opened("redis-cluster://u:secret@127.0.0.1:1,127.0.0.1:2").unwrap().may_block());
        assert!(opened("valkey-sentinel://u:secret@127.0.0.1:1,127.0.0.1:2/main/3").is_ok());
        let nameless = opened("redis-sentinel://u:secret@127.0.0.1:1").err().unwrap().to_string();
        assert!(nameless.contains("names no master"), "{nameless}");
        for url in [
            "redis-ring://u:secret@h",
            "postgres://u:secret@h/db",
            "secret",
            "redis://u:secret@h:notaport",
        ] {
            let refused = opened(url).err().unwrap().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
