//! The native side of context-guard: runs the guard component, keeps its snapshots, moves the messages.
//!
//! To embed: make an [`engine::Engine`], load a [`engine::Component`], and give both with a store and a policy to a [`filter::Filter`]. Its `request` and
//! `response` take whole JSON-RPC messages and say what becomes of them; a fault of the guard never loses one.
#![forbid(unsafe_code)]

pub mod access;
mod admin;
pub mod admin_client;
pub mod answer;
mod breaker;
pub mod cache;
pub mod clock;
pub mod config;
pub mod document;
pub mod dry_run;
pub mod engine;
pub mod error;
pub mod fallback;
pub mod filter;
pub mod gateway;
pub mod generation;
pub mod keys;
mod message;
pub mod needles;
pub mod policy;
pub mod recording;
pub mod sampler;
pub mod store;
pub mod telemetry;

pub use clock::Clock;
pub use error::{Error, Result};
pub use filter::Filter;

/// The guard component that this library was built with, if it was.
#[must_use]
pub fn embedded_component() -> Option<&'static [u8]> {
    #[cfg(embedded_component)]
    return Some(include_bytes!(env!("CONTEXT_GUARD_COMPONENT_PATH")));
    #[cfg(not(embedded_component))]
    None
}
