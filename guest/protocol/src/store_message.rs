//! The messages between a filter in another proxy and the gateway that stores its entries.
//!
//! A message is a sequence of fields: a length of four bytes, little endian, then the bytes. A read
//! has the principal and the keys; its answer has a field for each key. A write has the principal,
//! then for each entry the time to live, the key and the value.
//!
//! ```
//! use context_guard_protocol::store_message::{ReadRequest, decode_values, encode_values};
//!
//! let keys = vec!["a".to_owned(), "b".to_owned()];
//! let request = ReadRequest::decode(&ReadRequest::encode("alice", &keys))?;
//! assert_eq!((request.principal.as_str(), request.keys), ("alice", keys));
//! let values = [Some(b"value".as_slice()), None];
//! assert_eq!(decode_values(&encode_values(&values), 2)?, [Some(b"value".to_vec()), None]);
//! # Ok::<(), context_guard_protocol::store_message::InvalidMessage>(())
//! ```

use std::fmt;

/// The path of requests that read entries.
pub const READ_PATH: &str = "/v1/entries/read";
/// The path of requests that write entries.
pub const WRITE_PATH: &str = "/v1/entries/write";
/// The media type of all messages.
pub const MEDIA_TYPE: &str = "application/octet-stream";
/// The maximum number of keys that a request reads.
pub const MAX_READ_KEYS: usize = 128;

/// The maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 256;
/// The maximum length of a principal, in bytes.
const MAX_PRINCIPAL_BYTES: usize = 4_096;
/// The longest time to live, in milliseconds: 30 days.
const MAX_TTL_MS: u64 = 30 * 24 * 3_600 * 1_000;
/// The length of a field that denotes a missing value. No value has this length.
const MISSING: u32 = u32::MAX;
/// The first byte of an entry whose value is written.
const PUT: u8 = b'p';
/// The first byte of an entry whose lifetime is extended.
const EXTEND: u8 = b'e';

/// The reason why a message is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMessage(&'static str);

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidMessage {}

/// A request that reads entries of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The owner of the entries.
    pub principal: String,
    /// The keys of the entries.
    pub keys: Vec<String>,
}

impl ReadRequest {
    /// Encodes a request that reads entries.
    #[must_use]
    pub fn encode(principal: &str, keys: &[String]) -> Vec<u8> {
        let mut message = Vec::new();
        push(&mut message, principal.as_bytes());
        keys.iter().for_each(|key| push(&mut message, key.as_bytes()));
        message
    }

    /// Parses a request that reads entries.
    ///
    /// # Errors
    /// Returns the reason why the message is invalid.
    pub fn decode(message: &[u8]) -> Result<Self, InvalidMessage> {
        let mut fields = Fields(message);
        let principal = fields.principal()?;
        let mut keys = Vec::new();
        while !fields.is_empty() {
            if keys.len() == MAX_READ_KEYS {
                return Err(InvalidMessage("too many keys: a request reads at most 128"));
            }
            keys.push(fields.key()?);
        }
        Ok(Self { principal, keys })
    }
}

/// Encodes the answer to a read: the value of each key, or `None` for a missing one.
#[must_use]
pub fn encode_values(values: &[Option<impl AsRef<[u8]>>]) -> Vec<u8> {
    let mut message = Vec::new();
    for value in values {
        match value {
            Some(value) => push(&mut message, value.as_ref()),
            None => message.extend(MISSING.to_le_bytes()),
        }
    }
    message
}

/// Parses the answer to a read of `count` keys.
///
/// # Errors
/// Returns the reason why the message is invalid.
pub fn decode_values(message: &[u8], count: usize) -> Result<Vec<Option<Vec<u8>>>, InvalidMessage> {
    let mut fields = Fields(message);
    let mut values = Vec::with_capacity(count.min(MAX_READ_KEYS));
    for _ in 0..count {
        values.push(fields.next_value()?.map(<[u8]>::to_vec));
    }
    if fields.is_empty() { Ok(values) } else { Err(InvalidMessage("more values than keys")) }
}

/// An entry that a request writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenEntry {
    /// The key of the entry.
    pub key: String,
    /// The new value. `None` extends the lifetime of the stored value.
    pub value: Option<Vec<u8>>,
    /// The time to live from now, in milliseconds.
    pub ttl_ms: u64,
}

/// A request that writes entries of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// The owner of the entries.
    pub principal: String,
    /// The entries, in the order of writing.
    pub entries: Vec<WrittenEntry>,
}

impl WriteRequest {
    /// Encodes a request that writes entries.
    #[must_use]
    pub fn encode(principal: &str, entries: &[WrittenEntry]) -> Vec<u8> {
        let bytes = entries.iter().map(|entry| entry.value.as_ref().map_or(0, Vec::len) + 64);
        let mut message = Vec::with_capacity(bytes.sum());
        push(&mut message, principal.as_bytes());
        for entry in entries {
            message.push(if entry.value.is_some() { PUT } else { EXTEND });
            message.extend(entry.ttl_ms.to_le_bytes());
            push(&mut message, entry.key.as_bytes());
            entry.value.iter().for_each(|value| push(&mut message, value));
        }
        message
    }

    /// Parses a request that writes entries.
    ///
    /// # Errors
    /// Returns the reason why the message is invalid.
    pub fn decode(message: &[u8]) -> Result<Self, InvalidMessage> {
        let mut fields = Fields(message);
        let principal = fields.principal()?;
        let mut entries = Vec::new();
        while !fields.is_empty() {
            let [kind] = fields.take()?;
            let ttl_ms = u64::from_le_bytes(fields.take()?);
            if ttl_ms == 0 || ttl_ms > MAX_TTL_MS {
                return Err(InvalidMessage("a time to live is from 1 ms to 30 days"));
            }
            let key = fields.key()?;
            let value = match kind {
                PUT => Some(fields.value()?.to_vec()),
                EXTEND => None,
                _ => return Err(InvalidMessage("unknown kind of entry")),
            };
            entries.push(WrittenEntry { key, value, ttl_ms });
        }
        Ok(Self { principal, entries })
    }
}

/// Appends a field. The length fits 32 bits, because messages are limited to 64 MiB.
fn push(message: &mut Vec<u8>, field: &[u8]) {
    message.extend(u32::try_from(field.len()).unwrap_or(MISSING).to_le_bytes());
    message.extend_from_slice(field);
}

/// The fields of a message that are not read yet.
struct Fields<'m>(&'m [u8]);

const TRUNCATED: InvalidMessage = InvalidMessage("the message is truncated");

impl<'m> Fields<'m> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], InvalidMessage> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// Reads a field. Returns `None` if it denotes a missing value.
    fn next_value(&mut self) -> Result<Option<&'m [u8]>, InvalidMessage> {
        let length = u32::from_le_bytes(self.take()?);
        if length == MISSING {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| TRUNCATED)?;
        let (field, rest) = self.0.split_at_checked(length).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(Some(field))
    }

    fn value(&mut self) -> Result<&'m [u8], InvalidMessage> {
        self.next_value()?.ok_or(InvalidMessage("a field is missing"))
    }

    fn principal(&mut self) -> Result<String, InvalidMessage> {
        let bytes = self.value()?;
        if bytes.len() > MAX_PRINCIPAL_BYTES {
            return Err(InvalidMessage("the principal exceeds 4096 bytes"));
        }
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned).map_err(|_| InvalidMessage("the principal is not UTF-8"))
    }

    fn key(&mut self) -> Result<String, InvalidMessage> {
        let bytes = self.value()?;
        let is_key = (1..=MAX_KEY_BYTES).contains(&bytes.len());
        if !is_key || !bytes.iter().all(u8::is_ascii_graphic) {
            return Err(InvalidMessage("a key has 1 to 256 visible ASCII characters"));
        }
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<WrittenEntry> {
        let entry = |key: &str, value: Option<&[u8]>, ttl_ms| WrittenEntry {
            key: key.to_owned(),
            value: value.map(<[u8]>::to_vec),
            ttl_ms,
        };
        vec![entry("a.1", Some(b"\x00\xff"), 1), entry("b", None, 7), entry("c", Some(b""), 9)]
    }

    #[test]
    fn messages_are_read_as_written() {
        let message = WriteRequest::encode("ann", &entries());
        let request = WriteRequest { principal: "ann".to_owned(), entries: entries() };
        assert_eq!(WriteRequest::decode(&message), Ok(request));
        let values = [Some(b"".as_slice()), None, Some(b"x")];
        let read = decode_values(&encode_values(&values), 3).unwrap();
        assert_eq!(read, [Some(Vec::new()), None, Some(b"x".to_vec())]);
    }

    #[test]
    fn truncated_messages_are_refused() {
        let written = WriteRequest::encode("ann", &entries());
        let whole = WriteRequest::decode(&written).unwrap();
        for end in 0..written.len() {
            let read = WriteRequest::decode(written.get(..end).unwrap());
            // A message may end after any entry.
            assert!(read.is_err() || read.unwrap().entries.len() < whole.entries.len(), "{end}");
        }
        let values = encode_values(&[Some("abc"), None]);
        for end in 0..values.len() {
            assert!(decode_values(values.get(..end).unwrap(), 2).is_err(), "{end}");
        }
        assert!(decode_values(&values, 1).is_err() && decode_values(&values, 3).is_err());
    }

    #[test]
    fn invalid_fields_are_refused() {
        let write = |key: &str, ttl_ms| {
            let entry = WrittenEntry { key: key.to_owned(), value: None, ttl_ms };
            WriteRequest::decode(&WriteRequest::encode("p", &[entry]))
        };
        assert!(write("k", 1).is_ok());
        for (key, ttl_ms) in [("", 1), ("a b", 1), ("\u{e9}", 1), ("k", 0), ("k", u64::MAX)] {
            assert!(write(key, ttl_ms).is_err(), "{key:?} {ttl_ms}");
        }
        assert!(write(&"k".repeat(257), 1).is_err());
        let mut message = WriteRequest::encode("p", &[]);
        message.extend([b'x', 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'k']);
        assert!(WriteRequest::decode(&message).is_err());
        let keys = vec!["k".to_owned(); MAX_READ_KEYS + 1];
        assert!(ReadRequest::decode(&ReadRequest::encode("p", &keys)).is_err());
        assert!(ReadRequest::decode(&ReadRequest::encode(&"p".repeat(5_000), &[])).is_err());
        assert!(ReadRequest::decode(&[255; 4]).is_err() && ReadRequest::decode(b"").is_err());
        assert!(ReadRequest::decode(&[1, 0, 0, 0, 255]).is_err());
    }
}
