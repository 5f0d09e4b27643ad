//! End-to-end tests, run by `cargo xtask test`. They form one binary because linking wasmtime is
//! slow. Each module covers one subject.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests: a panic is a failure"
)]

mod access;
mod alerts;
mod browser;
mod budgets;
mod catalogue;
mod catalogue_hold;
mod catalogue_http;
mod client_certificates;
mod clients;
mod commands;
mod config_docs;
mod conformance;
mod connections;
mod contract;
mod credentials;
mod dashboard;
mod documents;
mod endpoint_rules;
mod engine;
mod envoy;
mod envoy_setup;
mod envoy_store;
mod estimates;
mod examples;
mod external;
mod fairness;
mod faults;
mod fleet;
mod fleet_bundle;
mod fleet_cache;
mod fleet_limits;
mod fleet_rollout;
mod floods;
mod front;
mod gateway;
mod history;
mod hostile;
mod incidents;
mod isolation;
mod large_answers;
mod legacy_sse;
mod manifests;
mod monitoring;
mod names;
mod oauth;
mod odd_answers;
mod opentelemetry;
mod operations;
mod processes;
mod program_clients;
mod programs;
mod properties;
mod protected_resource;
mod references;
mod replay;
mod rest;
mod rollback;
mod rollout;
#[cfg(target_os = "linux")]
mod sandboxes;
mod search;
mod security_docs;
mod servers;
mod shapes;
mod sources;
mod stdio;
mod stores;
mod stories;
mod subscriptions;
mod summaries;
mod swap;
mod tutorial;
mod upstream_certificates;
mod vectors;
mod wasi_http;
mod wrap_catalogue;
