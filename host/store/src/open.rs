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
    /// have none: they are evicted from the principal with the most bytes.
    pub principal_bytes: usize,
    /// The quota of the local copies of a shared store, in bytes; 0 disables them.
    pub local_bytes: usize,
}

/// The URL schemes of shared stores: the scheme in the configuration, that for the client library,
/// and true for a cluster.
const SCHEMES: [(&str, &str, bool); 8] = [
    ("redis", "redis", false),
    ("rediss", "rediss", false),
    ("valkey", "redis", false),
    ("valkeys", "rediss", false),
    ("redis-cluster", "redis", true),
    ("rediss-cluster", "rediss", true),
    ("valkey-cluster", "redis", true),
    ("valkeys-cluster", "rediss", true),
];

/// Opens the cursor store that the URL in `options` names. Does not connect yet. Values in a
/// shared store are sealed with the keys that [`CursorStore::rekey`] sets.
///
/// # Errors
/// [`StoreError::InvalidUrl`] if the URL names no supported store.
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
    let known = SCHEMES.iter().find(|(name, ..)| *name == scheme);
    let &(_, scheme, cluster) = known.ok_or_else(unknown)?;
    // `redis-cluster://user:password@a:6379,b:6379`: the login before the first host is for all hosts.
    let (login, hosts) = rest.rsplit_once('@').map_or(("", rest), |(login, hosts)| (login, hosts));
    let login = if login.is_empty() { String::new() } else { format!("{login}@") };
    let hosts = if cluster { hosts.split(',').collect() } else { vec![hosts] };
    let urls = hosts.into_iter().map(|host| format!("{scheme}://{login}{host}")).collect();
    open_shared(options, urls, cluster, || memory(options.local_bytes, options.local_bytes), clock)
}

#[cfg(feature = "redis")]
fn open_shared(
    options: &StoreOptions<'_>,
    urls: Vec<String>,
    cluster: bool,
    near: impl FnOnce() -> MemoryStore,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn CursorStore>, StoreError> {
    let remote = RedisStore::new(&RedisOptions {
        urls,
        cluster,
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
    _: bool,
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
    let names = SCHEMES.map(|(name, ..)| format!("{name}://")).join(", ");
    StoreError::InvalidUrl(format!(
        "store.url names no supported store: use memory:, none:, {names}"
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
        for url in ["postgres://u:secret@h/db", "secret", "redis://u:secret@h:notaport"] {
            let refused = opened(url).err().unwrap().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
