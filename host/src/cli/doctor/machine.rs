//! Checks of this program, its keys and state, and of node and Python.

use std::path::Path;
use std::process::{Command, Stdio};

use context_guard::{config, embedded_component, keys};

use super::Check;
use crate::cli::install::program;

/// The oldest versions that current MCP servers support, with the commands that need them. The MCP
/// SDKs for TypeScript and Python require node 18 and Python 3.10.
const RUNTIMES: [(&str, &[&str], u32, u32, &str); 2] = [
    ("node", &["node", "npx", "npm", "pnpm", "pnpx", "yarn"], 18, 0, "https://nodejs.org"),
    ("python3", &["python", "python3", "pipx", "uv", "uvx"], 3, 10, "https://www.python.org"),
];

/// Checks the path of this program, its guard component and the signing keys. The key file is in
/// the state folder, if the environment sets no keys.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![own_program()];
    if embedded_component().is_none() {
        let message = "this program has no embedded guard component";
        checks.push(
            Check::warning("component", "context-guard", message)
                .advise("use a released program, or set CONTEXT_GUARD_COMPONENT in each client"),
        );
    }
    checks.push(signing_keys());
    checks
}

fn own_program() -> Check {
    let version = env!("CARGO_PKG_VERSION");
    match program::own_path() {
        Ok(path) if program::is_temporary(&path) => {
            Check::warning("program", "context-guard", format!("{version}, in a cache: {path}"))
                .advise("install the program, so that its path remains")
        }
        Ok(path) => Check::ok("program", "context-guard", format!("{version} at {path}")),
        Err(error) => Check::failed("program", "context-guard", error.to_string()),
    }
}

fn signing_keys() -> Check {
    let subject = "signing keys";
    if let Some(found) = keys::from_environment() {
        let short = found.iter().any(|key| key.secret.len() < keys::MIN_KEY_BYTES);
        return if short {
            let message = format!("a key in {} is too short", keys::VARIABLE);
            Check::failed("keys", subject, message)
                .advise(format!("use at least {} bytes for each key", keys::MIN_KEY_BYTES))
        } else {
            Check::ok("keys", subject, format!("from {}", keys::VARIABLE))
        };
    }
    let path = match config::state_folder() {
        Ok(folder) => folder.join("signing-key"),
        Err(error) => return Check::failed("keys", subject, error.to_string()),
    };
    if let Err(error) = keys::from_file(&path) {
        return Check::failed("keys", subject, error.to_string())
            .advise("make the folder writable, or set XDG_STATE_HOME");
    }
    match others_may(&path) {
        Some(mode) => {
            let message = format!("{}: others can read it (mode {mode:o})", path.display());
            Check::failed("keys", subject, message).advise(format!("chmod 600 {}", path.display()))
        }
        None => Check::ok("keys", subject, path.display().to_string()),
    }
}

/// Returns the permissions of a file if users other than its owner may read or write it. `None` if
/// not.
pub(super) fn others_may(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
        (mode & 0o077 != 0).then_some(mode)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Checks the versions of node and Python if one of the commands needs them.
pub(super) fn runtimes<'a>(commands: impl Iterator<Item = &'a [String]>) -> Vec<Check> {
    let programs: Vec<String> = commands.flat_map(programs).collect();
    let mut checks = Vec::new();
    for (runtime, users, major, minor, url) in RUNTIMES {
        if !programs.iter().any(|program| users.contains(&program.as_str())) {
            continue;
        }
        let advice = format!("install {runtime} {major}.{minor} or later: {url}");
        checks.push(match version(runtime) {
            None => {
                // uv brings its own Python.
                let message = "not on PATH, and servers need it";
                Check::warning("runtime", runtime, message).advise(advice)
            }
            Some((text, found)) if found < (major, minor) => {
                let message = format!("{text} is older than {major}.{minor}");
                Check::failed("runtime", runtime, message).advise(advice)
            }
            Some((text, _)) => Check::ok("runtime", runtime, text),
        });
    }
    checks
}

/// Returns the names of the programs that a command line starts: its own, and those that follow a
/// guard, `env` or `cmd`.
fn programs(command: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = command;
    while let Some((program, arguments)) = rest.split_first() {
        let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
        let name = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
        let is_setting = |one: &&String| one.starts_with('-') || one.contains('=');
        let skipped = match name.as_str() {
            "env" => arguments.iter().take_while(is_setting).count(),
            "cmd" => arguments.iter().take_while(|one| one.starts_with('/')).count(),
            _ => arguments.len(),
        };
        names.push(name);
        rest = match config::guarded_command(rest) {
            Some(inner) => inner,
            None => arguments.get(skipped..).unwrap_or_default(),
        };
    }
    names
}

/// Returns the version that a program prints, as text and as numbers. `None` if it prints none.
fn version(program: &str) -> Option<(String, (u32, u32))> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let mut numbers =
        text.get(start..)?.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let version = (numbers.next()?, numbers.next().unwrap_or_default());
    Some((text, version))
}

#[cfg(test)]
mod tests {
    use super::programs;

    #[test]
    fn programs_behind_a_guard_are_found() {
        for (line, expected) in [
            ("/opt/bin/context-guard wrap -- npx -y x", "context-guard npx"),
            ("npx -y context-guard wrap -- uvx x", "npx uvx"),
            ("env A=b /usr/bin/node x.js", "env node"),
            ("cmd /c npx x", "cmd npx"),
            ("node npx", "node"),
        ] {
            let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(programs(&line).join(" "), expected, "{line:?}");
        }
    }
}
