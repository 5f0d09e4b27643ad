//! The core of context-guard: decides what a model sees of an MCP answer, and what is stored.
//!
//! A [`Guard`] is a policy and the live signing keys. It keeps no state and performs no I/O. Time,
//! stored bytes and messages are inputs; messages, entries for a store and telemetry records are
//! outputs. So the same code runs in a synchronous host, in an asynchronous browser and in a
//! proxy's callbacks.
//!
//! - [`Guard::on_request`] forwards a request with a ticket for its response, asks for stored
//!   entries ([`Plan::Load`]), or answers it.
//! - [`Guard::on_response`] shapes a response to fit its budget.
//!
//! Layers, from low to high; each imports only lower ones:
//!
//! 1. [`json`], [`text`], [`tokens`]: spans, boundaries and token estimates;
//! 2. [`fields`]: masks and projections;
//! 3. [`policy`], [`query`], [`snapshot`], [`record`]: settings, queries, stored answers,
//!    telemetry;
//! 4. [`shape`]: reduction strategies;
//! 5. [`mcp`]: locates payloads in messages, and writes answers back;
//! 6. [`catalogue`]: lists, searches and calls the tools of many servers;
//! 7. [`guard`]: the entry points.
#![forbid(unsafe_code)]

pub mod catalogue;
mod decimal;
pub mod encoding;
pub mod fields;
pub mod guard;
pub mod mcp;
pub mod policy;
pub mod query;
pub mod record;
pub mod shape;
pub mod snapshot;

pub use context_guard_json as json;
use context_guard_json::blocks;
pub use context_guard_text as text;
pub use context_guard_tokens as tokens;
pub use guard::{Context, Fault, Guard, JqBuild, Plan, Shaped, StoredRead};
pub use record::{Loss, Origin, Record};

/// The MCP revisions that the guard supports, oldest first.
pub const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
