//! The rules for the resource limits and the sandboxes of upstream processes.

use crate::document::Issue;
use crate::gateway_file::Config;
use crate::upstream::{Upstream, UpstreamLimits};

/// Returns the errors in the resource limits and sandboxes of all upstreams.
pub(crate) fn process_errors(config: &Config) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (at, upstream) in config.upstreams.iter().enumerate() {
        if let Some(reason) = sandbox_fault(upstream) {
            issues.push(Issue::new(&["upstreams", &at.to_string(), "sandbox"], reason));
        }
        let mut has_limits = false;
        for member in members(&upstream.limits) {
            has_limits = true;
            let reason = if upstream.command.is_empty() {
                "only a `command` has processes that the gateway starts"
            } else if !is_supported(member) {
                "this system has no such limit for a process"
            } else {
                continue;
            };
            issues.push(Issue::new(&["upstreams", &at.to_string(), "limits", member], reason));
        }
        let lost = upstream.env.keys().filter(|name| has_limits && !is_identifier(name));
        for name in lost {
            let reason = "a shell sets the resource limits, and passes only variables whose names \
                          match [A-Za-z_][A-Za-z0-9_]*";
            issues.push(Issue::new(&["upstreams", &at.to_string(), "env", name], reason));
        }
    }
    issues
}

/// Returns the reason why the sandbox of an upstream is refused. `None` if it is not.
fn sandbox_fault(upstream: &Upstream) -> Option<&'static str> {
    upstream.sandbox.as_ref()?;
    if upstream.command.is_empty() {
        Some("only a `command` runs in a sandbox")
    } else if !cfg!(target_os = "linux") {
        Some("only Linux has the sandbox: remove the setting, or run the command in a container")
    } else {
        None
    }
}

/// Returns the names of the resource limits that an upstream sets.
fn members(limits: &UpstreamLimits) -> impl Iterator<Item = &'static str> {
    let all = [
        ("memoryBytes", limits.memory_bytes),
        ("files", limits.files),
        ("processes", limits.processes),
        ("cpuSeconds", limits.cpu_seconds),
    ];
    all.into_iter().filter_map(|(member, limit)| limit.map(|_| member))
}

fn is_supported(member: &str) -> bool {
    // The kernel of macOS does not enforce a limit of the address space.
    cfg!(unix) && !(cfg!(target_os = "macos") && member == "memoryBytes")
}

/// Returns true if all shells pass an environment variable with this name to their commands (POSIX
/// shell, section 2.5.3). For example, dash removes variables with other names.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{References, parse};

    fn fault(upstream: &str) -> String {
        let text = format!("upstreams: [{{name: a, {upstream}}}]");
        let parsed = parse(Path::new("gateway.yaml"), &text, [], References::Keep);
        parsed.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn limits_without_effect_are_refused() {
        for (limit, member) in [
            ("memoryBytes: 67108864", "memoryBytes"),
            ("files: 64", "files"),
            ("processes: 64", "processes"),
            ("cpuSeconds: 60", "cpuSeconds"),
        ] {
            let found = fault(&format!("url: 'http://a.example', limits: {{{limit}}}"));
            assert!(found.contains(&format!("upstreams[0].limits.{member}:")), "{limit}: {found}");
            let found = fault(&format!("command: [cat], limits: {{{limit}}}"));
            assert_eq!(found.is_empty(), super::is_supported(member), "{limit}: {found}");
        }
    }

    #[test]
    fn sandboxes_without_effect_are_refused() {
        let found = fault("url: 'http://a.example', sandbox: {}");
        assert!(found.contains("upstreams[0].sandbox: only a `command`"), "{found}");
        let found = fault("command: [cat], sandbox: {read: [/srv], connect: [443]}");
        assert_eq!(found.is_empty(), cfg!(target_os = "linux"), "{found}");
        for (sandbox, member) in [
            ("{connect: [0]}", "connect[0]"),
            ("{systemCalls: some}", "systemCalls"),
            ("{reads: [/srv]}", "reads"),
        ] {
            let found = fault(&format!("command: [cat], sandbox: {sandbox}"));
            assert!(found.contains(&format!("upstreams[0].sandbox.{member}:")), "{found}");
        }
    }

    #[test]
    fn variables_that_a_shell_removes_are_refused() {
        for (name, is_passed) in [("_A1", true), ("a.b", false), ("A-B", false), ("1A", false)] {
            let env = format!("command: [cat], env: {{'{name}': x}}");
            assert_eq!(fault(&env), "", "{name}");
            let found = fault(&format!("{env}, limits: {{files: 64}}"));
            assert_eq!(found.is_empty(), is_passed, "{name}: {found}");
            assert!(is_passed || found.contains("upstreams[0].env"), "{found}");
        }
    }
}
