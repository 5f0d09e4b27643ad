//! How what is new comes in.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a new component or policy is rolled out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutOptions {
    /// How a new revision comes in.
    pub mode: Mode,
    /// The shares of sessions that a canary takes, one after the other, in percent.
    #[schemars(inner(range(min = 1, max = 100)))]
    pub steps: Vec<u8>,
    /// How long each step lasts at least.
    pub step_seconds: u64,
    /// How many calls the new revision must have had on a step, at least.
    pub step_calls: u64,
    /// The share of sessions that the new revision of an A/B comparison takes, in percent.
    #[schemars(range(min = 1, max = 99))]
    pub share: u8,
    /// How many revisions are kept, the active one included.
    #[schemars(range(min = 2))]
    pub keep: usize,
    /// The percentage of sessions whose answers are shaped and recorded, but sent as they came: what the guard would have done, beside what happens without it.
    #[schemars(range(max = 100))]
    pub unshaped: u8,
    /// When a revision is taken back by itself.
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

/// How a new revision comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// At once, for everybody.
    #[default]
    Swap,
    /// For a growing share of sessions, by plan, promoted or taken back by its numbers.
    Canary,
    /// For a fixed share of sessions, until an operator decides.
    Ab,
    /// For nobody: it shapes beside the active one, and the difference is reported, until an operator decides.
    Shadow,
}

/// When a revision is taken back by itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RollbackLimits {
    /// The share of its last calls that it may fail on, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub fault_rate: f64,
    /// How many faults there must be at least.
    #[schemars(range(min = 1))]
    pub faults: u64,
    /// How far back faults count.
    #[schemars(range(min = 1))]
    pub window_seconds: u64,
    /// How many times as long a trial's calls may take, on average, as those of the active revision.
    #[schemars(range(min = 1))]
    pub slowdown: f64,
}

impl Default for RollbackLimits {
    fn default() -> Self {
        Self { fault_rate: 0.05, faults: 3, window_seconds: 60, slowdown: 4.0 }
    }
}

/// What is kept, and for how long.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CacheOptions {
    /// The bytes of all answers together. What was used longest ago goes first.
    pub bytes: usize,
    /// How old an answer may be that is shown as ids, metadata or preview.
    pub metadata_seconds: u64,
    /// How old an answer may be that is shown in full.
    pub full_seconds: u64,
    /// The endpoints whose answers are kept, where the tool is read-only by its own hint or by policy; `*` stands for any characters.
    pub endpoints: Vec<String>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            bytes: 35 << 20,
            metadata_seconds: 3_600,
            full_seconds: 1_800,
            endpoints: vec!["*".to_owned()],
        }
    }
}

/// What is recorded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordingOptions {
    /// The file that lines are added to.
    pub file: PathBuf,
    /// The share of answers that is recorded, 0 to 1.
    #[serde(default = "all")]
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Names of members whose values are taken out, at any depth, without regard to case. Names that hold password, secret, token, apikey, authorization, credential or cookie always are.
    #[serde(default)]
    pub redact: Vec<String>,
    /// Regular expressions; what they match in any text is taken out.
    #[serde(default)]
    pub redact_patterns: Vec<String>,
    /// The file grows no longer than this.
    #[serde(default = "largest")]
    pub bytes: u64,
}

fn all() -> f64 {
    1.0
}

fn largest() -> u64 {
    1 << 30
}
