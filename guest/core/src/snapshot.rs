//! Snapshots: stored answers from which cursors read the parts that an excerpt omits.

pub mod cursor;
pub mod index;
pub mod key;
mod short;
pub mod stored;

pub use cursor::{Cursor, CursorError, Replay};
pub use index::{Index, Placement, SnapshotBody};
pub use key::{Keys, Scope};
pub use stored::{Entry, Loaded, Missing, StoredSnapshot};
