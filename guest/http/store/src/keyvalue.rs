//! A store over wasi:keyvalue. Each value is prefixed with its expiry.

use crate::Store;
use crate::bindings::exports::context_guard::guard::cursor_store::{Entry, Guest, StoreError};
use crate::bindings::wasi::clocks::wall_clock;
use crate::bindings::wasi::keyvalue::store::{Bucket, Error, open};

/// The environment variable that names the bucket. Default: `default`, which the host may map to
/// any bucket.
const BUCKET_VARIABLE: &str = "CONTEXT_GUARD_BUCKET";
/// Size, in bytes, of the expiry that precedes each stored value: milliseconds since 1970,
/// little-endian.
const EXPIRY_BYTES: usize = size_of::<u64>();

fn bucket() -> Result<Bucket, StoreError> {
    let name = std::env::var(BUCKET_VARIABLE).unwrap_or_else(|_| "default".to_owned());
    open(&name).map_err(|error| match error {
        Error::NoSuchStore => {
            StoreError::Other(format!("bucket {name:?} does not exist ({BUCKET_VARIABLE})"))
        }
        error => fault(error),
    })
}

fn fault(error: Error) -> StoreError {
    match error {
        Error::NoSuchStore => StoreError::Unavailable,
        Error::AccessDenied => StoreError::Other("access to the bucket is denied".to_owned()),
        Error::Other(reason) => StoreError::Other(reason),
    }
}

fn now_ms() -> u64 {
    let now = wall_clock::now();
    now.seconds * 1_000 + u64::from(now.nanoseconds / 1_000_000)
}

/// Reads the value stored under a key, without the expiry stored in front of it. Deletes the value
/// and returns none if it has expired.
fn read(bucket: &Bucket, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(value) = bucket.get(key).map_err(fault)? else { return Ok(None) };
    let expires_ms = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    if expires_ms.is_some_and(|expires_ms| expires_ms > now_ms()) {
        return Ok(Some(value));
    }
    bucket.delete(key).map_err(fault)?;
    Ok(None)
}

fn write(bucket: &Bucket, key: &str, value: &[u8], ttl_ms: u64) -> Result<(), StoreError> {
    let expires_ms = now_ms().saturating_add(ttl_ms).to_le_bytes();
    bucket.set(key, &[expires_ms.as_slice(), value].concat()).map_err(fault)
}

impl Guest for Store {
    fn get(keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let bucket = bucket()?;
        let value =
            |key: &String| Ok(read(&bucket, key)?.map(|mut value| value.split_off(EXPIRY_BYTES)));
        keys.iter().map(value).collect()
    }

    fn put(entries: Vec<Entry>, ttl_ms: u64) -> Result<(), StoreError> {
        let bucket = bucket()?;
        entries.iter().try_for_each(|entry| write(&bucket, &entry.key, &entry.value, ttl_ms))
    }

    fn extend(keys: Vec<String>, ttl_ms: u64) -> Result<(), StoreError> {
        let bucket = bucket()?;
        for key in keys {
            if let Some(value) = read(&bucket, &key)? {
                write(&bucket, &key, value.get(EXPIRY_BYTES..).unwrap_or_default(), ttl_ms)?;
            }
        }
        Ok(())
    }

    fn delete(keys: Vec<String>) -> Result<(), StoreError> {
        let bucket = bucket()?;
        keys.iter().try_for_each(|key| bucket.delete(key).map_err(fault))
    }
}
