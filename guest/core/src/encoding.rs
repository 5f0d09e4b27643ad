//! Opaque stored forms: a mark that names type and version, then postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The stored form of a value.
pub(crate) fn pack(mark: &[u8; 4], value: &impl Serialize) -> Vec<u8> {
    let mut bytes = mark.to_vec();
    bytes.extend(postcard::to_allocvec(value).unwrap_or_default());
    bytes
}

/// Reads a stored form; none where it is of another type or version.
pub(crate) fn unpack<T: DeserializeOwned>(mark: &[u8; 4], bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes.strip_prefix(mark)?).ok()
}
