//! The pump: moves messages between clients and upstreams, past the filter.
//!
//! `stdio` is one client and one child process. `serve` is the gateway: a front that speaks HTTP, and behind it either one HTTP upstream whose bytes pass
//! (`proxy`), or many upstreams of any kind (`aggregator`).

#![forbid(unsafe_code)]

mod admin;
mod aggregator;
mod blocking;
mod error;
mod front;
mod lines;
mod message;
mod rest;
pub mod serve;
mod session;
mod single_upstream;
pub mod stdio;
mod upstream;
mod wire;

use context_guard_access as access;
use context_guard_config::{self as config, policy};
use context_guard_cursor_store::{self as store, Clock};
use context_guard_engine as engine;
use context_guard_filter::{self as filter, cache};
use context_guard_revision as revision;
use context_guard_telemetry as telemetry;
// The names of this crate's modules before it was a crate of its own.
use crate as gateway;

pub use error::{Error, Result};
pub(crate) use front::header;
pub(crate) use rest::problem;
pub use serve::Gateway;
pub use session::Session;
