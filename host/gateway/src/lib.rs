//! The gateway: passes MCP messages between clients and upstreams (MCP servers), through the
//! filter.
//!
//! [`stdio`] connects one client and one child process. [`Gateway`] is the HTTP server: its front
//! authenticates and limits requests. Behind the front are either one HTTP upstream
//! (`single_upstream`), several upstreams of any kind (`aggregator`), or JSON APIs (`rest`).

#![forbid(unsafe_code)]

mod admin;
mod admission;
mod aggregator;
mod alerts;
mod byte_channel;
mod catalogue_tools;
mod dashboard;
mod error;
mod exchange;
#[cfg(feature = "grpc")]
mod external;
mod fair_queue;
mod filter_store;
mod fleet;
mod fleet_front;
mod fleet_requests;
mod front;
mod headers;
mod history;
mod invalid_output;
mod lines;
mod lock;
mod memory_shares;
mod message;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
mod otlp;
mod pem_files;
mod pending_filter;
mod probe;
mod process_tree;
mod protocol_mode;
mod recorder;
mod reply;
mod rest;
mod router;
mod run;
mod serve;
mod session;
mod session_table;
mod single_upstream;
pub mod stdio;
mod stdio_front;
mod stream_limits;
mod task_owners;
mod tasks;
mod trace_context;
mod unattributed;
mod upstream;

use context_guard_access as access;
use context_guard_code as code;
use context_guard_config::{self as config, policy};
use context_guard_cursor_store::{self as store, Clock};
use context_guard_engine as engine;
use context_guard_filter::{self as filter, cache};
use context_guard_oauth as oauth;
use context_guard_revision as revision;
use context_guard_telemetry as telemetry;

pub use aggregator::event_streams::{EventMemory, EventReader, EventStreams, StreamEvent};
pub use dashboard::Dashboard;
pub use error::{Error, Result};
#[cfg(feature = "grpc")]
pub use external::ExternalService;
pub(crate) use headers::header;
pub use invalid_output::printable;
pub use otlp::OtlpExport;
pub use pending_filter::PendingFilter;
pub(crate) use rest::problem;
pub use serve::Gateway;
pub use session::Session;
pub use session_table::SessionTable;
pub use upstream::process_command::upstream_command;
