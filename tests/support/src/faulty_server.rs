//! The faulty MCP server, whose tools fail, hang or flood.

use std::process::Command;

use crate::gateway::Process;
use crate::{Result, artifacts};

/// Returns the path of its script. With the argument `--stdio` it serves on standard input and
/// output, else over HTTP.
#[must_use]
pub fn faulty_script() -> String {
    artifacts::root().join("tests/support/servers/faulty.mjs").display().to_string()
}

/// The faulty server over HTTP, with sessions.
pub struct FaultyServer {
    _process: Process,
    /// The URL of its MCP endpoint.
    pub url: String,
}

impl FaultyServer {
    /// Starts the server on a free port.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start() -> Result<Self> {
        let mut command = Command::new("node");
        command.arg(faulty_script()).env("PORT", "0").env("SESSIONS", "1");
        let process = Process::start(command, true, "http://")?;
        let url = process.output().trim().to_owned();
        Ok(Self { _process: process, url })
    }
}
