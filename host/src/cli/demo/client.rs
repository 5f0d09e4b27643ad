//! A minimal MCP client: it calls tools over stdio, one after another.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// An MCP client of a server process that it started.
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    /// Starts the server with this command line and initializes the session.
    pub(super) fn start(command: &[&OsStr]) -> Result<Self> {
        let (program, arguments) = command.split_first().context("the command is empty")?;
        let mut child = Command::new(program)
            .args(arguments)
            // The cursors are used in this process only, so a constant key is sufficient.
            .env(context_guard::keys::VARIABLE, "the key of the demonstration")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(program).display()))?;
        let output = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut client = Self { input: child.stdin.take(), child, output, last_id: 0 };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "context-guard demo", "version": env!("CARGO_PKG_VERSION")}});
        client.request("initialize", &hello)?;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        client.request("tools/list", &json!({}))?;
        Ok(client)
    }

    /// Calls a tool, and returns the next line of the server verbatim. It must be the response.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Result<Vec<u8>> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("the server is stopped")?;
        writeln!(input, "{message}")
            .and_then(|()| input.flush())
            .context("the server does not read")
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Vec<u8>> {
        self.last_id += 1;
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}),
        )?;
        let mut line = Vec::new();
        if self.output.read_until(b'\n', &mut line).context("the server does not answer")? == 0 {
            bail!("the server ended before it answered {method}");
        }
        Ok(line)
    }
}

impl Drop for Client {
    /// Closes the server's standard input, and waits until the process exits.
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
