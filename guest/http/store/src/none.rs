//! A store that is never available.

use crate::Store;
use crate::bindings::exports::context_guard::guard::cursor_store::{Entry, Guest, StoreError};

impl Guest for Store {
    fn get(_: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        Err(StoreError::Unavailable)
    }

    fn put(_: Vec<Entry>, _: u64) -> Result<(), StoreError> {
        Err(StoreError::Unavailable)
    }

    fn extend(_: Vec<String>, _: u64) -> Result<(), StoreError> {
        Err(StoreError::Unavailable)
    }

    fn delete(_: Vec<String>) -> Result<(), StoreError> {
        Err(StoreError::Unavailable)
    }
}
