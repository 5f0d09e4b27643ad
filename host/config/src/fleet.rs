//! The settings of a gateway that is one of several replicas.

use schemars::JsonSchema;
use serde::Deserialize;

/// The gateway as one of several replicas behind a load balancer. All replicas need the same
/// `signingKeys`, upstreams and `store`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Fleet {
    /// The listen address for the other replicas. Connections are encrypted, and both sides prove
    /// that they have one of the `signingKeys`.
    #[schemars(example = "0.0.0.0:8810")]
    pub listen: String,
    /// The address and port at which the other replicas reach this one. Without it, `listen`.
    #[schemars(example = "10.0.0.7:8810")]
    pub address: Option<String>,
    /// The number of replicas, by which each divides `access.rateLimit` and `limits.perPrincipal`
    /// while the store is unreachable or in memory.
    #[schemars(range(min = 1))]
    pub replicas: u32,
}

impl Default for Fleet {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8810".to_owned(), address: None, replicas: 1 }
    }
}
