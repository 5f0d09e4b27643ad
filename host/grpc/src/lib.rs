//! The gRPC interfaces of other gateways, generated from the files in `proto/`.
//!
//! `cargo test -p context-guard-grpc` compares the code with the files, and writes it again if
//! `CONTEXT_GUARD_BLESS` is set.

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated from proto/ext_mcp.proto"
)]
#[rustfmt::skip]
pub mod ext_mcp;
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated from proto/ext_proc.proto"
)]
#[rustfmt::skip]
pub mod ext_proc;

pub use prost_types::{Struct, Value, value};
pub use tonic;
