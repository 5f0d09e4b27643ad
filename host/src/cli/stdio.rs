//! `context-guard stdio`: the gateway behind one client on standard input and output.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use context_guard::config::Config;
use tokio::io::BufReader;

use super::runtime::GatewayFiles;
use super::serve::{self, Front, GatewayParts};
use super::{HistoryOption, ProfileOption};

const AFTER_HELP: &str = "\
For clients that start their servers, such as Claude Desktop, and for bundles and registries:

  {\"mcpServers\": {\"all\": {
    \"command\": \"context-guard\", \"args\": [\"stdio\", \"--config\", \"/path/to/gateway.yaml\"]}}}

The file is that of `serve`. These settings have no effect: listen, path, tls, access, admin, filterStore, fleet.listen.";

/// Run the gateway for one client over stdio: many MCP servers as one.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stdio {
    /// The gateway file: .yaml, .json or .toml.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// The guard component, instead of the embedded one.
    #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
    component: Option<PathBuf>,
    #[command(flatten)]
    history: HistoryOption,
    #[command(flatten)]
    profile: ProfileOption,
}

impl Stdio {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut config = serve::read(&self.config)?;
        if self.history.no_history {
            config.history = None;
        } else {
            config.history.get_or_insert_default();
        }
        let files =
            GatewayFiles { config: Some(self.config), component: self.component, bundle: None };
        run(config, files, self.profile)
    }
}

/// Runs a gateway for the client on standard input and output.
pub(super) fn run(config: Config, files: GatewayFiles, profile: ProfileOption) -> Result<ExitCode> {
    let parts = GatewayParts::build(config, files, Front::Stdio)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let gateway = parts.start()?;
        let input = BufReader::with_capacity(1 << 16, tokio::io::stdin());
        let profile = profile.client_profile.as_deref();
        gateway.run_stdio(input, tokio::io::stdout(), serve::stopped(), profile).await?;
        anyhow::Ok(())
    })?;
    // A thread may still wait for input that never arrives.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
