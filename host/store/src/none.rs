//! A cursor store without storage. To serve a cursor, the gateway repeats the tool call if the
//! policy allows that.

use std::time::Duration;

use bytes::Bytes;

use crate::{CursorStore, StoreError};

/// A store that stores nothing.
#[derive(Debug, Default)]
pub struct NoStore;

impl CursorStore for NoStore {
    fn get(&self, _: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        Ok(vec![None; keys.len()])
    }

    fn put(&self, _: &str, _: Vec<(String, Vec<u8>)>, _: Duration) -> Result<(), StoreError> {
        Err(StoreError::Unavailable)
    }

    fn extend(&self, _: &str, _: &[String], _: Duration) -> Result<(), StoreError> {
        Err(StoreError::Unavailable)
    }

    fn delete(&self, _: &str, _: &[String]) -> Result<(), StoreError> {
        Ok(())
    }
}
