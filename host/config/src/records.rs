//! The records of a gateway: the audit log and telemetry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::secret::Secret;

/// The audit log: one JSON object per line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// The folder of its files, one per day.
    pub folder: PathBuf,
    /// The number of newest files to keep. Older ones are deleted. A day without entries has none.
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
    /// The share of answers whose tokens are counted exactly, from 0 to 1. Every n-th answer is
    /// counted, where n is 1 divided by the share, rounded.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample: f64,
    /// The export to an OpenTelemetry collector. Variables such as OTEL_EXPORTER_OTLP_ENDPOINT
    /// apply to members that are missing.
    pub otlp: OtlpSettings,
}

/// The export of traces, metrics and logs over OTLP (HTTP, protobuf).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OtlpSettings {
    /// The URL of the collector, to which `/v1/traces`, `/v1/metrics` and `/v1/logs` are appended.
    /// Without it, and without OTEL_EXPORTER_OTLP_ENDPOINT, nothing is exported.
    #[schemars(example = "http://127.0.0.1:4318")]
    pub endpoint: Option<String>,
    /// Headers of all requests to the collector. They need https://, or http:// on this machine.
    pub headers: BTreeMap<String, Secret>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { ring: 10_000, sample: 0.01, otlp: OtlpSettings::default() }
    }
}
