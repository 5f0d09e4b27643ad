//! The shipped files for Prometheus and Grafana: a real Prometheus scrapes a live gateway.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use context_guard_test_support::gateway::{Gateway, HttpClient, Process, get};
use context_guard_test_support::wait::wait_for;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

fn shipped(path: &str) -> PathBuf {
    artifacts::root().join("packaging/observability").join(path)
}

fn program(name: &str) -> Result<PathBuf> {
    Ok(artifacts::peers()?.join("prometheus/usr/bin").join(name))
}

fn promtool(arguments: &[&str]) -> Result<String> {
    let folder = shipped("prometheus");
    let output = Command::new(program("promtool")?).current_dir(folder).args(arguments).output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(output.status.success(), "promtool {arguments:?}: {text}");
    Ok(text)
}

#[test]
fn shipped_rules_and_configuration_are_valid() -> Result<()> {
    promtool(&["check", "config", "prometheus.yml"])?;
    promtool(&["check", "rules", "--lint-fatal", "context-guard.rules.yml"])?;
    promtool(&["test", "rules", "context-guard.rules.test.yml"])?;
    let rules = std::fs::read_to_string(shipped("prometheus/context-guard.rules.yml"))?;
    let tests = std::fs::read_to_string(shipped("prometheus/context-guard.rules.test.yml"))?;
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    ensure!(alerts.len() == 9, "{alerts:?}");
    for alert in alerts {
        ensure!(tests.contains(&format!("alertname: {alert}")), "{alert} has no test");
    }
    Ok(())
}

/// Checks the metrics of a gateway with `promtool check metrics`.
fn check_metrics(gateway: &Gateway) -> Result<()> {
    let (_, text) = gateway.get_admin("/metrics")?;
    let mut command = Command::new(program("promtool")?);
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut check = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    check.stdin.take().context("no input")?.write_all(text.as_bytes())?;
    let output = check.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{errors}");
    Ok(())
}

/// Starts a Prometheus that scrapes the gateway every second, with the shipped rules. Returns it
/// with its URL.
fn prometheus(gateway: &Gateway, folder: &Path) -> Result<(Process, String)> {
    let rules = shipped("prometheus/context-guard.rules.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
         rule_files: ['{}']\n\
         scrape_configs:\n  - job_name: context-guard\n    static_configs:\n      \
         - targets: ['{}']\n",
        rules.display(),
        gateway.admin.trim_start_matches("http://"),
    );
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config)?;
    // Prometheus does not report the port that the system selects.
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new(program("prometheus")?);
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address={address}"));
    let process = Process::start(command, false, "Server is ready to receive web requests")?;
    Ok((process, format!("http://{address}")))
}

fn encoded(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Returns the values of a query. Those that are no numbers are left out.
fn query(url: &str, expression: &str) -> Result<Vec<f64>> {
    let reply = get(&format!("{url}/api/v1/query?query={}", encoded(expression)), &[])?;
    ensure!(reply.status == 200, "{expression}: {}", reply.body);
    let found: Value = serde_json::from_str(&reply.body)?;
    let rows = found["data"]["result"].as_array().cloned().unwrap_or_default();
    let numbers = rows.iter().filter_map(|row| row["value"][1].as_str()?.parse::<f64>().ok());
    Ok(numbers.filter(|number| number.is_finite()).collect())
}

/// Returns the expressions of all panels of a board, with values for its variables.
fn expressions(board: &str) -> Result<Vec<String>> {
    let board: Value = serde_json::from_slice(&std::fs::read(shipped(board))?)?;
    let panels = board["panels"].as_array().context("no panels")?.iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let values = [("$instance", ".*"), ("$__rate_interval", "20s"), ("$__range", "1m")];
    let filled = targets.map(|target| {
        let expression = target["expr"].as_str().unwrap_or_default().to_owned();
        values.iter().fold(expression, |text, (name, value)| text.replace(name, value))
    });
    Ok(filled.collect())
}

#[test]
fn every_expression_of_the_boards_has_a_value() -> Result<()> {
    let server = artifacts::property_server()?;
    let gateway = Gateway::start(
        json!([
            {"name": "houses", "command": [server]},
            {"name": "absent", "url": "http://127.0.0.1:9/mcp"},
        ]),
        json!({}),
    )?;
    let folder = peers::folder("prometheus")?;
    let (prometheus, url) = prometheus(&gateway, &folder)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    client.request("tools/list", json!({}))?;
    let boards = ["grafana/context-guard-overview.json", "grafana/context-guard-tools.json"];
    let mut missing = Vec::new();
    for board in boards {
        missing.extend(expressions(board)?);
    }
    ensure!(missing.len() > 20, "{missing:?}");
    wait_for("values of all expressions", || {
        client.call("houses__list_bookings", json!({}))?;
        client.call("houses__short_note", json!({}))?;
        let mut left = Vec::new();
        for expression in &missing {
            if query(&url, expression)?.is_empty() {
                left.push(expression.clone());
            }
        }
        missing = left;
        Ok(missing.is_empty().then_some(()))
    })
    .with_context(|| format!("{missing:#?}\n{}", prometheus.output()))?;
    check_metrics(&gateway)?;
    let of_tool = r#"context_guard_tokens_total{tool="list_bookings",side="sent",kind="call"}"#;
    ensure!(query(&url, of_tool)?.iter().any(|tokens| *tokens > 0.0));
    // The rules see the same numbers: more than 5 % of the answers exceed their budget.
    let fires = r#"count(ALERTS{alertname="ContextGuardUpstreamDown",upstream="absent"})"#;
    wait_for("an alert", || Ok(query(&url, fires)?.pop()))?;
    Ok(())
}

#[test]
fn log_format_json_has_an_object_per_line() -> Result<()> {
    let server = artifacts::property_server()?;
    let folder = peers::folder("log-json")?;
    let file = folder.join("gateway.yaml");
    let config = format!(
        "listen: 127.0.0.1:0\nupstreams:\n  - {{name: houses, command: ['{}']}}\n",
        server.display()
    );
    std::fs::write(&file, config)?;
    let mut command = Command::new(artifacts::program()?);
    command.args(["-v", "serve", "--log-format", "json", "--config"]).arg(&file);
    let process = Process::start(command, false, "\"serving\"")?;
    let line = |name: &str, value: &str| {
        let lines = process.output();
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
            .collect::<Result<_>>()?;
        anyhow::Ok(lines.into_iter().find(|line| line[name] == value))
    };
    let serving = line("message", "serving")?.context("not serving")?;
    let url = serving["url"].as_str().context("no URL")?.to_owned();
    let mut client = HttpClient::open(&url, &[], json!({}))?;
    client.call("short_note", json!({}))?;
    let request = wait_for("a request", || line("endpoint", "houses::short_note"))?;
    ensure!(request["message"] == "request answered", "{request}");
    ensure!(request["level"] == "INFO" && request["target"] == "context_guard::requests");
    ensure!(request["tokens"].is_u64() && request["timestamp"].is_string(), "{request}");
    Ok(())
}
