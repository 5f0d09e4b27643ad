//! What is kept of an answer, so that everything held back can be fetched: names, segments, index, cursors.

pub mod cursor;
pub mod index;
pub mod key;
pub mod stored;

pub use cursor::{Cursor, CursorError, Replay};
pub use index::{Body, Index, Placement};
pub use key::{Keys, Scope};
pub use stored::{Entry, Loaded, Missing, StoredSnapshot};
