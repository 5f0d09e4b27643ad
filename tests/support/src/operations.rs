//! What operators do to a gateway that runs: files that change, admin calls, and what its clients see meanwhile.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::artifacts;
use crate::gateway::{Gateway, Reply, agent};

/// The admin token of the gateways here.
pub const TOKEN: &str = "the admin token of the tests";

/// The members of a configuration by which a gateway can be changed while it runs.
#[must_use]
pub fn admin() -> Value {
    json!({"listen": "127.0.0.1:0", "token": TOKEN})
}

/// Sends an admin call; every status is an answer.
///
/// # Errors
/// Where there is no response.
pub fn change(gateway: &Gateway, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
    change_with(gateway, method, path, body, &[])
}

/// The same with headers.
///
/// # Errors
/// Where there is no response.
pub fn change_with(
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
    Reply::of(agent().run(request.body(body.to_vec())?)?)
}

/// What the gateway says of its generations.
///
/// # Errors
/// Where it does not say.
pub fn report(gateway: &Gateway) -> Result<Value> {
    let reply = change(gateway, "GET", "/admin/generations", b"")?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.body);
    Ok(serde_json::from_str(&reply.body)?)
}

/// The number of the active generation.
///
/// # Errors
/// Where the gateway does not say.
pub fn active(gateway: &Gateway) -> Result<u64> {
    report(gateway)?["active"].as_u64().context("no number")
}

/// Replaces a file as editors do: another is written beside it, and renamed.
///
/// # Errors
/// Where the folder cannot be written to.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new~");
    std::fs::write(&beside, bytes)?;
    Ok(std::fs::rename(beside, path)?)
}

/// Runs the program.
///
/// # Errors
/// Where it cannot be started.
pub fn run(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(artifacts::program()?)
        .args(arguments)
        .env_remove("CONTEXT_GUARD_LOG")
        .output()?)
}
