//! The HTTP client for an upstream. A client with the upstream's own TLS settings is created again
//! when their files change.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{info, warn};

use crate::access::{HttpClient, tls_client};
use crate::config::UpstreamTls;
use crate::pem_files::{self, ChangeTimes, POLL_INTERVAL, change_times};
use crate::{Error, Result};

/// The HTTP client for an upstream.
pub(crate) enum UpstreamClient {
    /// The client that the gateway also uses for other requests.
    Shared(Box<HttpClient>),
    /// A client with the TLS settings of the upstream.
    WithTls(Box<TlsFiles>),
}

/// The files of the TLS settings of an upstream, and the client that uses them.
pub(crate) struct TlsFiles {
    /// The name of the upstream, for the log.
    upstream: String,
    files: UpstreamTls,
    loaded: Mutex<LoadedClient>,
}

struct LoadedClient {
    client: HttpClient,
    times: ChangeTimes,
    checked: Instant,
}

impl UpstreamClient {
    /// Creates a client with the TLS settings of an upstream. Relative paths refer to `folder`.
    ///
    /// # Errors
    /// A file cannot be read, or the key does not belong to the certificate.
    pub(crate) fn with_tls(upstream: &str, tls: &UpstreamTls, folder: &Path) -> Result<Self> {
        let join = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        let files = UpstreamTls { ca: join(&tls.ca), cert: join(&tls.cert), key: join(&tls.key) };
        // A file that changes while it is read has another time at the next check.
        let times = change_times(paths(&files));
        let client = read(upstream, &files)?;
        let loaded = Mutex::new(LoadedClient { client, times, checked: Instant::now() });
        Ok(Self::WithTls(Box::new(TlsFiles { upstream: upstream.to_owned(), files, loaded })))
    }

    /// Returns the client for the next request.
    pub(super) fn current(&self) -> HttpClient {
        match self {
            Self::Shared(client) => HttpClient::clone(client),
            Self::WithTls(files) => files.current(),
        }
    }
}

impl TlsFiles {
    /// Returns a client that uses the current files. If they are invalid, the earlier client
    /// remains in use. A new client has no open connections, so that all its requests use the new
    /// files.
    fn current(&self) -> HttpClient {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.checked.elapsed() < POLL_INTERVAL {
            return loaded.client.clone();
        }
        loaded.checked = Instant::now();
        let times = change_times(paths(&self.files));
        if times != loaded.times {
            loaded.times = times;
            match read(&self.upstream, &self.files) {
                Ok(client) => {
                    loaded.client = client;
                    info!(upstream = self.upstream, "new requests use the changed files of `tls`");
                }
                Err(error) => warn!("the last certificates remain in use: {error}"),
            }
        }
        loaded.client.clone()
    }
}

fn paths(files: &UpstreamTls) -> impl Iterator<Item = &PathBuf> {
    files.ca.iter().chain(&files.cert).chain(&files.key)
}

/// Reads all files, and creates a client that uses them. `upstream` is its name, for errors.
fn read(upstream: &str, files: &UpstreamTls) -> Result<HttpClient> {
    let authorities = files.ca.as_ref().map(|path| pem_files::authorities(path)).transpose()?;
    let identity = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            Some((pem_files::certificates(cert)?, pem_files::private_key(key)?))
        }
        _ => None,
    };
    tls_client(authorities, identity)
        .map_err(|error| Error::Setup(format!("upstream {upstream}: tls: {error}")))
}
