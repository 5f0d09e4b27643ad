//! The history of calls: one SQLite file that many processes share.
//!
//! It stores cells rather than calls: the sums and histograms of a minute, hour or day, by
//! upstream, tool, client and outcome. A follow-up read counts for the call whose answer it
//! continues, so that savings are net. Single requests are stored too, but only while there is
//! space.
//!
//! ```
//! use context_guard_history::{Event, History, HistoryOptions, Query, Reader};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("history.db");
//! let history = History::open(&path, &HistoryOptions::default()).unwrap();
//! let now_ms = 1_790_000_000_000;
//! history.record(Event {
//!     at_ms: now_ms,
//!     upstream: "files".to_owned(),
//!     tool: "read".to_owned(),
//!     tokens_before: 90_000,
//!     tokens_sent: 4_000,
//!     ..Event::default()
//! });
//! history.flush();
//! let query = Query::parse([("measure", "net_tokens_saved"), ("by", "tool")], now_ms).unwrap();
//! let answer = Reader::open(&path).unwrap().run(&query).unwrap();
//! assert_eq!(answer["rows"][0]["net_tokens_saved"], 86_000);
//! ```

#![forbid(unsafe_code)]

mod cell;
mod chunk;
mod error;
mod event;
mod histogram;
mod history;
mod listing;
mod measure;
mod migration;
mod query;
mod reader;
mod retention;
mod schema;
mod sessions;
mod time;
mod usage;
mod varint;
mod writer;

pub use cell::Level;
pub use error::{Error, Result};
pub use event::{Event, Follows, OTHER, Outcome, Sample};
pub use histogram::Histogram;
pub use history::{History, HistoryOptions};
pub use listing::ListQuery;
pub use measure::Measure;
pub use query::{Dimension, Query};
pub use reader::Reader;
pub use usage::ToolUsage;
