//! The throughput of three replicas next to that of one, each with the same part of a core.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::redis::Redis;
use context_guard_test_support::{Context, Result, ensure};
use serde_json::json;

use super::{replica, upstream};

/// The number of clients of each replica.
const CLIENTS: usize = 8;
/// The duration of one run.
const RUN_TIME: Duration = Duration::from_secs(15);
/// The part of a core for each replica, in percent.
const CORE_PERCENT: u32 = 15;
/// The controller of processor time, in the control groups of Linux (v1 and v2).
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];

/// A control group with a part of a core. It is removed when dropped.
struct CpuGroup(PathBuf);

impl CpuGroup {
    fn new(name: &str) -> Result<Self> {
        let root = GROUPS.iter().map(PathBuf::from).find(|root| root.is_dir());
        let folder = root.context("no control groups")?.join(format!("context-guard-{name}"));
        std::fs::create_dir_all(&folder)?;
        let quota = CORE_PERCENT * 100;
        let group = Self(folder);
        if group.0.join("cpu.max").exists() {
            std::fs::write(group.0.join("cpu.max"), format!("{quota} 10000"))?;
        } else {
            std::fs::write(group.0.join("cpu.cfs_period_us"), "10000")?;
            std::fs::write(group.0.join("cpu.cfs_quota_us"), quota.to_string())?;
        }
        Ok(group)
    }

    fn add(&self, gateway: &Gateway) -> Result<()> {
        Ok(std::fs::write(self.0.join("cgroup.procs"), gateway.process.pid().to_string())?)
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Prints the throughput of one and of three replicas, in turn.
pub(crate) fn report() -> Result<()> {
    println!("## Throughput\n");
    println!(
        "{CLIENTS} clients of each replica read lists of 100 kB and their second pages, for {} s. \
         A control group gives each replica {CORE_PERCENT} % of a core, so that the others suffice \
         for clients, upstream and Redis.\n",
        RUN_TIME.as_secs()
    );
    println!("| replicas | calls per second | of each replica |\n|--:|--:|--:|");
    let mut rates = Vec::new();
    for replicas in [1, 3, 1, 3] {
        let rate = run(replicas)?;
        println!("| {replicas} | {rate:.0} | {:.0} |", rate / replicas as f64);
        rates.push(rate);
    }
    let ratio = (rates[1] + rates[3]) / (rates[0] + rates[2]);
    println!("\nThree replicas serve {ratio:.2} times the calls of one.\n");
    Ok(())
}

/// Returns the calls per second of a number of replicas.
fn run(replicas: usize) -> Result<f64> {
    let (redis, server) = (Redis::start("bench-throughput", &[])?, upstream::start()?);
    let limits = json!({"limits": {"perPrincipal": 1_000}});
    let (mut running, mut groups) = (Vec::new(), Vec::new());
    for number in 0..replicas {
        let gateway = replica(&server, &redis, &limits, 3)?;
        let group = CpuGroup::new(&format!("{}-{number}", std::process::id()))?;
        group.add(&gateway)?;
        running.push(gateway);
        groups.push(group);
    }
    let (calls, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let urls: Vec<String> = running.iter().map(Gateway::url).collect();
    let rate = std::thread::scope(|scope| -> Result<f64> {
        let clients: Vec<_> = (0..replicas * CLIENTS)
            .map(|number| {
                let (urls, calls, stop) = (&urls, &calls, &stop);
                scope.spawn(move || client(urls, number, calls, stop))
            })
            .collect();
        // All clients are connected.
        std::thread::sleep(Duration::from_secs(3));
        let (began, before) = (Instant::now(), calls.load(Ordering::Relaxed));
        std::thread::sleep(RUN_TIME);
        let counted = calls.load(Ordering::Relaxed) - before;
        let rate = counted as f64 / began.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().ok().context("a client panicked")??;
        }
        Ok(rate)
    })?;
    drop(running);
    Ok(rate)
}

/// Reads lists at one replica, and their second pages at the next one.
fn client(urls: &[String], number: usize, calls: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    let mut client = HttpClient::open(&urls[number % urls.len()], &[], json!({}))?;
    let mut turn = number;
    while !stop.load(Ordering::Relaxed) {
        client.url.clone_from(&urls[turn % urls.len()]);
        let list = client.call("list", json!({}))?;
        turn += 1;
        client.url.clone_from(&urls[turn % urls.len()]);
        let cursor = list.next_cursor().context("no cursor")?;
        let page = client.call("context_guard_read", json!({ "cursor": cursor }))?;
        ensure!(!page.is_error(), "{}", page.0);
        calls.fetch_add(2, Ordering::Relaxed);
    }
    Ok(())
}
