//! The byte format of stored values: a mark that names type and version, then postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes a value for storage: `mark`, which names its type and version, then postcard.
pub(crate) fn pack(mark: &[u8; 4], value: &impl Serialize) -> Vec<u8> {
    let mut bytes = mark.to_vec();
    bytes.extend(postcard::to_allocvec(value).unwrap_or_default());
    bytes
}

/// Decodes a value written by [`pack`]. Returns none if the bytes have another mark, so that they
/// are of another type or version.
pub(crate) fn unpack<T: DeserializeOwned>(mark: &[u8; 4], bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes.strip_prefix(mark)?).ok()
}
