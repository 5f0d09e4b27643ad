//! The pump: moves messages between a client and an upstream, past the filter.

mod envelope;
mod lines;
mod pending;
mod session;
pub mod stdio;

pub use session::Session;
