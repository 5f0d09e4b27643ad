//! The resource limits of upstream processes.
//!
//! A shell sets them before it replaces itself with the command. They therefore apply from its
//! start, and to all its descendants. The process id remains the same. Setting them between fork
//! and exec in this process would need unsafe code.

use std::fmt::Write as _;

use crate::config::UpstreamLimits;

/// The shell that sets the limits.
pub(super) const SHELL: &str = "/bin/sh";

/// Returns the script for [`SHELL`] that sets the limits and then executes its arguments. `None`
/// without limits. The process exits with status 126 if the system refuses a limit.
pub(super) fn script(limits: &UpstreamLimits) -> Option<String> {
    let kibibytes = limits.memory_bytes.map(|bytes| bytes / 1_024);
    let options = [
        ("memoryBytes", "v", kibibytes),
        ("files", "n", limits.files),
        ("cpuSeconds", "t", limits.cpu_seconds),
    ];
    let mut script = String::new();
    let mut add = |member: &str, command: String| {
        let refusal = format!("the system refuses upstreams[].limits.{member}");
        let _ = write!(script, "{command} || {{ echo '{refusal}' >&2; exit 126; }}; ");
    };
    for (member, option, limit) in options {
        if let Some(limit) = limit {
            add(member, format!("ulimit -{option} {limit}"));
        }
    }
    if let Some(limit) = limits.processes {
        // POSIX does not define this option: it is `-u` in bash and ksh, `-p` in dash and ash.
        add("processes", format!("ulimit -u {limit} 2>/dev/null || ulimit -p {limit}"));
    }
    if script.is_empty() {
        return None;
    }
    script.push_str(r#"exec "$0" "$@""#);
    Some(script)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs a command within limits. Returns its exit code, and its whole output.
    fn run(limits: &UpstreamLimits, command: &[&str]) -> (Option<i32>, String) {
        let script = script(limits).unwrap();
        let output = Command::new(SHELL).args(["-c", &script]).args(command).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    }

    /// Returns the hard limit of processes of this process. `None` if it is unlimited.
    fn hard_limit_of_processes() -> Option<u64> {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
        line.split_whitespace().nth(3)?.parse().ok()
    }

    #[test]
    fn limits_hold_for_the_command() {
        // Only a privileged process may raise a limit.
        let processes = hard_limit_of_processes().map_or(5_000, |hard| (hard / 2).clamp(1, 5_000));
        let limits = UpstreamLimits {
            memory_bytes: Some(1 << 30),
            files: Some(32),
            processes: Some(processes),
            cpu_seconds: Some(7),
            ..UpstreamLimits::default()
        };
        let (code, text) = run(&limits, &["cat", "/proc/self/limits"]);
        assert_eq!(code, Some(0), "{text}");
        let limit = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            let values = line.trim_start_matches(name).split_whitespace().take(2);
            values.map(|value| value.parse().unwrap()).collect::<Vec<u64>>()
        };
        assert_eq!(limit("Max address space"), [1 << 30; 2]);
        assert_eq!(limit("Max open files"), [32; 2]);
        assert_eq!(limit("Max processes"), [processes; 2]);
        assert_eq!(limit("Max cpu time"), [7; 2]);
    }

    #[test]
    fn refused_limits_end_the_process() {
        let limits = UpstreamLimits { files: Some(1 << 62), ..UpstreamLimits::default() };
        let (code, text) = run(&limits, &["echo", "started"]);
        assert_eq!(code, Some(126), "{text}");
        assert!(text.contains("upstreams[].limits.files") && !text.contains("started"), "{text}");
        assert_eq!(script(&UpstreamLimits::default()), None);
    }
}
