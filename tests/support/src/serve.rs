//! The wasi:http compositions, served by the library behind `wasmtime serve`.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::artifacts;
use crate::gateway::{Process, get, post};

/// A composition that is being served.
pub struct Served {
    /// The process that serves the composition.
    pub process: Process,
    /// The URL at which it is served.
    pub url: String,
}

impl Served {
    /// Serves a composition before a server, under a configuration. The time is fixed at `now_ms`,
    /// if given.
    ///
    /// # Errors
    /// The process does not start.
    pub fn start(
        composition: &str,
        upstream: &str,
        config: &Value,
        now_ms: Option<u64>,
    ) -> Result<Self> {
        let mut command =
            Command::new(artifacts::program()?.with_file_name("context-guard-test-serve"));
        command.arg(artifacts::dist(composition)?);
        for pair in environment(upstream, config)? {
            command.arg("--env").arg(pair);
        }
        if let Some(now_ms) = now_ms {
            command.arg("--now-ms").arg(now_ms.to_string());
        }
        let process = Process::start(command, true, "http://")?;
        let url = process.output().trim().to_owned();
        Ok(Self { process, url })
    }

    /// Clears the store, and replaces the server and the configuration.
    ///
    /// # Errors
    /// The process does not answer.
    pub fn begin_anew(&self, upstream: &str, config: &Value) -> Result<()> {
        let environment = serde_json::to_string(&environment(upstream, config)?)?;
        let reply = post(&format!("{}/__env", self.url), &[], &environment)?;
        ensure!(reply.status == 200, "{}", reply.body);
        Ok(())
    }

    /// Returns all entries of the store.
    ///
    /// # Errors
    /// The process does not answer.
    pub fn stored(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let stored = get(&format!("{}/__stored", self.url), &[])?.body;
        let stored: BTreeMap<String, String> = serde_json::from_str(&stored)?;
        stored.into_iter().map(|(key, value)| Ok((key, STANDARD.decode(value)?))).collect()
    }
}

fn environment(upstream: &str, config: &Value) -> Result<Vec<String>> {
    let keys = std::str::from_utf8(crate::guards::SIGNING_KEY)?;
    let all = [("UPSTREAM", upstream), ("SIGNING_KEYS", keys), ("CONFIG", &config.to_string())];
    Ok(all.iter().map(|(name, value)| format!("CONTEXT_GUARD_{name}={value}")).collect())
}
