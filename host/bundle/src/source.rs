//! The location of a bundle: a file, an OCI layout, a URL or a key in the shared store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use context_guard_access::{HttpClient, http_client};
use context_guard_cursor_store::CursorStore;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use tokio::runtime::Runtime;

use crate::layout::{read_file, read_layout};
use crate::{Error, MAX_BUNDLE_BYTES, Result, digest};

/// The maximum duration of one request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The length of the beginning of a bundle that contains its signature, in bytes.
const HEAD_BYTES: usize = 512;
/// The length of the parts in which the value of a store key is read, in bytes.
const PART_BYTES: usize = 1 << 20;

/// The location of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file, or the folder of an OCI layout.
    Path(PathBuf),
    /// An http:// or https:// URL.
    Url(String),
    /// A key in the shared store.
    StoreKey(String),
}

impl Place {
    /// Parses a location in a setting. Relative paths refer to `folder`.
    #[must_use]
    pub fn parse(text: &str, folder: &Path) -> Self {
        if text.starts_with("https://") || text.starts_with("http://") {
            return Self::Url(text.to_owned());
        }
        match text.strip_prefix("store:") {
            Some(key) => Self::StoreKey(key.to_owned()),
            None => Self::Path(folder.join(text)),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(&without_credentials(url)),
            Self::StoreKey(key) => write!(f, "store:{key}"),
        }
    }
}

/// Returns a URL without its user and query, because logs and revisions contain it. Both may be
/// credentials, such as the signature of an object store.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (target, has_query) = match rest.split_once(['?', '#']) {
        Some((target, _)) => (target, true),
        None => (rest, false),
    };
    let (authority, path) = target.split_at(target.find('/').unwrap_or(target.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}{}", if has_query { "?…" } else { "" })
}

/// Reads a bundle from its location, and detects changes.
pub struct BundleSource {
    place: Place,
    store: Arc<dyn CursorStore>,
    /// The client for URLs, and the runtime that drives it. `None` for other locations.
    http: Option<(HttpClient, Runtime)>,
    etag: Option<HeaderValue>,
    /// The first bytes of the value of the store key, which contain the signature.
    head: Bytes,
    /// The digest of the bytes that were read last. `None` before the first read.
    last: Option<String>,
}

impl BundleSource {
    /// Returns the source at a location. `store` is used for [`Place::StoreKey`].
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the operating system lacks the resources for requests.
    pub fn new(place: Place, store: Arc<dyn CursorStore>) -> Result<Self> {
        let http = match &place {
            Place::Url(_) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| Error::Unreachable(error.to_string()))?;
                Some((http_client(), runtime))
            }
            _ => None,
        };
        Ok(Self { place, store, http, etag: None, head: Bytes::new(), last: None })
    }

    /// Returns the location of the bundle.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Reads the bundle. Returns `None` if its bytes have not changed since the last read. Blocks,
    /// so it must not be called on a thread of an async runtime.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::File`], [`Error::Invalid`].
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let bytes = match &self.place {
            Place::Path(path) if path.is_dir() => Some(read_layout(path)?),
            Place::Path(path) => Some(read_file(path)?),
            Place::Url(_) => self.fetch()?,
            Place::StoreKey(key) => {
                let unreachable = |reason: &dyn std::fmt::Display| {
                    Error::Unreachable(format!("store:{key} cannot be read: {reason}"))
                };
                read_key(&*self.store, key, &mut self.head).map_err(|error| unreachable(&error))?
            }
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let digest = Some(digest(&bytes));
        Ok((std::mem::replace(&mut self.last, digest.clone()) != digest).then_some(bytes))
    }

    /// Requests the bundle from its URL. Returns `None` if the server reports that it has not
    /// changed.
    fn fetch(&mut self) -> Result<Option<Vec<u8>>> {
        let (Place::Url(url), Some((client, runtime))) = (&self.place, &self.http) else {
            return Ok(None);
        };
        let place = self.place.to_string();
        let fault = |reason: &dyn std::fmt::Display| {
            Error::Unreachable(format!("{place} cannot be read: {reason}"))
        };
        let mut request = Request::get(url.as_str());
        if let Some(etag) = &self.etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let request = request.body(Full::<Bytes>::default()).map_err(|error| fault(&error))?;
        let client = client.clone();
        let exchange = async move {
            let response = client.request(request).await.map_err(|error| error.to_string())?;
            let (head, body) = response.into_parts();
            match head.status {
                StatusCode::NOT_MODIFIED => return Ok(None),
                StatusCode::OK => {}
                status => return Err(format!("the server answers {status}")),
            }
            let body = Limited::new(body, MAX_BUNDLE_BYTES).collect().await;
            let bytes = body.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>(Some((bytes.to_vec(), head.headers.get(ETAG).cloned())))
        };
        let timed = runtime.block_on(async { tokio::time::timeout(TIMEOUT, exchange).await });
        let answer = timed
            .map_err(|_| fault(&format!("no answer within {} s", TIMEOUT.as_secs())))?
            .map_err(|reason| fault(&reason))?;
        Ok(answer.map(|(bytes, etag)| {
            self.etag = etag;
            bytes
        }))
    }
}

/// Returns the value of a store key. Returns `None` if the value begins with `head`, otherwise sets
/// `head` to its first bytes. Reads the value in parts, so that a read does not exceed the timeout
/// of the store.
fn read_key(
    store: &dyn CursorStore,
    key: &str,
    head: &mut Bytes,
) -> Result<Option<Vec<u8>>, String> {
    let read =
        |start, length| store.read_foreign(key, start, length).map_err(|error| error.to_string());
    let first = read(0, HEAD_BYTES)?;
    if first.is_empty() {
        return Err("there is no such key".to_owned());
    }
    if first == *head {
        return Ok(None);
    }
    let mut bytes = first.to_vec();
    while bytes.len() <= MAX_BUNDLE_BYTES {
        let part = read(bytes.len(), PART_BYTES)?;
        bytes.extend_from_slice(&part);
        if part.len() < PART_BYTES {
            // The key may have been written meanwhile.
            if read(0, HEAD_BYTES)? != first {
                return Err("it was changed while it was read".to_owned());
            }
            *head = first;
            return Ok(Some(bytes));
        }
    }
    Err(format!("it has more than {MAX_BUNDLE_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_urls_are_not_shown() {
        for (url, shown) in [
            ("https://ann:secret@host:1/a/b?X-Signature=secret#x", "https://host:1/a/b?…"),
            ("https://token@host", "https://host"),
            ("https://host/@a", "https://host/@a"),
            ("http://host?secret", "http://host?…"),
        ] {
            assert_eq!(Place::parse(url, Path::new("/")).to_string(), shown);
        }
        let place = Place::parse("http://ann:secret@127.0.0.1:1/?secret", Path::new("/"));
        let store = Arc::new(context_guard_cursor_store::NoStore);
        let failure = BundleSource::new(place, store).unwrap().read().unwrap_err().to_string();
        assert!(!failure.contains("secret") && failure.contains("127.0.0.1:1"), "{failure}");
    }
}
