//! The settings of the component and of the store.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// The guard component.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Component {
    /// The maximum duration of one call, in milliseconds. Calls that use more than 10 ms of
    /// processor time take turns on all processors but one; waiting for a turn does not count.
    #[schemars(range(min = 10))]
    pub deadline_ms: u64,
    /// The maximum memory of one call, in bytes.
    #[schemars(range(min = 33_554_432))]
    pub memory_bytes: usize,
    /// The .wasm file.
    pub file: Option<PathBuf>,
    /// The proof that the file needs.
    pub require: Requirement,
    /// minisign public keys in base64. A signature by one of them is sufficient.
    pub public_keys: Vec<String>,
}

impl Default for Component {
    fn default() -> Self {
        Self {
            deadline_ms: 5_000,
            memory_bytes: 512 << 20,
            file: None,
            require: Requirement::default(),
            public_keys: Vec::new(),
        }
    }
}

/// The proof that a component needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Requirement {
    /// None.
    #[default]
    Nothing,
    /// `FILE.sha256`, as sha256sum writes it.
    Checksum,
    /// `FILE.minisig`, as minisign writes it, by one of `publicKeys`.
    Signature,
}

/// The store of snapshots.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Store {
    /// `memory:`, `none:`, `redis://`, `rediss://` (TLS), `valkey://` or `valkeys://` with host,
    /// port and database. `redis-cluster://` or `rediss-cluster://` take several hosts, separated
    /// by commas, and `redis-sentinel://` or `rediss-sentinel://` several Sentinels and the name of
    /// their master: `redis-sentinel://a:26379,b:26379/NAME/0`. Gateways with one Redis and the same
    /// signing keys accept each other's cursors.
    pub url: Secret,
    /// The prefix of every key.
    pub prefix: String,
    /// The timeout of one operation, in milliseconds.
    pub timeout_ms: u64,
    /// Bytes of a local cache in front of a shared store, which also takes writes while the store
    /// is down. 0 disables it.
    pub local_bytes: usize,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: Secret::new("memory:"),
            prefix: "context-guard".to_owned(),
            timeout_ms: 1_000,
            local_bytes: 64 << 20,
        }
    }
}
