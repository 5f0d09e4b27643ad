//! Changes to a running gateway: replaced files and admin calls.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::artifacts;
use crate::gateway::{Gateway, Reply, agent};

/// The admin token of the gateways here.
pub const TOKEN: &str = "the admin token of the tests";

/// Returns the configuration that enables admin calls.
#[must_use]
pub fn admin_config() -> Value {
    json!({"listen": "127.0.0.1:0", "token": TOKEN})
}

/// Sends an admin call, and returns the response of any status.
///
/// # Errors
/// There is no response.
pub fn admin_call(gateway: &Gateway, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
    admin_call_with(gateway, method, path, body, &[])
}

/// Sends an admin call with headers.
///
/// # Errors
/// There is no response.
pub fn admin_call_with(
    gateway: &Gateway,
    method: &str,
    path: &str,
    body: &[u8],
    headers: &[(&str, &str)],
) -> Result<Reply> {
    let url = format!("{}{path}", gateway.admin);
    let mut request = ureq::http::Request::builder()
        .method(method)
        .uri(url)
        .header("authorization", format!("Bearer {TOKEN}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Reply::read(agent().run(request.body(body.to_vec())?)?)
}

/// Returns the gateway's report on its revisions.
///
/// # Errors
/// The gateway does not answer.
pub fn revision_report(gateway: &Gateway) -> Result<Value> {
    let reply = admin_call(gateway, "GET", "/admin/generations", b"")?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.body);
    Ok(serde_json::from_str(&reply.body)?)
}

/// Returns the number of the active revision.
///
/// # Errors
/// The gateway does not answer.
pub fn active_revision(gateway: &Gateway) -> Result<u64> {
    revision_report(gateway)?["active"].as_u64().context("no active revision")
}

/// Replaces a file as editors do: writes another file next to it, and renames that.
///
/// # Errors
/// The folder is not writable.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new~");
    std::fs::write(&temporary, bytes)?;
    Ok(std::fs::rename(temporary, path)?)
}

/// Runs the program.
///
/// # Errors
/// The program does not start.
pub fn run_program(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(artifacts::program()?)
        .args(arguments)
        .env_remove("CONTEXT_GUARD_LOG")
        .output()?)
}
