//! The command that starts the process of an upstream, with its environment, limits and sandbox.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::{environment, process_limits, sandbox};
use crate::config::Upstream;

/// Returns the command of an upstream. The shell that sets limits executes the launcher of the
/// sandbox, which executes the command. Relative paths refer to `folder`. `launcher` is the program
/// that enters a sandbox.
///
/// # Errors
/// The reason why the upstream has no command, as the end of a sentence.
pub fn upstream_command(
    config: &Upstream,
    folder: &Path,
    launcher: Option<&Path>,
) -> Result<Command, String> {
    if config.command.is_empty() {
        return Err("no command".to_owned());
    }
    let mut line: Vec<OsString> = Vec::new();
    if let Some(script) = process_limits::script(&config.limits) {
        line.extend([process_limits::SHELL.into(), "-c".into(), script.into()]);
    }
    if let Some(sandbox) = &config.sandbox {
        let launcher = launcher.ok_or("this program has no launcher for `sandbox`")?;
        let launcher = sandbox::launcher(launcher, sandbox, folder);
        line.extend(launcher.map_err(|error| format!("`sandbox`: {error}"))?);
    }
    line.extend(config.command.iter().map(OsString::from));
    let (program, arguments) = line.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment::inherited(&config.inherit_env, &config.withheld_env))
        .envs(config.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(cwd) = &config.cwd {
        command.current_dir(folder.join(cwd));
    }
    Ok(command)
}
