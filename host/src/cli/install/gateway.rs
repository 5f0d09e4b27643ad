//! The gateway file that replaces the servers in clients' files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use context_guard::config::{self, Config, References};
use context_guard_install::{Endpoint, Location, Server, ServerState};

/// A gateway file, and the servers that it contains.
pub(super) struct GatewayPlan {
    pub(super) path: PathBuf,
    program: String,
    url: String,
    is_stdio: bool,
    /// The file to write. `None` if it exists already.
    import: Option<config::Import>,
    /// The names of the upstreams of an existing file.
    upstreams: Vec<String>,
}

/// Reads the gateway file. If it does not exist, creates its contents from the servers of the
/// clients.
pub(super) fn plan(
    file: &Path,
    is_stdio: bool,
    program: String,
    locations: &[Location],
) -> Result<GatewayPlan> {
    let path = std::path::absolute(file)?;
    path.to_str().with_context(|| format!("{}: the path is not UTF-8", path.display()))?;
    if path.exists() {
        let config = config::read_with(&path, References::Keep)?;
        let upstreams = config.upstreams.iter().map(|upstream| upstream.name.clone());
        let upstreams = upstreams.chain(config.disabled.iter().cloned()).collect();
        let url = url(&config);
        return Ok(GatewayPlan { path, program, url, is_stdio, import: None, upstreams });
    }
    if path.extension().is_none_or(|extension| extension != "yaml" && extension != "yml") {
        bail!("{}: a new gateway file is YAML: give it the ending .yaml", path.display());
    }
    // A file that cannot be read or parsed is reported together with the others.
    let texts: Vec<(&Path, String)> = locations
        .iter()
        .filter_map(|location| {
            let text = std::fs::read_to_string(&location.path).ok()?;
            config::import(&location.path, &text).ok()?;
            Some((location.path.as_path(), text))
        })
        .collect();
    let files: Vec<(&Path, &str)> =
        texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    if files.is_empty() {
        bail!("no client has a server that a gateway can have: write {} by hand", path.display());
    }
    let import = config::import_all(&files)?;
    let parsed = config::parse(&path, &import.yaml, [], References::Keep)?;
    let url = url(&parsed);
    Ok(GatewayPlan { path, program, url, is_stdio, import: Some(import), upstreams: Vec::new() })
}

/// Returns the URL of the gateway for clients on the same machine.
fn url(config: &Config) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let listen = config.listen.replacen("0.0.0.0:", "127.0.0.1:", 1).replacen("[::]:", "[::1]:", 1);
    format!("{scheme}://{listen}{}", config.path)
}

impl GatewayPlan {
    pub(super) fn is_new(&self) -> bool {
        self.import.is_some()
    }

    /// Returns the file to write. `None` if it exists already.
    pub(super) fn import(&self) -> Option<&config::Import> {
        self.import.as_ref()
    }

    pub(super) fn is_stdio(&self) -> bool {
        self.is_stdio
    }

    /// Returns true if the gateway contains the server of a client's file.
    pub(super) fn has(&self, path: &Path, server: &Server<'_>) -> bool {
        if matches!(server.state, ServerState::Unsupported(_) | ServerState::Gateway) {
            return false;
        }
        match &self.import {
            Some(import) => import.servers.iter().any(|one| {
                one.file == path
                    && one.name == server.name
                    && one.container == server.container.join(".")
            }),
            None => self.upstreams.contains(&config::upstream_name(&server.name)),
        }
    }

    /// Returns the endpoint of the gateway, for the configurations of clients.
    pub(super) fn endpoint(&self) -> Endpoint {
        if !self.is_stdio {
            return Endpoint::Url(self.url.clone());
        }
        let file = self.path.to_string_lossy().into_owned();
        let arguments = vec!["stdio".to_owned(), "--config".to_owned(), file];
        // The client's file had these secrets, so they remain where they were.
        let secrets = self.import.iter().flat_map(|import| &import.secrets);
        let environment =
            secrets.map(|(name, secret)| (name.clone(), secret.expose().to_owned())).collect();
        Endpoint::Command { program: self.program.clone(), arguments, environment }
    }

    /// Writes the gateway file if it does not exist. Only the user may read it.
    pub(super) fn write(&self) -> Result<()> {
        let Some(import) = &self.import else { return Ok(()) };
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let write = || options.open(&self.path)?.write_all(import.yaml.as_bytes());
        write().with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}
