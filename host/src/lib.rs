//! Runs the guard component in a native process. Programs that embed the guard use this library,
//! which re-exports the other crates of the host.
//!
//! Create an [`engine::Engine`], load a [`engine::Component`] and create a [`Filter`] with a store
//! and a policy. Its `request` and `response` take whole JSON-RPC messages and return the messages
//! to send. If the guard fails, the policy decides about the message: it is sent unchanged,
//! truncated at a limit, or replaced by an error.
#![forbid(unsafe_code)]

pub mod admin_client;
pub mod dry_run;
pub mod key_facts;

pub use context_guard_access as access;
pub use context_guard_bundle as bundle;
pub use context_guard_code as code;
pub use context_guard_config as config;
pub use context_guard_config::{document, policy};
pub use context_guard_cursor_store as store;
pub use context_guard_engine as engine;
pub use context_guard_filter::{self as filter, Filter, cache};
pub use context_guard_gateway::{self as gateway, Error, Result};
pub use context_guard_history as history;
pub use context_guard_oauth as oauth;
pub use context_guard_revision::{self as revision, keys};
pub use context_guard_telemetry::{self as telemetry, recording, sampler};
pub use store::{Clock, clock};

/// Functions that extract from an answer the texts that a model reads, and count their tokens.
pub mod answer {
    pub use context_guard_filter::{self as filter, Filter, cache};
    pub use context_guard_gateway::{self as gateway, Error, Result};
    pub use context_guard_revision::answer::*;
    pub use context_guard_telemetry::{COUNTS_EXACTLY, o200k, require_exact_tokens};
}

/// The components that the build script embeds.
mod embedded {
    use crate::engine::EmbeddedComponent;

    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Returns the guard component that is embedded in this build. `None` if the build has none.
#[must_use]
pub fn embedded_component() -> Option<engine::EmbeddedComponent> {
    embedded::COMPONENT
}

/// Returns the sandbox for programs that is embedded in this build. `None` if the build has none.
#[must_use]
pub fn embedded_sandbox() -> Option<engine::EmbeddedComponent> {
    embedded::SANDBOX
}
