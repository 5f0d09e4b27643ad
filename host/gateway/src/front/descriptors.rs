//! Divides the file descriptors of the process between clients and upstreams.

use tracing::info;

use crate::config::{Config, Limits};

/// The maximum number of connections to the admin endpoint.
pub(crate) const ADMIN_CONNECTIONS: usize = 32;
/// The maximum number of connections to the endpoint for filters (`filterStore`).
pub(crate) const FILTER_CONNECTIONS: usize = 256;
/// The number of descriptors for files, listeners, the store and the runtime.
const OWN_DESCRIPTORS: usize = 32;
/// The number of descriptors of a running upstream process: its three standard streams.
const PROCESS_DESCRIPTORS: usize = 3;

/// The minimum number of streams that wait for changes. Not all of them need a descriptor.
const MIN_STREAMS: usize = 16;

/// The numbers of client connections and of streams that the file descriptors suffice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DescriptorShares {
    connections: usize,
    streams: usize,
}

/// Returns the maximum number of client connections: `limits.connections`, or less if the process
/// may open too few file descriptors. Reserves the descriptors that upstreams, other endpoints and
/// the gateway itself may need, at most half of all. Returns at least 1.
pub(crate) fn max_connections(config: &Config) -> usize {
    let Some(descriptors) = max_descriptors() else { return config.limits.connections };
    let max = share(config, descriptors).connections;
    if max < config.limits.connections {
        info!(
            "at most {max} client connections (limits.connections: {}): the process may open \
             {descriptors} files, and upstreams need a part of them; `ulimit -n` raises it",
            config.limits.connections
        );
    }
    max
}

/// Returns `limits` of the configuration, with fewer streams that wait for changes if HTTP
/// upstreams need a descriptor for each and the process may open too few. Leaves at least 16
/// streams, unless `limits.streams` is less.
pub(crate) fn affordable_limits(config: &Config) -> Limits {
    let Some(descriptors) = max_descriptors() else { return config.limits.clone() };
    let streams = share(config, descriptors).streams;
    if streams < config.limits.streams {
        info!(
            "at most {streams} streams that wait for changes (limits.streams: {}): the process may \
             open {descriptors} files; `ulimit -n` raises it",
            config.limits.streams
        );
    }
    Limits { streams, ..config.limits.clone() }
}

fn share(config: &Config, descriptors: usize) -> DescriptorShares {
    let limits = &config.limits;
    let runs_processes = config.upstreams.iter().any(|upstream| !upstream.command.is_empty());
    let sends_requests = config.upstreams.iter().any(|upstream| upstream.command.is_empty());
    let processes = if runs_processes { limits.processes * PROCESS_DESCRIPTORS } else { 0 };
    let filters = if config.filter_store.is_some() { FILTER_CONNECTIONS } else { 0 };
    // Each stream may have a connection of its own to an upstream.
    let (requests, streams) =
        if sends_requests { (limits.concurrency, limits.streams) } else { (0, 0) };
    let fixed = OWN_DESCRIPTORS + ADMIN_CONNECTIONS + filters + processes + requests;
    let reserved = (fixed + streams).min(descriptors / 2);
    let connections = (descriptors - reserved).min(limits.connections).max(1);
    let rest = descriptors.saturating_sub(connections + fixed).max(MIN_STREAMS);
    let streams = if sends_requests { rest.min(limits.streams) } else { limits.streams };
    DescriptorShares { connections, streams }
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
        for (command, descriptors, connections, streams) in [
            (&["cat"][..], 256, 128, 4_096),
            (&["cat"], 1_024, 512, 4_096),
            (&["cat"], 4_096, 4_096 - 64 - 3 * 256, 4_096),
            (&[], 1_024, 512, 512 - 64 - 256),
            (&[], 10_000, 10_000 - 64 - 256 - 4_096, 4_096),
            (&[], 65_536, 10_000, 4_096),
            (&[], 256, 128, 16),
            (&[], 1, 1, 16),
        ] {
            let shares = share(&config(command), descriptors);
            assert_eq!(shares, DescriptorShares { connections, streams }, "{descriptors}");
        }
    }
}
