//! The settings of a signed bundle.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::secret::Secret;

/// A signed bundle of policy, component and signing keys, made by `context-guard bundle create`.
/// Its parts replace those of this file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bundle {
    /// The place of the bundle: an `https://` or `http://` URL, `store:KEY` for a key in the Redis
    /// of `store.url`, a file, or the folder of an OCI layout.
    #[schemars(example = "https://config.example/guard.bundle")]
    pub source: String,
    /// minisign public keys in base64. A bundle needs a signature by one of them.
    pub public_keys: Vec<String>,
    /// The secret that decrypts the signing keys in the bundle.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// Seconds between two reads of the place.
    #[serde(default = "five")]
    #[schemars(range(min = 1))]
    pub poll_seconds: u64,
    /// The folder for the number of the last accepted bundle, and for the last deployed bundle.
    /// Without it, `bundles` in the state folder of the user.
    #[serde(default)]
    pub state: Option<PathBuf>,
}

fn five() -> u64 {
    5
}
