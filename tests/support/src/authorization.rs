//! A real OAuth authorization server, with an MCP server that it protects, and a browser for it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::artifacts;
use crate::gateway::{Process, get, post};

/// The servers of `authorization.mjs`, on one port of loopback.
pub struct AuthorizationServer {
    process: Process,
    /// Scheme and authority, which is the issuer.
    pub base: String,
    /// The URL of the protected MCP server.
    pub url: String,
}

impl AuthorizationServer {
    /// Starts the servers with environment variables, which `authorization.mjs` describes.
    ///
    /// # Errors
    /// They do not start.
    pub fn start(environment: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(artifacts::node()?);
        command.arg(artifacts::root().join("tests/support/servers/authorization.mjs"));
        command.env("PEERS", artifacts::peers()?).envs(environment.iter().copied());
        let process = Process::start(command, true, "/mcp")?;
        let printed = process.output();
        let url = printed.lines().find(|line| line.starts_with("http://")).context("no URL")?;
        let base = url.trim_end_matches("/mcp").to_owned();
        Ok(Self { url: url.to_owned(), base, process })
    }

    /// Returns the requests that the MCP server received: members `method`, `authorization`,
    /// `cookie` and `key`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn received(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&get(&format!("{}/received", self.base), &[])?.body)?)
    }

    /// Ends all access tokens that the MCP server received so far.
    ///
    /// # Errors
    /// It does not answer.
    pub fn expire_tokens(&self) -> Result<()> {
        ensure!(post(&format!("{}/expire", self.base), &[], "{}")?.status == 200);
        Ok(())
    }

    /// Returns the output of the servers so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.process.output()
    }
}

fn script(name: &str) -> PathBuf {
    artifacts::root().join("tests/support/clients").join(name)
}

/// Opens a URL in a browser that agrees to everything, and returns status and text of the last
/// page. `fields` are values of form fields, as `name=value`.
///
/// # Errors
/// A page cannot be opened.
pub fn browse(url: &str, fields: &[&str]) -> Result<String> {
    let mut command = Command::new(artifacts::node()?);
    stdout_of(command.arg(script("browser.mjs")).arg(url).args(fields))
}

/// Connects the OAuth client of the TypeScript SDK to an MCP server, and returns its tools and its
/// tokens.
///
/// # Errors
/// The client reports an error.
pub fn connect_sdk(url: &str) -> Result<Value> {
    let mut command = Command::new(artifacts::node()?);
    command.arg(script("oauth_v1.mjs")).arg(url).env("PEERS", artifacts::peers()?);
    Ok(serde_json::from_str(&stdout_of(&mut command)?)?)
}

fn stdout_of(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
