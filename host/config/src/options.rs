//! Options of the rollout, the cache and the recording.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rollout of a new component or policy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutOptions {
    /// The mode of the rollout.
    pub mode: Mode,
    /// The shares of sessions that a canary serves, one after the other, in percent.
    #[schemars(inner(range(min = 1, max = 100)))]
    pub steps: Vec<u8>,
    /// The minimum duration of each step, in seconds.
    pub step_seconds: u64,
    /// The minimum number of calls in each step.
    pub step_calls: u64,
    /// The share of sessions of the new revision in an A/B comparison, in percent.
    #[schemars(range(min = 1, max = 99))]
    pub share: u8,
    /// The number of retained revisions, including the active one.
    #[schemars(range(min = 2))]
    pub keep: usize,
    /// The percentage of sessions whose answers are shaped and recorded, but sent unchanged, for
    /// comparison.
    #[schemars(range(max = 100))]
    pub unshaped: u8,
    /// The conditions of an automatic rollback.
    pub limits: RollbackLimits,
}

impl Default for RolloutOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Swap,
            steps: vec![5, 25, 50, 100],
            step_seconds: 300,
            step_calls: 50,
            share: 50,
            keep: 5,
            unshaped: 0,
            limits: RollbackLimits::default(),
        }
    }
}

/// The mode of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// At once for all sessions.
    #[default]
    Swap,
    /// For a growing share of sessions, promoted or rolled back by its statistics.
    Canary,
    /// For a fixed share of sessions, until an operator decides.
    Ab,
    /// For no session: it shapes copies of the answers, and the differences are reported until an
    /// operator decides.
    Shadow,
}

/// The conditions of an automatic rollback.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RollbackLimits {
    /// The maximum share of failed calls, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub fault_rate: f64,
    /// The minimum number of failures.
    #[schemars(range(min = 1))]
    pub faults: u64,
    /// Seconds for which failures count.
    #[schemars(range(min = 1))]
    pub window_seconds: u64,
    /// The maximum ratio of the mean call duration of a trial to that of the active revision.
    #[schemars(range(min = 1))]
    pub slowdown: f64,
}

impl Default for RollbackLimits {
    fn default() -> Self {
        Self { fault_rate: 0.05, faults: 3, window_seconds: 60, slowdown: 4.0 }
    }
}

/// The cache for answers of read-only tools.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CacheOptions {
    /// The maximum bytes of all answers. The least recently used ones are evicted first.
    pub bytes: usize,
    /// The maximum age of an answer that is shown as ids, metadata or preview, in seconds.
    pub metadata_seconds: u64,
    /// The maximum age of an answer that is shown in full, in seconds.
    pub full_seconds: u64,
    /// Shares the answers with all gateways that have the same Redis and signing keys. Other
    /// gateways learn of removed answers within milliseconds. It needs a `store.url` of Redis.
    pub shared: bool,
    /// The endpoints that are cached if the tool is read-only by its hint or by policy; `*` matches
    /// any characters.
    pub endpoints: Vec<String>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            bytes: 35 << 20,
            metadata_seconds: 3_600,
            full_seconds: 1_800,
            shared: false,
            endpoints: vec!["*".to_owned()],
        }
    }
}

/// The history of calls: sums by minute, hour and day, for `context-guard stats` and
/// `/admin/v1/query`. It contains no arguments and no answers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HistorySettings {
    /// Records calls.
    pub enabled: bool,
    /// The file. Without it, `history.db` in the state folder of the user. Several processes of
    /// one machine may share a file.
    pub file: Option<PathBuf>,
    /// The maximum size of the file, in bytes. Beyond it, the oldest records of single requests are
    /// deleted, then the oldest sums.
    #[schemars(range(min = 1_048_576))]
    pub bytes: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self { enabled: true, file: None, bytes: 64 << 20 }
    }
}

/// The recording of traffic.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordingOptions {
    /// The file that lines are appended to.
    pub file: PathBuf,
    /// The share of recorded answers, from 0 to 1. Every n-th answer is recorded, where n is 1
    /// divided by the share, rounded: 0.7 records all.
    #[serde(default = "all")]
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Names of members whose values are redacted at any depth, in any case. Names with password,
    /// secret, token, apikey, authorization, credential or cookie always are. So are the values of
    /// such fields within texts: `password=…`, `Authorization: Bearer …`.
    #[serde(default)]
    pub redact: Vec<String>,
    /// Regular expressions whose matches are redacted in all texts.
    #[serde(default)]
    pub redact_patterns: Vec<String>,
    /// The maximum length of the file, in bytes.
    #[serde(default = "largest")]
    pub bytes: u64,
}

fn all() -> f64 {
    1.0
}

fn largest() -> u64 {
    1 << 30
}
