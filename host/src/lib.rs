//! The native side of context-guard: runs the guard component, keeps its snapshots, moves the messages.
//!
//! To embed: make an [`engine::Engine`], load a [`engine::Component`], and give both with a store and a policy to a [`filter::Filter`]. Its `request` and
//! `response` take whole JSON-RPC messages and say what becomes of them; a fault of the guard never loses one.
#![forbid(unsafe_code)]

pub mod admin_client;
pub mod dry_run;
pub mod needles;

pub use context_guard_access as access;
pub use context_guard_config as config;
pub use context_guard_config::{document, policy};
pub use context_guard_cursor_store as store;
pub use context_guard_engine as engine;
pub use context_guard_filter::{self as filter, Filter, cache};
pub use context_guard_gateway::{self as gateway, Error, Result};
pub use context_guard_revision::{self as revision, keys};
pub use context_guard_telemetry::{self as telemetry, recording, sampler};
pub use store::{Clock, clock};

/// An answer as a model reads it, and its real cost.
pub mod answer {
    pub use context_guard_filter::{self as filter, Filter, cache};
    pub use context_guard_gateway::{self as gateway, Error, Result};
    pub use context_guard_revision::answer::*;
    pub use context_guard_telemetry::{COUNTS_EXACTLY, o200k, require_exact_tokens};
}

/// The guard component that this library was built with, if it was.
#[must_use]
pub fn embedded_component() -> Option<&'static [u8]> {
    #[cfg(embedded_component)]
    return Some(include_bytes!(env!("CONTEXT_GUARD_COMPONENT_PATH")));
    #[cfg(not(embedded_component))]
    None
}
