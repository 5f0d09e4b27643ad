//! The gateway file that replaces the servers in clients' files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use context_guard::config::{self, Config, Import, ImportedServer, References};
use context_guard_install::{Document, Endpoint, Location, Server, ServerState};

/// A gateway file, and the servers that it contains.
pub(super) struct GatewayPlan {
    pub(super) path: PathBuf,
    program: String,
    url: String,
    is_stdio: bool,
    /// The file to write. `None` if it exists already.
    import: Option<Import>,
    /// The clients' servers that the gateway has.
    servers: Vec<ImportedServer>,
    /// The clients' servers whose names belong to other servers in the gateway.
    different: Vec<ImportedServer>,
    /// The variables that the gateway file needs, with the values that the clients' files have.
    variables: BTreeMap<String, Option<String>>,
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
    let import = import(locations);
    if path.exists() {
        let config = config::read_with(&path, References::Keep)?;
        let url = url(&config);
        let mut plan = GatewayPlan {
            path,
            program,
            url,
            is_stdio,
            import: None,
            servers: Vec::new(),
            different: Vec::new(),
            variables: BTreeMap::new(),
        };
        plan.variables = config.required_variables().into_iter().map(|name| (name, None)).collect();
        if let Ok(import) = import {
            plan.find(&config, &import)?;
        }
        return Ok(plan);
    }
    if path.extension().is_none_or(|extension| extension != "yaml" && extension != "yml") {
        bail!("{}: a new gateway file is YAML: give it the ending .yaml", path.display());
    }
    let import = import.with_context(|| format!("{} cannot be created", path.display()))?;
    let parsed = config::parse(&path, &import.yaml, [], References::Keep)?;
    let value = |name: &String| Some(import.secrets.get(name)?.expose().to_owned());
    Ok(GatewayPlan {
        url: url(&parsed),
        path,
        program,
        is_stdio,
        servers: import.servers.clone(),
        different: Vec::new(),
        variables: import.variables.keys().map(|name| (name.clone(), value(name))).collect(),
        import: Some(import),
    })
}

/// Imports the servers of the clients, except those that an edit cannot replace.
///
/// # Errors
/// No file has a server that a gateway can have. Files that cannot be read or parsed are reported
/// together with the others.
fn import(locations: &[Location]) -> Result<Import> {
    let mut texts: Vec<(&Path, String)> = Vec::new();
    let mut rejected: BTreeMap<(&Path, String, String), String> = BTreeMap::new();
    let mut first_error = None;
    for location in locations {
        let path = location.path.as_path();
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let Ok(document) = Document::parse(location.client, text.as_bytes()) else { continue };
        for server in document.servers() {
            if let ServerState::Unsupported(reason) = server.state {
                rejected.insert((path, server.container.join("."), server.name), reason);
            }
        }
        match config::import(path, &text) {
            Ok(_) => texts.push((path, text)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let files: Vec<(&Path, &str)> =
        texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let reason = |server: &ImportedServer| {
        let key = (server.file.as_path(), server.container.clone(), server.name.clone());
        rejected.get(&key).cloned()
    };
    match first_error {
        Some(error) if files.is_empty() => Err(error.into()),
        _ if files.is_empty() => bail!("no client has a server that a gateway can have"),
        _ => Ok(config::import_all(&files, &reason)?),
    }
}

/// Returns the URL of the gateway for clients on the same machine.
fn url(config: &Config) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let listen = config.listen.replacen("0.0.0.0:", "127.0.0.1:", 1).replacen("[::]:", "[::1]:", 1);
    format!("{scheme}://{listen}{}", config.path)
}

impl GatewayPlan {
    /// Finds the imported servers in an existing file, and the values of its variables.
    fn find(&mut self, config: &Config, import: &Import) -> Result<()> {
        let imported = config::parse(&self.path, &import.yaml, [], References::Keep)?;
        let names: BTreeSet<&String> = config.upstreams.iter().map(|one| &one.name).collect();
        for server in &import.servers {
            let Some(own) = imported.upstreams.iter().find(|one| one.name == server.upstream)
            else {
                // The client does not start the server, and its name is in the file.
                let name = config::upstream_name(&server.name);
                if config.disabled.contains(&name) || names.contains(&name) {
                    self.servers.push(server.clone());
                }
                continue;
            };
            let same =
                config.upstreams.iter().find_map(|upstream| config::same_server(upstream, own));
            let name = config::upstream_name(&server.name);
            match same {
                Some(pairs) => {
                    for (name, imported) in pairs {
                        let secret = import.secrets.get(&imported);
                        let value = secret.map(|secret| secret.expose().to_owned());
                        if let Some(own) = self.variables.get_mut(&name) {
                            *own = own.take().or(value);
                        }
                    }
                    self.servers.push(server.clone());
                }
                None if names.contains(&name) => self.different.push(server.clone()),
                None if config.disabled.contains(&name) => self.servers.push(server.clone()),
                None => {}
            }
        }
        Ok(())
    }

    pub(super) fn is_new(&self) -> bool {
        self.import.is_some()
    }

    /// Returns the file to write. `None` if it exists already.
    pub(super) fn import(&self) -> Option<&Import> {
        self.import.as_ref()
    }

    /// Returns the program that clients start. `None` if they connect to a URL.
    pub(super) fn own_program(&self) -> Option<&str> {
        self.is_stdio.then_some(self.program.as_str())
    }

    pub(super) fn is_stdio(&self) -> bool {
        self.is_stdio
    }

    /// Returns the variables that are not set where the gateway starts. Each has true if a client's
    /// file contains its value. The user of an existing file that `serve` uses has set them.
    pub(super) fn unset_variables(&self) -> impl Iterator<Item = (&String, bool)> {
        let variables = self.variables.iter().map(|(name, value)| (name, value.is_some()));
        let is_needed = self.is_stdio || self.is_new();
        variables.filter(move |(_, is_known)| is_needed && !(self.is_stdio && *is_known))
    }

    /// Returns true if the gateway contains the server of a client's file.
    pub(super) fn has(&self, path: &Path, server: &Server<'_>) -> bool {
        !matches!(server.state, ServerState::Unsupported(_) | ServerState::Gateway(_))
            && is_among(&self.servers, path, server)
    }

    /// Returns the reason why the gateway does not have the server of a client's file.
    pub(super) fn difference(&self, path: &Path, server: &Server<'_>) -> &'static str {
        if is_among(&self.different, path, server) {
            "the gateway file has another server of this name"
        } else {
            "not in the gateway file"
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
        let environment = self.variables.iter();
        let environment =
            environment.filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
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

fn is_among(servers: &[ImportedServer], path: &Path, server: &Server<'_>) -> bool {
    let container = server.container.join(".");
    servers
        .iter()
        .any(|one| one.file == path && one.name == server.name && one.container == container)
}
