//! What the guard is made of, beside its policy: the component, and where it keeps things.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// The guard component.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Component {
    /// How long it may work on one message before it is cut off.
    #[schemars(range(min = 10))]
    pub deadline_ms: u64,
    /// The memory that it may take for one message, in bytes.
    #[schemars(range(min = 33_554_432))]
    pub memory_bytes: usize,
    /// The .wasm file.
    pub file: Option<PathBuf>,
    /// What a file must have beside it before it is taken.
    pub require: Requirement,
    /// minisign public keys, the base64 line of each; a signature of one of them is enough.
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

/// What a component must have beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Requirement {
    /// Nothing.
    #[default]
    Nothing,
    /// `FILE.sha256`, as sha256sum writes it.
    Checksum,
    /// `FILE.minisig`, as minisign writes it, by one of `publicKeys`.
    Signature,
}

/// Where snapshots are kept.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Store {
    /// `memory:`; `none:`; `redis://`, `rediss://` (TLS), `valkey://` or `valkeys://` with host, port and database; `redis-cluster://` or `rediss-cluster://` with several hosts and commas
    /// between them. Gateways on one Redis read on in each other's answers, if they have the same signing keys.
    pub url: Secret,
    /// What stands before every key.
    pub prefix: String,
    /// How long an operation may take.
    pub timeout_ms: u64,
    /// Bytes of what was used last that are kept in this process beside a shared store; what cannot be kept there while it is down is kept here too. 0: nothing is.
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
