//! The sandbox of upstream processes.
//!
//! A launcher, the program `context-guard` itself, enters the sandbox before it replaces itself
//! with the command. The sandbox therefore holds from the start of the command, and for all its
//! descendants. The process id remains the same. Entering it between fork and exec in this process
//! would need unsafe code.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use crate::config::{SystemCalls, UpstreamSandbox};

/// The hidden subcommand of the launcher.
const SUBCOMMAND: &str = "run-sandboxed";

/// Returns the command line of the launcher `program`, to which that of the upstream is appended.
/// Relative paths of the sandbox refer to `folder`.
///
/// # Errors
/// A path is relative, and the working folder of this process does not exist any more.
pub(super) fn launcher(
    program: &Path,
    sandbox: &UpstreamSandbox,
    folder: &Path,
) -> io::Result<Vec<OsString>> {
    let mut line = vec![program.into(), SUBCOMMAND.into()];
    for (option, paths) in [("--read", &sandbox.read), ("--write", &sandbox.write)] {
        for path in paths {
            // The launcher may have another working folder.
            line.extend([option.into(), std::path::absolute(folder.join(path))?.into()]);
        }
    }
    if let Some(ports) = &sandbox.connect {
        line.push("--restrict-network".into());
        for port in ports {
            line.extend(["--connect".into(), port.to_string().into()]);
        }
    }
    if sandbox.system_calls == SystemCalls::Restricted {
        line.push("--restrict-system-calls".into());
    }
    line.push("--".into());
    Ok(line)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn line(sandbox: &UpstreamSandbox) -> String {
        let line = launcher(Path::new("/bin/guard"), sandbox, Path::new("/etc/guard")).unwrap();
        line.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn settings_are_passed_to_the_launcher() {
        let sandbox = UpstreamSandbox {
            read: vec!["data".into(), "/srv".into()],
            write: vec!["/tmp/x".into()],
            connect: Some(vec![443, 80]),
            system_calls: SystemCalls::Restricted,
        };
        assert_eq!(
            line(&sandbox),
            "/bin/guard run-sandboxed --read /etc/guard/data --read /srv --write /tmp/x \
             --restrict-network --connect 443 --connect 80 --restrict-system-calls --"
        );
        let open = UpstreamSandbox { system_calls: SystemCalls::All, ..Default::default() };
        assert_eq!(line(&open), "/bin/guard run-sandboxed --");
        let offline = UpstreamSandbox { connect: Some(Vec::new()), ..open };
        assert_eq!(line(&offline), "/bin/guard run-sandboxed --restrict-network --");
    }
}
