//! `context-guard dashboard`: the dashboard for operators over the history of calls.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use context_guard::access::keys;
use context_guard::config::{self, Secret};
use context_guard::gateway::Dashboard as Server;

use super::serve;

const AFTER_HELP: &str = "\
Examples:
  context-guard dashboard                        the calls of `wrap` and `stdio`
  context-guard dashboard --history gateway.db   the history file of a gateway
  context-guard dashboard --port 8810            at an address that remains the same

The command prints an address and a code. Open the address in a browser and enter the code. It is \
valid until the command ends. A gateway serves the same page at `admin.listen`.";

/// Show in a browser what tools cost, from the history of calls.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Dashboard {
    /// The port on this machine. 0 selects a free one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// The history file, instead of the one in the state folder of the user.
    #[arg(long, visible_alias = "file", value_name = "FILE")]
    history: Option<PathBuf>,
}

impl Dashboard {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let code = keys::sign_in_code()?;
        let server = Server {
            history: self.history.map_or_else(config::history_file, Ok)?,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
            key: Secret::new(&code),
        };
        let history = server.history.display().to_string();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(server.run(serve::stopped(), |address| {
            say!("context-guard: dashboard at http://{address}/");
            say!("sign in with the code {code}");
            say!("it shows {history}; Ctrl-C ends it");
        }))?;
        Ok(ExitCode::SUCCESS)
    }
}
