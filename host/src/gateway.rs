//! The pump: moves messages between clients and upstreams, past the filter.
//!
//! `stdio` is one client and one child process. `serve` is the gateway: a front that speaks HTTP, and behind it either one HTTP upstream whose bytes pass
//! (`proxy`), or many upstreams of any kind (`aggregator`).

mod aggregator;
mod blocking;
mod envelope;
mod front;
mod lines;
mod pending;
mod rest;
pub mod serve;
mod session;
mod single_upstream;
pub mod stdio;
mod upstream;
mod wire;

pub(crate) use front::header;
pub(crate) use rest::problem;
pub use serve::Gateway;
pub use session::Session;
