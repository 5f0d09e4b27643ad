//! The official conformance suite: a server passes the same checks directly and through the
//! gateway.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use context_guard_test_support::gateway::{ConformanceServer, Gateway};
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// The checks of each scenario, with their results.
type Checks = BTreeMap<String, Vec<String>>;

/// Returns the scenario of a result folder. Its name ends in a time, as in
/// `ping-2026-11-02T10-20-30-400Z`.
fn scenario_of(folder: &str) -> Option<&str> {
    const TIME: &str = "-0000-00-00T00-00-00-000Z";
    let (scenario, time) = folder.split_at_checked(folder.len().checked_sub(TIME.len())?)?;
    let shape = time.replace(|digit: char| digit.is_ascii_digit(), "0");
    (shape == TIME && !scenario.is_empty()).then_some(scenario)
}

#[test]
fn scenario_name_ends_before_the_time() {
    for scenario in ["ping", "json-schema-2020-12-preservation", "sep-2026-1"] {
        for time in ["2026-11-02T10-20-30-400Z", "2027-01-31T23-59-59-999Z"] {
            assert_eq!(scenario_of(&format!("{scenario}-{time}")), Some(scenario));
        }
        assert_eq!(scenario_of(scenario), None);
    }
}

/// Reads the results of a run, without the checks that only inform.
fn checks(folder: &Path) -> Result<Checks> {
    let mut all = Checks::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let scenario = scenario_of(&name).with_context(|| format!("no time in {name}"))?;
        let text = std::fs::read_to_string(entry.path().join("checks.json"))?;
        let found: Vec<Value> = serde_json::from_str(&text)?;
        let judged = found.iter().filter(|check| check["status"] != "INFO");
        let mut listed: Vec<String> = judged
            .map(|check| {
                format!(
                    "{} {}",
                    check["id"].as_str().unwrap_or("?"),
                    check["status"].as_str().unwrap_or("?")
                )
            })
            .collect();
        listed.sort();
        ensure!(all.insert(scenario.to_owned(), listed).is_none(), "{scenario} ran twice");
    }
    Ok(all)
}

fn suite(version: u8, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Checks> {
    let folder = peers::folder(&format!("conformance-{}", unique()))?;
    let output = Command::new(artifacts::node()?)
        .arg(artifacts::conformance(version)?)
        .args(arguments)
        .arg("--output-dir")
        .arg(&folder)
        .env("PEERS", artifacts::peers()?)
        .envs(environment.iter().copied())
        .output()?;
    // The suite exits with 1 if a check fails. Only a difference between the two runs matters here.
    let found = checks(&folder);
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    std::fs::remove_dir_all(&folder)?;
    let found = found.with_context(|| printed.clone())?;
    ensure!(!found.is_empty(), "no scenario was run: {printed}");
    if found.values().flatten().any(|check| !check.ends_with("SUCCESS")) {
        // libtest shows this if the test fails.
        eprintln!("{printed}");
    }
    Ok(found)
}

fn unique() -> u64 {
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Returns the differences between two runs, one line each.
fn differences(direct: &Checks, through: &Checks) -> Vec<String> {
    let mut lines = Vec::new();
    for scenario in direct.keys().chain(through.keys()).collect::<std::collections::BTreeSet<_>>() {
        let (a, b) = (direct.get(scenario), through.get(scenario));
        if a != b {
            let only = |one: Option<&Vec<String>>, other: Option<&Vec<String>>| -> Vec<String> {
                let other = other.cloned().unwrap_or_default();
                one.into_iter().flatten().filter(|check| !other.contains(check)).cloned().collect()
            };
            lines.push(format!(
                "{scenario}: directly {:?}, through the gateway {:?}",
                only(a, b),
                only(b, a)
            ));
        }
    }
    lines
}

/// Runs a suite directly and through the gateway, once each, and asserts that both agree.
fn same(run: impl Fn(bool) -> Result<Checks>) -> Result<Checks> {
    let (direct, through) = (run(false)?, run(true)?);
    let found = differences(&direct, &through);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(direct)
}

fn passed(checks: &Checks) -> usize {
    checks.values().flatten().filter(|check| check.ends_with("SUCCESS")).count()
}

fn before(fixture: &ConformanceServer) -> Result<Gateway> {
    Gateway::start(json!([{"name": "fixture", "url": fixture.url}]), json!({}))
}

#[test]
fn servers_conform_in_both_modes() -> Result<()> {
    let fixture = ConformanceServer::start()?;
    let gateway = before(&fixture)?;
    for (revision, least) in [("2025-11-25", 80), ("2026-07-28", 160)] {
        let found = same(|through| {
            let url = if through { gateway.url() } else { fixture.url.clone() };
            suite(2, &["server", "--url", &url, "--requirements", revision], &[])
        })
        .context(revision)?;
        ensure!(passed(&found) >= least, "{revision}: only {} checks passed", passed(&found));
    }
    Ok(())
}

#[test]
fn servers_conform_to_the_earlier_suite() -> Result<()> {
    let fixture = ConformanceServer::start()?;
    let gateway = before(&fixture)?;
    let found = same(|through| {
        let url = if through { gateway.url() } else { fixture.url.clone() };
        suite(1, &["server", "--url", &url, "--suite", "all"], &[])
    })?;
    ensure!(passed(&found) >= 40, "only {} checks passed", passed(&found));
    Ok(())
}

/// Scenarios that apply to HTTP only: stdio has no streams to break off.
const HTTP_ONLY: [&str; 2] = ["server-server-sse-polling", "server-server-sse-multiple-streams"];

/// Runs the suite of a protocol version through a gateway before this upstream. Returns the
/// differences from the same server over HTTP in its own protocol mode.
fn through(revision: &str, upstream: &Value) -> Result<Vec<String>> {
    let fixture = ConformanceServer::start()?;
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let run = |url: &str| suite(2, &["server", "--url", url, "--requirements", revision], &[]);
    let (mut direct, mut through) = (run(&fixture.url)?, run(&gateway.url())?);
    for scenario in HTTP_ONLY {
        direct.remove(scenario);
        through.remove(scenario);
    }
    ensure!(passed(&through) >= 70, "{through:?}");
    Ok(differences(&direct, &through))
}

#[test]
fn stdio_server_conforms() -> Result<()> {
    for revision in ["2025-11-25", "2026-07-28"] {
        let found = through(revision, &ConformanceServer::stdio("fixture", json!({}))?)?;
        ensure!(found.is_empty(), "{revision}:\n{}", found.join("\n"));
    }
    Ok(())
}

/// Starts the server for one protocol mode, over HTTP, and returns it as both kinds of upstream.
fn in_mode(mode: &str) -> Result<(ConformanceServer, [Value; 2])> {
    let http = ConformanceServer::start_in_mode(mode)?;
    let upstreams = [
        ConformanceServer::stdio("fixture", json!({"era": mode}))?,
        json!({"name": "fixture", "url": http.url}),
    ];
    Ok((http, upstreams))
}

#[test]
fn stateless_server_serves_stateful_clients() -> Result<()> {
    let (_http, upstreams) = in_mode("modern")?;
    for upstream in upstreams {
        let found = through("2025-11-25", &upstream)?;
        ensure!(found.is_empty(), "{upstream}:\n{}", found.join("\n"));
    }
    Ok(())
}

#[test]
fn stateful_server_serves_stateless_clients() -> Result<()> {
    // A stateful server sends one elicitation at a time, without a name. It cannot report missing
    // client capabilities before it needs them.
    const EXPECTED_DIFFERENCES: [&str; 4] = [
        "server-input-required-result-basic-elicitation:",
        "server-input-required-result-multiple-input-requests:",
        "server-input-required-result-tampered-state:",
        "server-server-stateless:",
    ];
    let (_http, upstreams) = in_mode("legacy")?;
    for upstream in upstreams {
        let found = through("2026-07-28", &upstream)?;
        let other: Vec<&String> = found
            .iter()
            .filter(|line| !EXPECTED_DIFFERENCES.iter().any(|known| line.starts_with(known)))
            .collect();
        ensure!(other.is_empty(), "{upstream}:\n{other:#?}");
    }
    Ok(())
}

/// The client scenarios that need no authorization server.
const CLIENT: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "initialize",
            "tools_call",
            "elicitation-sep1034-client-defaults",
            "sse-retry",
            "json-schema-2020-12-preservation",
        ],
    ),
    (
        "2026-07-28",
        &[
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ],
    ),
];

#[test]
fn clients_conform() -> Result<()> {
    let script = artifacts::root().join("tests/support/clients/conformance.mjs");
    let command = format!("{} {}", artifacts::node()?.display(), script.display());
    let program = artifacts::program()?.display().to_string();
    for (revision, scenarios) in CLIENT {
        for scenario in scenarios {
            let arguments = [
                "client",
                "--command",
                &command,
                "--scenario",
                scenario,
                "--spec-version",
                revision,
                // A client and its gateway start slowly beside other tests on two cores.
                "--timeout",
                "120000",
            ];
            let found = same(|through| {
                let guard: &[(&str, &str)] = if through { &[("GUARD", &program)] } else { &[] };
                suite(2, &arguments, guard)
            })
            .with_context(|| format!("{scenario} in {revision}"))?;
            ensure!(passed(&found) > 0, "{scenario} in {revision}: nothing passed");
        }
    }
    Ok(())
}
