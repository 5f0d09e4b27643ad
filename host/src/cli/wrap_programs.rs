//! `context-guard wrap --code`: one server behind a gateway for one client, which runs programs.

use std::process::ExitCode;

use anyhow::Result;
use context_guard::config::Config;
use serde_json::json;

use super::runtime::GatewayFiles;
use super::stdio;
use super::wrap::Wrap;

/// The name of a server without `--name`.
const DEFAULT_NAME: &str = "server";

/// Runs the server of a command line behind a gateway that offers `context_guard_run`.
pub(super) fn run(wrap: Wrap) -> Result<ExitCode> {
    let name = if wrap.name.is_empty() { DEFAULT_NAME } else { &wrap.name };
    let inherited = [vec!["*".to_owned()], wrap.inherit_env].concat();
    let mut settings = json!({
        "upstreams": [{"name": name, "command": wrap.command, "inheritEnv": inherited}],
        "naming": "plain",
        "code": {"enabled": true},
    });
    if let Some(policy) = &wrap.guard.policy {
        // A relative path starts from the working folder.
        settings["policy"] = json!(std::path::absolute(policy)?);
    }
    let mut config: Config = serde_json::from_value(settings)?;
    config.history = (!wrap.history.no_history).then(Default::default);
    stdio::run(config, GatewayFiles { config: None, component: wrap.guard.component })
}
