//! The byte format of stored values: a mark that names type and version, then postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes a value for storage: the four bytes `mark`, which identify its type and version, then
/// its postcard encoding.
pub(crate) fn pack(mark: &[u8; 4], value: &impl Serialize) -> Vec<u8> {
    let mut bytes = mark.to_vec();
    bytes.extend(postcard::to_allocvec(value).unwrap_or_default());
    bytes
}

/// Decodes a value that [`pack`] encoded. Returns none if the bytes begin with another mark,
/// because they have another type or version.
pub(crate) fn unpack<T: DeserializeOwned>(mark: &[u8; 4], bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes.strip_prefix(mark)?).ok()
}
