//! The native guard, the golden vectors and the rule for skips, for tests that need no wasmtime.
#![allow(
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure, and JSON values give null for missing members"
)]

pub mod guard;
pub mod skips;
pub mod vectors;
