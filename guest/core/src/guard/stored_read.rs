//! Reads of stored answers by programs.

use super::{CalledTool, Context, Fault, Guard};
use crate::mcp::read::{ReadError, SnapshotReader};
use crate::mcp::stored_part::{StoredPart, StoredRange};
use crate::snapshot::CursorError;
use crate::snapshot::stored::Loaded;

/// The state of reading a part of a stored answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredRead {
    /// The host must load the store entries with these keys, and call [`Guard::read_stored`] again
    /// with all entries loaded so far.
    Load(Vec<String>),
    /// The requested part of the stored answer.
    Part(StoredPart),
}

impl Guard {
    /// Reads a part of the answer to which a cursor points, for a program of `cx.principal`.
    /// `loaded` has the store entries loaded so far.
    ///
    /// # Errors
    /// Returns [`Fault::Other`] with the reason for the author of the program.
    pub fn read_stored(
        &self,
        cx: &Context<'_>,
        cursor: &str,
        range: StoredRange,
        loaded: &Loaded,
        now_ms: u64,
    ) -> Result<StoredRead, Fault> {
        let call = self.environment(cx, CalledTool::default(), None, now_ms);
        let reader = SnapshotReader { call, endpoint: None, structured: false };
        let refuse = |error: CursorError| Fault::Other(error.to_string());
        match reader.read_stored(cursor, range, loaded) {
            Ok(part) => Ok(StoredRead::Part(part)),
            Err(ReadError::Load(keys)) => Ok(StoredRead::Load(keys)),
            Err(ReadError::Cursor(CursorError::Gone)) if cx.store_unavailable => {
                Err(refuse(CursorError::Unavailable))
            }
            Err(ReadError::Cursor(error) | ReadError::Reference(_, error)) => Err(refuse(error)),
            Err(ReadError::Replay(..)) => Err(refuse(CursorError::Gone)),
            Err(ReadError::InvalidRequest(reason)) => Err(Fault::Other(reason)),
        }
    }
}
