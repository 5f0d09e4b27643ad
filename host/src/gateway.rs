//! The pump: moves messages between clients and upstreams, past the filter.
//!
//! `stdio` is one client and one child process. `serve` is the gateway: a front that speaks HTTP, and behind it either one HTTP upstream whose bytes pass
//! (`proxy`), or many upstreams of any kind (`hub`).

mod envelope;
mod front;
mod hub;
mod lines;
mod offload;
mod pending;
mod proxy;
mod rest;
pub mod serve;
mod session;
pub mod stdio;
mod upstream;
mod wire;

pub(crate) use front::{API_KEY, header};
pub(crate) use rest::problem;
pub use serve::Gateway;
pub use session::Session;
pub(crate) use upstream::http::{HttpClient, client as http_client};
