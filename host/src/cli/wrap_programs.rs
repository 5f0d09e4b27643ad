//! `context-guard wrap --code`: one server behind a gateway for one client, which runs programs.

use std::process::ExitCode;

use anyhow::Result;
use context_guard::config::{Config, Policy};
use serde_json::json;

use super::runtime::GatewayFiles;
use super::stdio;
use super::{GuardOptions, HistoryOption, ProfileOption};

/// The name of a server without `--name`.
const DEFAULT_NAME: &str = "server";

/// The server of a command line, and its options.
pub(super) struct WrappedServer {
    pub(super) guard: GuardOptions,
    pub(super) name: String,
    pub(super) history: HistoryOption,
    pub(super) profile: ProfileOption,
    pub(super) command: Vec<String>,
}

/// Runs the server of a command line behind a gateway that offers `context_guard_run`.
pub(super) fn run(wrap: WrappedServer) -> Result<ExitCode> {
    let name = if wrap.name.is_empty() { DEFAULT_NAME } else { &wrap.name };
    let settings = json!({
        "upstreams": [{"name": name, "command": wrap.command, "inheritEnv": ["*"]}],
        "naming": "plain",
        "code": {"enabled": true},
    });
    let mut config: Config = serde_json::from_value(settings)?;
    // A relative path starts from the working folder.
    let policy = wrap.guard.policy.as_ref().map(std::path::absolute).transpose()?;
    config.policy = policy.map(Policy::File);
    config.history = (!wrap.history.no_history).then(Default::default);
    let files = GatewayFiles { config: None, component: wrap.guard.component, bundle: None };
    stdio::run(config, files, wrap.profile)
}
