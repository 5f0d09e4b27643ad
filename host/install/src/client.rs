//! The clients, and the locations of their configurations.
//!
//! `docs/reference/client-files.md` cites the source of each path and format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::tree::{Node, Syntax};

/// A client whose configuration can be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code and its builds.
    VsCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
}

/// The users to which a configuration applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The current user, in all projects.
    User,
    /// Everyone who works in a project.
    Project,
}

/// A configuration file of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The client that reads the file.
    pub client: Client,
    /// The path of the file.
    pub path: PathBuf,
    /// The users to which the file applies.
    pub scope: Scope,
}

/// The operating system, which determines the folders of applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux and other systems with the XDG folders.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// Returns the platform of this program.
    #[must_use]
    pub const fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }
}

/// The data that determine the locations of clients' configurations.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The operating system.
    pub platform: Platform,
    /// The home folder of the user.
    pub home: PathBuf,
    /// The folder of the current project. Its configurations are searched, too.
    pub project: PathBuf,
    /// The environment variables that change the locations of folders, by name.
    pub variables: BTreeMap<String, String>,
}

/// The names of the environment variables with which users change the folders of clients.
const VARIABLES: [&str; 8] = [
    "APPDATA",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "FLATPAK_XDG_CONFIG_HOME",
    "GEMINI_CLI_HOME",
    "LOCALAPPDATA",
    "VSCODE_PORTABLE",
    "XDG_CONFIG_HOME",
];

impl Environment {
    /// Reads the environment of this process. Returns `None` if the home folder is unknown.
    #[must_use]
    pub fn current(project: PathBuf) -> Option<Self> {
        let platform = Platform::current();
        let home = if platform == Platform::Windows { "USERPROFILE" } else { "HOME" };
        let home = std::env::var_os(home).filter(|home| !home.is_empty())?;
        let variable = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
        let variables = VARIABLES.iter().filter_map(variable).collect();
        Some(Self { platform, home: home.into(), project, variables })
    }

    /// Returns the folder in an environment variable. `None` if the variable is not set or empty.
    fn variable(&self, name: &str) -> Option<PathBuf> {
        let value = self.variables.get(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value))
    }

    fn xdg_config(&self) -> PathBuf {
        let folder = self.variable("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
        folder.unwrap_or_else(|| self.home.join(".config"))
    }

    /// Returns the folder in which desktop applications store their settings.
    fn application_data(&self) -> PathBuf {
        match self.platform {
            Platform::Linux => self.xdg_config(),
            Platform::MacOs => self.home.join("Library/Application Support"),
            Platform::Windows => {
                self.variable("APPDATA").unwrap_or_else(|| self.home.join("AppData/Roaming"))
            }
        }
    }

    fn local_data(&self) -> PathBuf {
        self.variable("LOCALAPPDATA").unwrap_or_else(|| self.home.join("AppData/Local"))
    }
}

impl Client {
    /// All clients, in the order in which they are reported.
    pub const ALL: [Self; 8] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Codex,
        Self::GeminiCli,
        Self::Windsurf,
        Self::Zed,
    ];

    /// Returns the client's name on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
        }
    }

    /// Returns the name of the product.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
        }
    }

    /// Returns the client with this name on the command line. `None` if there is none.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.id() == id)
    }

    /// Returns the format of the client's files.
    #[must_use]
    pub const fn syntax(self) -> Syntax {
        match self {
            Self::Codex => Syntax::Toml,
            _ => Syntax::Json,
        }
    }

    /// Returns the paths of the members that contain servers.
    pub(crate) fn containers(self, root: &Node) -> Vec<Vec<String>> {
        let path = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match self {
            Self::ClaudeCode => {
                let projects = root.get("projects").map(Node::members).unwrap_or_default();
                let local = projects.iter().map(|project| {
                    vec!["projects".to_owned(), project.name.clone(), "mcpServers".to_owned()]
                });
                let mut containers = vec![path(&["mcpServers"])];
                for container in local {
                    if !containers.contains(&container) {
                        containers.push(container);
                    }
                }
                containers
            }
            Self::VsCode => vec![path(&["servers"]), path(&["mcp", "servers"])],
            Self::Codex => vec![path(&["mcp_servers"])],
            Self::Zed => vec![path(&["context_servers"])],
            Self::ClaudeDesktop | Self::Cursor | Self::GeminiCli | Self::Windsurf => {
                vec![path(&["mcpServers"])]
            }
        }
    }

    /// Returns the paths at which the client searches for its configurations.
    fn paths(self, environment: &Environment) -> Vec<PathBuf> {
        let home = |path: &str| environment.home.join(path);
        match self {
            Self::ClaudeCode => {
                let folder = environment.variable("CLAUDE_CONFIG_DIR");
                vec![folder.unwrap_or_else(|| environment.home.clone()).join(".claude.json")]
            }
            Self::ClaudeDesktop => {
                let mut folders = vec![environment.application_data().join("Claude")];
                if environment.platform == Platform::Windows {
                    let local = environment.local_data();
                    let packages = matching_folders(&local.join("Packages"), "claude_");
                    let roaming = |folder: PathBuf| folder.join("LocalCache/Roaming/Claude");
                    folders.extend(packages.into_iter().map(roaming));
                    folders.extend(matching_folders(&local.join("Claude-Data"), "claude"));
                }
                let file = |folder: PathBuf| folder.join("claude_desktop_config.json");
                folders.into_iter().map(file).collect()
            }
            Self::Cursor => vec![home(".cursor/mcp.json")],
            Self::VsCode => {
                let builds = ["Code", "Code - Insiders", "VSCodium"];
                let data = environment.application_data();
                let mut users: Vec<PathBuf> =
                    builds.iter().map(|build| data.join(build).join("User")).collect();
                if let Some(portable) = environment.variable("VSCODE_PORTABLE") {
                    users.push(portable.join("user-data/User"));
                }
                let profiles =
                    users.iter().flat_map(|user| matching_folders(&user.join("profiles"), ""));
                let folders: Vec<PathBuf> = users.iter().cloned().chain(profiles).collect();
                // `mcp.servers` in settings.json is from versions before 1.102.
                let files = ["mcp.json", "settings.json"];
                folders.iter().flat_map(|folder| files.map(|file| folder.join(file))).collect()
            }
            Self::Codex => {
                let folder = environment.variable("CODEX_HOME");
                vec![folder.unwrap_or_else(|| home(".codex")).join("config.toml")]
            }
            Self::GeminiCli => {
                let folder = environment.variable("GEMINI_CLI_HOME");
                let folder = folder.unwrap_or_else(|| environment.home.clone());
                vec![folder.join(".gemini/settings.json")]
            }
            Self::Windsurf => ["windsurf", "windsurf-next"]
                .iter()
                .map(|build| environment.home.join(".codeium").join(build).join("mcp_config.json"))
                .collect(),
            Self::Zed => {
                let folder = match environment.platform {
                    Platform::Windows => environment.application_data().join("Zed"),
                    Platform::MacOs => home(".config/zed"),
                    Platform::Linux => environment
                        .variable("FLATPAK_XDG_CONFIG_HOME")
                        .unwrap_or_else(|| environment.xdg_config())
                        .join("zed"),
                };
                let flatpak = home(".var/app/dev.zed.Zed/config/zed");
                [folder, flatpak].iter().map(|folder| folder.join("settings.json")).collect()
            }
        }
    }

    /// Returns the path of the client's configuration in a project. `None` if the client has none.
    const fn project_path(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some(".mcp.json"),
            Self::Cursor => Some(".cursor/mcp.json"),
            Self::VsCode => Some(".vscode/mcp.json"),
            Self::Codex => Some(".codex/config.toml"),
            Self::GeminiCli => Some(".gemini/settings.json"),
            Self::Zed => Some(".zed/settings.json"),
            Self::ClaudeDesktop | Self::Windsurf => None,
        }
    }
}

/// Returns the folders in `parent` whose names in lower case begin with `prefix`, in alphabetical
/// order. Empty if `parent` cannot be read.
fn matching_folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    /// The maximum number of folders. It limits the work in a folder with unexpected contents.
    const MAX_FOLDERS: usize = 256;
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            name.starts_with(prefix) && path.is_dir()
        })
        .take(MAX_FOLDERS)
        .collect();
    folders.sort();
    folders
}

/// Returns the existing configuration files, client by client in the order of [`Client::ALL`]. Of
/// each client, those of the user precede that of the project.
#[must_use]
pub fn find_files(environment: &Environment, clients: &[Client]) -> Vec<Location> {
    let mut found: Vec<Location> = Vec::new();
    for client in Client::ALL.into_iter().filter(|client| clients.contains(client)) {
        let user = client.paths(environment).into_iter().map(|path| (path, Scope::User));
        let project = client.project_path().map(|path| environment.project.join(path));
        let all = user.chain(project.map(|path| (path, Scope::Project)));
        for (path, scope) in all.filter(|(path, _)| path.is_file()) {
            // In the home folder, the file of the project is that of the user.
            let is_known = found.iter().any(|other| other.client == client && other.path == path);
            if !is_known {
                found.push(Location { client, path, scope });
            }
        }
    }
    found
}
