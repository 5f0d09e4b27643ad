//! End-to-end tests. One binary, since each links wasmtime. A new test goes where its subject is;
//! run them by `cargo xtask test`.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests: a panic is a failure"
)]

/// The program's commands, as a user types them.
mod access;
/// The npm package, and the example page.
mod browser;
/// Answers of every shape in every client.
mod clients;
mod commands;
mod config_docs;
mod conformance;
/// The contract: frozen, and what the component really imports.
mod contract;
/// How the component is compiled, and kept compiled.
mod engine;
/// The filter in a real Envoy.
mod envoy;
/// Estimates against the real tokenizer.
mod estimates;
mod faults;
mod gateway;
/// Components that mean harm, and what the host makes of them.
mod hostile;
/// Policy commands, dry runs, the cache.
mod operations;
/// Properties that hold for every answer.
mod properties;
/// Captured messages of real servers, replayed.
mod replay;
mod rest;
/// New generations on trial.
mod rollout;
/// The example search server, and response modes.
mod search;
/// Real servers and real clients, over stdio.
mod servers;
/// Answers of odd shapes.
mod shapes;
/// The pump: what passes untouched, and how things end.
mod stdio;
/// What every cursor store must do, and what clients see of one that fails.
mod stores;
/// The acceptance scenarios of the specification, by user story.
mod stories;
/// User story 2 and the edge cases: summaries, sections, totals, search.
mod summaries;
/// User story 3, and what changes on live traffic.
mod swap;
/// Golden vectors, through every form of the guard.
mod vectors;
/// The wasi:http middleware, composed and served.
mod wasi_http;
