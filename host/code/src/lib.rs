//! Runs programs of models over tools and stored answers, in a separate sandbox.
//!
//! The sandbox is a second WebAssembly component, a JavaScript engine, which runs under the engine
//! of the guard. Each program has a new instance, a memory limit and a deadline. It can access only
//! the functions of a [`ProgramHost`].

#![forbid(unsafe_code)]

mod bindings;
mod declare;
mod error;
mod imports;
mod limits;
mod log;
mod sandbox;

pub use declare::declaration;
pub use error::{Excerpt, RunError};
pub use imports::{ProgramHost, RowsPart, StoredAnswer};
pub use limits::RunLimits;
pub use log::Log;
pub use sandbox::{Outcome, Program, Sandbox};
