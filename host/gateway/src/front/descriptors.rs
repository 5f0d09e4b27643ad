//! Divides the file descriptors of the process between clients and upstreams.

use tracing::info;

use crate::config::Config;

/// The maximum number of connections to the admin endpoint.
pub(crate) const ADMIN_CONNECTIONS: usize = 32;
/// The maximum number of connections to the endpoint for filters (`filterStore`).
pub(crate) const FILTER_CONNECTIONS: usize = 256;
/// The number of descriptors for files, listeners, the store and the runtime.
const OWN_DESCRIPTORS: usize = 32;
/// The number of descriptors of a running upstream process: its three standard streams.
const PROCESS_DESCRIPTORS: usize = 3;

/// Returns the maximum number of client connections: `limits.connections`, or less if the process
/// may open too few file descriptors. Reserves the descriptors that upstreams, other endpoints and
/// the gateway itself may need, at most half of all. Returns at least 1.
pub(crate) fn max_connections(config: &Config) -> usize {
    let Some(descriptors) = max_descriptors() else { return config.limits.connections };
    let max = share(config, descriptors);
    if max < config.limits.connections {
        info!(
            "at most {max} client connections (limits.connections: {}): the process may open \
             {descriptors} files, and upstreams need a part of them; `ulimit -n` raises it",
            config.limits.connections
        );
    }
    max
}

fn share(config: &Config, descriptors: usize) -> usize {
    let runs_processes = config.upstreams.iter().any(|upstream| !upstream.command.is_empty());
    let sends_requests = config.upstreams.iter().any(|upstream| upstream.command.is_empty());
    let processes = if runs_processes { config.limits.processes * PROCESS_DESCRIPTORS } else { 0 };
    let requests = if sends_requests { config.limits.concurrency } else { 0 };
    let filters = if config.filter_store.is_some() { FILTER_CONNECTIONS } else { 0 };
    let reserved = OWN_DESCRIPTORS + ADMIN_CONNECTIONS + filters + processes + requests;
    (descriptors - reserved.min(descriptors / 2)).min(config.limits.connections).max(1)
}

/// Returns the maximum number of open file descriptors of this process. `None` if it is unlimited.
#[cfg(unix)]
fn max_descriptors() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    usize::try_from(limit).ok()
}

#[cfg(not(unix))]
fn max_descriptors() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Upstream;

    #[test]
    fn upstreams_keep_their_descriptors() {
        let config = |command: &[&str]| {
            let command = command.iter().map(|part| (*part).to_owned()).collect();
            Config {
                upstreams: vec![Upstream { command, ..Upstream::default() }],
                ..Config::default()
            }
        };
        for (command, descriptors, expected) in [
            (&["cat"][..], 256, 128),
            (&["cat"], 1_024, 512),
            (&["cat"], 4_096, 4_096 - 64 - 3 * 256),
            (&[], 1_024, 1_024 - 64 - 256),
            (&[], 65_536, 10_000),
            (&[], 1, 1),
        ] {
            assert_eq!(share(&config(command), descriptors), expected, "{descriptors}");
        }
    }
}
