//! Tables of the measured times, the reference times and the goals.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use context_guard_test_support::artifacts;
use serde_json::{Value, json};

use crate::goals;
use crate::turns::{OTHER_WORK, SAMPLES, TURNS, Times};

/// Returns the folder for all results.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("CONTEXT_GUARD_BENCH_OUT")
        .map_or_else(|| artifacts::root().join("target/bench"), PathBuf::from)
}

/// Reads earlier results.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

pub(crate) fn duration(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{nanos:.0} ns"),
        ..1e6 => format!("{:.1} us", nanos / 1e3),
        _ => format!("{:.2} ms", nanos / 1e6),
    }
}

fn machine() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .current_dir(artifacts::root())
            .output()
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    json!({
        "cpu": name.map(|(_, name)| name),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "system": run("uname", &["-sr"]),
        "commit": run("git", &["rev-parse", "--short", "HEAD"]),
    })
}

/// Gives groups of equal input the fastest of their reference times, because the speed of parsing
/// also depends on the memory that the allocator returned.
fn share_yardstick(times: &mut Times, alike: &[Vec<&str>]) {
    for (groups, side) in
        alike.iter().flat_map(|groups| [(groups, "value"), (groups, "value, cold")])
    {
        let yardsticks = groups.iter().filter_map(|group| times.get(*group)?.get(side).copied());
        let Some(best) = yardsticks.reduce(f64::min) else { continue };
        for group in groups {
            if let Some(value) = times.get_mut(*group).and_then(|sides| sides.get_mut(side)) {
                *value = best;
            }
        }
    }
}

/// Prints the tables, and writes them as JSON. `alike` are groups that are compared with parsing
/// the same bytes.
pub(crate) fn run(mut times: Times, alike: &[Vec<&str>]) -> Result<()> {
    share_yardstick(&mut times, alike);
    let machine = machine();
    let text = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    println!(
        "\nMade by `cargo xtask bench speed` at commit {}, on {} cores of {}, {}. Of each the least of {} samples, in {TURNS} turns with what it is compared with; \"parsing\" is `serde_json::from_slice::<Value>` of JSON of the same size, dropped again, with mimalloc: the least of all that parse the same bytes. Cold is a call after other work, which has gone through {} MiB.\n",
        text("commit"),
        machine["cores"],
        text("cpu"),
        text("system"),
        TURNS * SAMPLES,
        OTHER_WORK >> 20
    );
    println!(
        "| whole call | parsing | core | component | filter | component of parsing | of core | parsing, cold | component, cold | of parsing, cold |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for (group, sides) in times.iter().filter(|(_, sides)| sides.contains_key("component")) {
        let cell = |side: &str| sides.get(side).map_or_else(String::new, |nanos| duration(*nanos));
        let of = |this: &str, that: &str| match (sides.get(this), sides.get(that)) {
            (Some(this), Some(that)) => format!("{:.3}", this / that),
            _ => String::new(),
        };
        println!(
            "| {group} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cell("value"),
            cell("core"),
            cell("component"),
            cell("filter"),
            of("component", "value"),
            of("component", "core"),
            cell("value, cold"),
            cell("component, cold"),
            of("component, cold", "value, cold")
        );
    }
    println!("\n| part | | |\n|---|---|--:|");
    for (group, sides) in times.iter().filter(|(_, sides)| !sides.contains_key("component")) {
        for (side, nanos) in sides {
            println!("| {group} | {side} | {} |", duration(*nanos));
        }
    }
    let goals = goals::all(&times);
    goals::print(&goals);
    if let Some(before) = std::env::var_os("CONTEXT_GUARD_BENCH_COMPARE") {
        compare(&times, &read(Path::new(&before))?)?;
    }
    std::fs::create_dir_all(folder())?;
    let path = folder().join("speed.json");
    let all = json!({"machine": machine, "leastNanoseconds": times, "goals": goals});
    std::fs::write(&path, serde_json::to_string_pretty(&all)?)?;
    eprintln!("\nWritten to {}.", path.display());
    Ok(())
}

fn compare(times: &Times, before: &Value) -> Result<()> {
    ensure!(
        before["leastNanoseconds"].is_object(),
        "there is no `leastNanoseconds` in what is compared with: make it with this bench, at the other commit"
    );
    println!(
        "\n| against commit {} | before | now | ratio |\n|---|--:|--:|--:|",
        before["machine"]["commit"].as_str().unwrap_or("unknown")
    );
    for (group, sides) in times {
        for (side, now) in sides {
            if let Some(before) = before["leastNanoseconds"][group][side].as_f64() {
                println!(
                    "| {group}, {side} | {} | {} | {:.2} |",
                    duration(before),
                    duration(*now),
                    now / before
                );
            }
        }
    }
    Ok(())
}
