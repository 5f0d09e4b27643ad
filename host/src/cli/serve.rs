//! `context-guard serve`: the gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use context_guard::clock::SystemClock;
use context_guard::config::{self, Config, Policy};
use context_guard::engine::{EngineOptions, SigningKey};
use context_guard::gateway::Gateway;
use context_guard::keys;
use context_guard::policy_file;
use context_guard::sampler::Sampler;
use context_guard::store::MemoryLimits;
use tracing::{info, warn};

use super::runtime::Guard;

const AFTER_HELP: &str = "\
A small gateway.yaml:

  upstreams:
    - name: files
      command: [npx, -y, '@modelcontextprotocol/server-filesystem', /data]
    - name: search
      url: https://search.example/mcp

Clients connect to http://127.0.0.1:8808/mcp and see the tools files__read_file, search__query and so on.
`context-guard config import CLIENT.json` makes such a file from a client's mcpServers, `context-guard config check FILE` lists every fault of one.
Members can be set by the environment: CONTEXT_GUARD__LIMITS__CONCURRENCY=64 sets limits.concurrency.";

/// Run the gateway: many MCP servers and JSON APIs behind one guarded endpoint.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    /// The configuration: a .yaml, .json or .toml file.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Listen here instead of where the file says.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Another guard component than the one inside this program.
    #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
    component: Option<PathBuf>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut config = config::read(&self.config)?;
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        let guard = Guard {
            policy: policy(&config)?,
            component: self.component,
            engine: EngineOptions::default(),
            store: MemoryLimits {
                principal_bytes: config.limits.store_bytes,
                total_bytes: config.limits.store_bytes,
            },
        };
        let sampler = Sampler::start(config.telemetry.sample)?;
        let filter = guard.build(signing_keys(&config)?)?.with_sampler(sampler, false);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let path = config.path.clone();
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let names: Vec<String> =
            config.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
        runtime.block_on(async {
            let gateway = Gateway::new(config, Arc::new(filter), Arc::new(SystemClock))?;
            gateway
                .run(stopped(), |address, admin| {
                    eprintln!(
                        "context-guard: serving {} at {scheme}://{address}{path}",
                        names.join(", ")
                    );
                    if let Some(admin) = admin {
                        eprintln!("context-guard: health, metrics and telemetry at http://{admin}");
                    }
                })
                .await
        })?;
        info!("Stopped.");
        runtime.shutdown_background();
        Ok(ExitCode::SUCCESS)
    }
}

/// The policy that a configuration names or holds, as JSON.
pub(super) fn policy(config: &Config) -> Result<String> {
    match &config.policy {
        None => Ok(String::new()),
        Some(Policy::File(path)) => Ok(policy_file::read(&config.folder.join(path))?),
        Some(Policy::Inline(policy)) => {
            serde_json::to_string(policy).context("the policy cannot be read")
        }
    }
}

fn signing_keys(config: &Config) -> Result<Vec<SigningKey>> {
    if !config.signing_keys.is_empty() {
        return Ok(config
            .signing_keys
            .iter()
            .enumerate()
            .map(|(at, key)| SigningKey {
                id: at.to_string(),
                secret: key.expose().as_bytes().to_vec(),
            })
            .collect());
    }
    if let Some(keys) = keys::from_environment() {
        return Ok(keys);
    }
    warn!(
        "No signing key is configured (signingKeys, or {}): one was made up for this run, and cursors end with it.",
        keys::VARIABLE
    );
    Ok(vec![keys::random()?])
}

/// Resolves when the process is told to stop.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
