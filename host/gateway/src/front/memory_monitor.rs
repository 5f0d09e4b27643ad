//! Monitors the memory of the process, so that requests are refused before the kernel kills the
//! process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{info, warn};

use crate::config::Limits;
use crate::telemetry::Recorder;

/// The pause between two measurements.
const INTERVAL: Duration = Duration::from_millis(250);
/// The percentage of the limit by which the usage must fall below the threshold before requests are
/// admitted again.
const HYSTERESIS_PERCENT: u64 = 5;
/// The value of `memory.limit_in_bytes` (control groups v1) above which the group is unlimited.
const MAX_V1_LIMIT: u64 = 1 << 60;

/// The members of `memory.stat` that count pages which the kernel reclaims before it kills a
/// process, such as cached files.
const RECLAIMABLE_V2: [&str; 3] = ["inactive_file", "active_file", "slab_reclaimable"];
/// The members of `memory.stat` that count such pages in control groups v1.
const RECLAIMABLE_V1: [&str; 2] = ["total_inactive_file", "total_active_file"];

/// A measurement of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    used: u64,
    limit: u64,
}

/// A memory limit, and the source of the measured usage.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// The resident memory of the process, with a limit in bytes.
    Process(u64),
    /// A control group of version 2, by its folder.
    GroupV2(PathBuf),
    /// A control group of version 1, by its folder.
    GroupV1(PathBuf),
}

/// Monitors memory, and reports a shortage.
pub(crate) struct MemoryMonitor {
    is_short: AtomicBool,
    threshold_percent: u64,
    scopes: Vec<Scope>,
}

impl MemoryMonitor {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let scopes = match limits.memory_bytes {
            _ if limits.memory_percent >= 100 => Vec::new(),
            Some(bytes) => vec![Scope::Process(bytes)],
            None => detect(Path::new("/")),
        };
        Arc::new(Self {
            is_short: AtomicBool::new(false),
            threshold_percent: limits.memory_percent.into(),
            scopes,
        })
    }

    /// Returns true while requests must be refused because memory is short.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }

    /// Measures memory periodically. Runs until its task is dropped, or returns at once if no limit
    /// is known.
    pub(crate) async fn run(self: Arc<Self>, recorder: Arc<Recorder>) {
        if self.scopes.is_empty() {
            return;
        }
        loop {
            let measured: Vec<Usage> = self.scopes.iter().filter_map(Scope::measure).collect();
            if let Some(is_short) = self.update(&measured) {
                recorder.metrics.memory_pressure(is_short);
                report(&measured, is_short);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Updates the state from measurements. Returns the new state if it changed, otherwise `None`.
    fn update(&self, measured: &[Usage]) -> Option<bool> {
        let was_short = self.is_short();
        let threshold = if was_short {
            self.threshold_percent.saturating_sub(HYSTERESIS_PERCENT)
        } else {
            self.threshold_percent
        };
        let is_short = measured.iter().any(|usage| {
            u128::from(usage.used) * 100 >= u128::from(usage.limit) * u128::from(threshold)
        });
        self.is_short.store(is_short, Ordering::Release);
        (is_short != was_short).then_some(is_short)
    }
}

fn report(measured: &[Usage], is_short: bool) {
    let fullest = measured.iter().max_by_key(|usage| usage.used * 100 / usage.limit.max(1));
    let Some(Usage { used, limit }) = fullest.copied() else { return };
    let (used, limit) = (used >> 20, limit >> 20);
    if is_short {
        warn!("memory is short, {used} of {limit} MiB are used: new requests are refused with 503");
    } else {
        info!("memory is free again, {used} of {limit} MiB are used");
    }
}

impl Scope {
    fn measure(&self) -> Option<Usage> {
        match self {
            Self::Process(limit) => {
                let status = std::fs::read_to_string("/proc/self/status").ok()?;
                let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
                Some(Usage { used: kilobytes(resident)?, limit: *limit })
            }
            Self::GroupV2(folder) => Some(Usage {
                used: number(&folder.join("memory.current"))?
                    .saturating_sub(stat(folder, &RECLAIMABLE_V2)),
                limit: number(&folder.join("memory.max"))?,
            }),
            Self::GroupV1(folder) => Some(Usage {
                used: number(&folder.join("memory.usage_in_bytes"))?
                    .saturating_sub(stat(folder, &RECLAIMABLE_V1)),
                limit: number(&folder.join("memory.limit_in_bytes"))?,
            }),
        }
    }
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the sum of the members `names` of `memory.stat` in a control group, in bytes.
fn stat(folder: &Path, names: &[&str]) -> u64 {
    let text = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let members = text.lines().filter_map(|line| line.split_once(' '));
    let named = members.filter(|(name, _)| names.contains(name));
    named.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok()).sum()
}

/// Parses a size such as `16384 kB`, and returns it in bytes.
fn kilobytes(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Returns the scopes that limit this process: its control groups with a limit, otherwise the
/// machine. `root` is the root of the file system.
fn detect(root: &Path) -> Vec<Scope> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = root.join("sys/fs/cgroup");
    let mut scopes = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let path = path.trim_start_matches('/');
        // Every group above limits its members too. In a container, the mounted folder may be that
        // of the group itself, so that the path does not exist below it.
        if controllers.is_empty() {
            scopes.extend(ancestors(&mounts, path).map(Scope::GroupV2).filter(is_limited));
        } else if controllers.split(',').any(|name| name == "memory") {
            let mounts = mounts.join("memory");
            scopes.extend(ancestors(&mounts, path).map(Scope::GroupV1).filter(is_limited));
        }
    }
    if scopes.is_empty() {
        let memory = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let total = memory.lines().find_map(|line| kilobytes(line.strip_prefix("MemTotal:")?));
        scopes.extend(total.map(Scope::Process));
    }
    scopes
}

fn ancestors(mounts: &Path, path: &str) -> impl Iterator<Item = PathBuf> {
    let paths: Vec<PathBuf> = Path::new(path).ancestors().map(|path| mounts.join(path)).collect();
    paths.into_iter()
}

fn is_limited(scope: &Scope) -> bool {
    scope.measure().is_some_and(|usage| usage.limit < MAX_V1_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_changes_at_the_threshold() {
        let monitor = MemoryMonitor::new(&Limits { memory_bytes: Some(1), ..Limits::default() });
        let update = |used| monitor.update(&[Usage { used, limit: 1_000 }]);
        for (used, expected) in [
            (899, None),
            (900, Some(true)),
            (990, None),
            (860, None),
            (849, Some(false)),
            (899, None),
        ] {
            assert_eq!(update(used), expected, "{used}");
        }
    }

    #[test]
    fn limit_is_that_of_the_control_groups() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:       1024 kB\nMemFree: 1 kB\n");
        assert_eq!(detect(root.path()), [Scope::Process(1 << 20)]);
        // A service in a limited slice: the service itself has no limit.
        write("proc/self/cgroup", "0::/guard.slice/guard.service\n");
        for (folder, limit) in [("guard.slice/guard.service", "max"), ("guard.slice", "1000")] {
            write(&format!("sys/fs/cgroup/{folder}/memory.max"), limit);
            write(&format!("sys/fs/cgroup/{folder}/memory.current"), "900\n");
        }
        write("sys/fs/cgroup/guard.slice/memory.stat", "anon 1\ninactive_file 300\n");
        let scopes = detect(root.path());
        assert_eq!(scopes, [Scope::GroupV2(root.path().join("sys/fs/cgroup/guard.slice"))]);
        assert_eq!(scopes[0].measure(), Some(Usage { used: 600, limit: 1_000 }));
        // A container with version 1, whose own group is mounted.
        write("proc/self/cgroup", "5:cpu:/docker/1\n4:memory:/docker/1\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000");
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", "500");
        let scopes = detect(root.path());
        assert_eq!(scopes, [Scope::GroupV1(root.path().join("sys/fs/cgroup/memory"))]);
        assert_eq!(scopes[0].measure(), Some(Usage { used: 500, limit: 2_000 }));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
        assert_eq!(detect(root.path()), [Scope::Process(1 << 20)]);
    }
}
