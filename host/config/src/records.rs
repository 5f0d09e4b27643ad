//! The records of a gateway: the audit log and telemetry.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// The audit log: one JSON object per line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// The folder of its files, one per day.
    pub folder: PathBuf,
    /// Days after which files are deleted.
    #[serde(default = "month")]
    #[schemars(range(min = 1))]
    pub retention_days: usize,
    /// Refuses requests with 503 while the log cannot be written. Each entry is then written
    /// before its request ends.
    #[serde(default)]
    pub required: bool,
}

fn month() -> usize {
    30
}

/// The records about requests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Telemetry {
    /// The maximum number of records in memory.
    pub ring: usize,
    /// The share of answers whose tokens are counted exactly, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { ring: 10_000, sample: 0.01 }
    }
}
