//! The shaping of context-guard: bytes of a message in, a decision out.
//!
//! A [`Guard`] is a policy and the live keys. It keeps no state and does no I/O: time, stored bytes and messages come in, messages, entries for a store and a
//! record go out. So the same code runs behind a synchronous host, an asynchronous browser and a proxy's callbacks.
//!
//! - [`Guard::on_request`] looks at a request: it is forwarded (with a ticket for its answer), needs stored bytes first ([`Plan::Load`]), or is answered.
//! - [`Guard::on_response`] looks at an answer and cuts it to its budget.
//!
//! The data's path is the order of the modules: [`mcp`] finds payloads in messages, [`json`] and [`text`] know where they can be cut, [`tokens`] prices them,
//! [`shape`] cuts, [`snapshot`] keeps the rest. [`policy`] says what applies.
#![forbid(unsafe_code)]

pub mod fields;
pub mod guard;
pub mod mcp;
mod packed;
pub mod policy;
pub mod query;
pub mod record;
pub mod shape;
pub mod snapshot;

pub use context_guard_json as json;
use context_guard_json::blocks;
pub use context_guard_text as text;
pub use context_guard_tokens as tokens;
pub use guard::{Context, Fault, Guard, Plan, Shaped};
pub use record::{Loss, Record};

/// MCP revisions that the guard knows.
pub const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
