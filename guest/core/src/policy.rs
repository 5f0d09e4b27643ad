//! What the operator wants: the document, its checking, and what applies to an endpoint.

mod compile;
mod document;
mod endpoint_settings;

pub use compile::{CompiledPolicy, Issue, Policy, RANGES, compile};
pub use document::{
    Advertise, CursorMode, Document, EstimatorSettings, ItemFields, OnFault, OrderBy, Rule,
    Settings, Strip,
};
pub use endpoint_settings::EndpointSettings;

/// The JSON Schema of [`Document`], generated from it (`cargo xtask docs`).
pub const SCHEMA: &str = include_str!("../policy.schema.json");

/// SHA-256 of [`SCHEMA`], in hex: what a host compares to know that two components take the same policies.
#[must_use]
pub fn schema_digest() -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(SCHEMA).iter().map(|byte| format!("{byte:02x}")).collect()
}
