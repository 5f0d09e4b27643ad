//! The tables: what was measured, beside the yardstick and the goals. They are made from what criterion has written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use context_guard_test_support::artifacts;
use serde_json::{Value, json};

/// Medians in nanoseconds, by group and side.
pub(crate) type Times = BTreeMap<String, BTreeMap<String, f64>>;

/// A measurement: its group, and its side.
type Side = (&'static str, &'static str);

/// A ratio that has a goal: what is divided by what, each as group and side, and the most that it may be.
const GOALS: [(&str, Side, Side, f64); 20] = [
    (
        "first page of 1 MB, structured content",
        ("page-structured-1MB", "component"),
        ("page-structured-1MB", "value"),
        0.125,
    ),
    (
        "first page of 1 MB, JSON in a text block",
        ("page-text-1MB", "component"),
        ("page-text-1MB", "value"),
        0.125,
    ),
    (
        "first page of 1 MB, the same in both",
        ("page-both-1MB", "component"),
        ("page-both-1MB", "value"),
        0.125,
    ),
    ("first chunk of 3 MB", ("chunk-plain-3MB", "component"), ("chunk-plain-3MB", "value"), 0.1),
    (
        "first chunk of 3 MB with its errors",
        ("chunk-3MB", "component"),
        ("chunk-3MB", "value"),
        0.1,
    ),
    (
        "projecting 1 MB, structured content",
        ("project-structured-1MB", "component"),
        ("project-structured-1MB", "value"),
        0.333,
    ),
    (
        "projecting 1 MB, text",
        ("project-text-1MB", "component"),
        ("project-text-1MB", "value"),
        0.333,
    ),
    (
        "condensing 1 MB, structured content",
        ("condense-structured-1MB", "component"),
        ("condense-structured-1MB", "value"),
        0.333,
    ),
    (
        "condensing 1 MB, text",
        ("condense-text-1MB", "component"),
        ("condense-text-1MB", "value"),
        0.333,
    ),
    (
        "component against core: page, structured content",
        ("page-structured-1MB", "component"),
        ("page-structured-1MB", "core"),
        1.3,
    ),
    (
        "component against core: page, text",
        ("page-text-1MB", "component"),
        ("page-text-1MB", "core"),
        1.3,
    ),
    (
        "component against core: page of 100 kB",
        ("page-text-100kB", "component"),
        ("page-text-100kB", "core"),
        1.3,
    ),
    (
        "component against core: condensing",
        ("condense-text-1MB", "component"),
        ("condense-text-1MB", "core"),
        1.3,
    ),
    (
        "component against core: projecting",
        ("project-text-1MB", "component"),
        ("project-text-1MB", "core"),
        1.3,
    ),
    (
        "component against core: chunk",
        ("chunk-plain-3MB", "component"),
        ("chunk-plain-3MB", "core"),
        1.3,
    ),
    (
        "page 2, snapshot of 60 MB against 1 MB",
        ("page-first-of-60MB", "component"),
        ("page-first-of-1MB", "component"),
        1.5,
    ),
    (
        "last page, snapshot of 60 MB against 1 MB",
        ("page-last-of-60MB", "component"),
        ("page-last-of-1MB", "component"),
        1.5,
    ),
    (
        "pricing 10 MB by samples against all of it",
        ("price-10MB", "samples"),
        ("price-10MB", "all of it"),
        0.1,
    ),
    (
        "two threads against one, for the same answers",
        ("instance", "new, 100 kB, two threads at once"),
        ("instance", "new, 100 kB"),
        1.0 / 1.7,
    ),
    (
        "filter of the gateway against the component",
        ("page-text-100kB", "filter"),
        ("page-text-100kB", "component"),
        1.3,
    ),
];

fn criterion_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| artifacts::root().join("target"), PathBuf::from);
    target.join("criterion")
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// Adds what criterion has measured, now or before, of everything: of each the best median there has been.
pub(crate) fn best(times: &mut Times) -> Result<()> {
    for group in std::fs::read_dir(criterion_folder())? {
        for side in std::fs::read_dir(group?.path()).into_iter().flatten() {
            let new = side?.path().join("new");
            let (Ok(id), Ok(estimates)) =
                (read(&new.join("benchmark.json")), read(&new.join("estimates.json")))
            else {
                continue;
            };
            let (Some(group), Some(side)) = (id["group_id"].as_str(), id["function_id"].as_str())
            else {
                continue;
            };
            if let Some(median) = estimates["median"]["point_estimate"].as_f64() {
                let sides = times.entry(group.to_owned()).or_default();
                let best = sides.entry(side.to_owned()).or_insert(median);
                *best = best.min(median);
            }
        }
    }
    Ok(())
}

/// Gives groups that are measured beside the same bytes the same yardstick, the best of theirs: parsing is slowed by what else a machine does more than anything here, and more so
/// at one time than at another.
pub(crate) fn share_yardstick(times: &mut Times, alike: &[Vec<&str>]) {
    for groups in alike {
        let yardsticks = groups.iter().filter_map(|group| times.get(*group)?.get("value").copied());
        let Some(best) = yardsticks.reduce(f64::min) else { continue };
        for group in groups {
            if let Some(value) = times.get_mut(*group).and_then(|sides| sides.get_mut("value")) {
                *value = best;
            }
        }
    }
}

fn duration(nanos: f64) -> String {
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

/// Prints the tables and writes them as JSON.
pub(crate) fn run(times: &Times) -> Result<()> {
    let machine = machine();
    let text = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    println!(
        "\nMade by `cargo xtask bench speed` at commit {}, on {} cores of {}, {}. Of each the best median of three rounds; \"parsing\" is `serde_json::from_slice::<Value>` of JSON of the same size, dropped again, with mimalloc: the best of all that parse the same bytes.\n",
        text("commit"),
        machine["cores"],
        text("cpu"),
        text("system")
    );
    println!(
        "| whole call | parsing | core | component | filter | component of parsing | component of core |\n|---|--:|--:|--:|--:|--:|--:|"
    );
    for (group, sides) in times.iter().filter(|(_, sides)| sides.contains_key("component")) {
        let cell = |side: &str| sides.get(side).map_or_else(String::new, |nanos| duration(*nanos));
        let of = |side: &str| match (sides.get("component"), sides.get(side)) {
            (Some(component), Some(other)) => format!("{:.3}", component / other),
            _ => String::new(),
        };
        println!(
            "| {group} | {} | {} | {} | {} | {} | {} |",
            cell("value"),
            cell("core"),
            cell("component"),
            cell("filter"),
            of("value"),
            of("core")
        );
    }
    println!("\n| part | | |\n|---|---|--:|");
    for (group, sides) in times.iter().filter(|(_, sides)| !sides.contains_key("component")) {
        for (side, nanos) in sides {
            println!("| {group} | {side} | {} |", duration(*nanos));
        }
    }
    let goals = goals(times);
    println!("\n| goal | measured | at most | |\n|---|--:|--:|---|");
    for goal in &goals {
        println!(
            "| {} | {} | {} | {} |",
            goal["goal"].as_str().unwrap_or_default(),
            goal["shown"].as_str().unwrap_or_default(),
            goal["limit"].as_str().unwrap_or_default(),
            if goal["met"] == true { "met" } else { "**above**" }
        );
    }
    if let Some(before) = std::env::var_os("CONTEXT_GUARD_BENCH_COMPARE") {
        compare(times, &read(Path::new(&before))?);
    }
    let folder = std::env::var_os("CONTEXT_GUARD_BENCH_OUT")
        .map_or_else(|| artifacts::root().join("target/bench"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("speed.json");
    let all = json!({"machine": machine, "medianNanoseconds": times, "goals": goals});
    std::fs::write(&path, serde_json::to_string_pretty(&all)?)?;
    eprintln!("\nWritten to {}.", path.display());
    Ok(())
}

fn goals(times: &Times) -> Vec<Value> {
    let time = |(group, side): Side| times.get(group)?.get(side).copied();
    let mut goals: Vec<Value> = GOALS
        .iter()
        .filter_map(|(goal, this, that, limit)| {
            let ratio = time(*this)? / time(*that)?;
            Some(json!({"goal": goal, "value": ratio, "shown": format!("{ratio:.3}"), "limit": format!("{limit:.3}"), "met": ratio <= *limit}))
        })
        .collect();
    let mut absolute = |goal: &str, nanos: Option<f64>, limit: f64| {
        if let Some(nanos) = nanos {
            goals.push(json!({"goal": goal, "value": nanos, "shown": duration(nanos), "limit": duration(limit), "met": nanos <= limit}));
        }
    };
    absolute("an answer of 1 kB that fits", time(("fits-1kB", "component")), 10_000.0);
    let (new, again) = ("new, 100 kB", "used again, 100 kB");
    let added = time(("instance", new)).zip(time(("instance", again)));
    absolute("a new sandbox, added to 100 kB", added.map(|(new, again)| new - again), 15_000.0);
    // 60 kB, priced whole, with everything else that a call does: at 200 MB/s.
    absolute(
        "pricing all of 60 kB in the component, whole call",
        time(("fits-60kB", "component")),
        300_000.0,
    );
    goals
}

fn compare(times: &Times, before: &Value) {
    println!(
        "\n| against commit {} | before | now | ratio |\n|---|--:|--:|--:|",
        before["machine"]["commit"].as_str().unwrap_or("unknown")
    );
    for (group, sides) in times {
        for (side, now) in sides {
            if let Some(before) = before["medianNanoseconds"][group][side].as_f64() {
                println!(
                    "| {group}, {side} | {} | {} | {:.2} |",
                    duration(before),
                    duration(*now),
                    now / before
                );
            }
        }
    }
}
