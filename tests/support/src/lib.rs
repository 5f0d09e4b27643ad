//! The test kit: paths of artifacts, guards in both forms, clients, servers, and checks of answers.
#![allow(
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure, and JSON values give null for what is not there"
)]

pub mod answer;
pub mod artifacts;
pub mod audit;
pub mod authorization;
pub mod balancer;
pub mod certificates;
pub mod client;
pub mod envoy;
pub mod external;
pub mod faulty_server;
pub mod gateway;
pub mod guards;
pub mod load;
pub mod operations;
pub mod peers;
pub mod redis;
pub mod scripted;
pub mod serve;
pub mod wait;
pub mod walk;

pub use anyhow::{Context, Error, Result, bail, ensure};
pub use context_guard_grpc as grpc;
