//! The names of tools and prompts that clients of a gateway see.

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::peers::Server;
use context_guard_test_support::wait::wait_for;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// An upstream name that leaves too few characters for most tools.
const LONG_NAME: &str = "an-upstream-with-a-long-name.v2";

fn upstreams() -> Result<Value> {
    Ok(json!([
        {"name": LONG_NAME, "command": Server::npm("server-everything", &["stdio"])?.0},
        {"name": "houses", "command": [artifacts::property_server()?]},
    ]))
}

fn names(client: &mut HttpClient, method: &str, member: &str) -> Result<Vec<String>> {
    wait_for("the lists of all upstreams", || {
        let listed = client.request(method, json!({}))?;
        let names = listed.result()[member].as_array().cloned().unwrap_or_default();
        let is_whole = listed.result()["_meta"].is_null();
        let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
        Ok(is_whole.then(|| names.iter().map(name).collect()))
    })
}

fn is_accepted(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=64).contains(&name.len()) && name.chars().all(is_valid)
}

#[test]
fn names_that_models_refuse_are_replaced() -> Result<()> {
    let rule = json!({"match": format!("{LONG_NAME}::get-structured-content"), "shape": false});
    let more = json!({"policy": {"endpoints": [rule]}});
    let gateway = Gateway::start(upstreams()?, more)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let tools = names(&mut client, "tools/list", "tools")?;
    ensure!(tools.len() > 12 && tools.iter().all(|name| is_accepted(name)), "{tools:?}");
    let mut distinct = tools.clone();
    distinct.sort();
    distinct.dedup();
    ensure!(distinct.len() == tools.len(), "{tools:?}");
    let named = |part: &str| tools.iter().find(|name| name.contains(part)).cloned();
    let echo = named("_echo_").context("no tool echo")?;
    ensure!(echo.starts_with("an-upstream-with-a-long-name_v2__echo_"), "{echo}");
    let answer = client.call(&echo, json!({"message": "hello"}))?;
    ensure!(answer.0.to_string().contains("Echo: hello"), "{}", answer.0);
    // Policies and telemetry have the original name.
    let weather = named("_get-structured-").context("no structured tool")?;
    client.call(&weather, json!({"location": "Chicago"}))?;
    let endpoint = format!("{LONG_NAME}::get-structured-content");
    let record = wait_for("a record of the call", || {
        let (_, records) = gateway.get_admin("/admin/telemetry?limit=50")?;
        let records: Value = serde_json::from_str(&records)?;
        let mut records = records["records"].as_array().cloned().unwrap_or_default().into_iter();
        Ok(records.find(|record| record["endpoint"] == endpoint.as_str()))
    })?;
    ensure!(record["outcome"] == "passed", "{record}");
    let prompts = names(&mut client, "prompts/list", "prompts")?;
    ensure!(!prompts.is_empty() && prompts.iter().all(|name| is_accepted(name)), "{prompts:?}");
    let simple = prompts.iter().find(|name| name.contains("simple")).context("no prompt")?.clone();
    client.request("prompts/get", json!({"name": simple}))?;
    let log = gateway.process.wait_for_output(&["models refuse some names"])?;
    ensure!(log.matches("models refuse some names").count() == 1, "{log}");
    // A client that knows the names need not list them again.
    let gateway = gateway.restart()?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let answer = client.call(&echo, json!({"message": "again"}))?;
    ensure!(answer.0.to_string().contains("Echo: again"), "{}", answer.0);
    let prompt = client.request("prompts/get", json!({"name": simple}))?;
    ensure!(prompt.result()["messages"].is_array(), "{}", prompt.0);
    let unknown = client.call("an-upstream-with-a-long-name_v2__none_00000000", json!({}))?;
    ensure!(unknown.0["error"]["message"].to_string().contains("no tool "), "{}", unknown.0);
    let again = names(&mut client, "tools/list", "tools")?;
    ensure!(again == tools, "{again:?} instead of {tools:?}");
    Ok(())
}

#[test]
fn config_check_warns_of_long_and_dotted_names() -> Result<()> {
    let folder = context_guard_test_support::peers::folder("names")?;
    let file = folder.join("gateway.json");
    let config = json!({"upstreams": [
        {"name": LONG_NAME, "command": ["true"]},
        {"name": "an-upstream-with-a-long-name", "command": ["true"]},
        {"name": "files", "command": ["true"]},
    ]});
    std::fs::write(&file, config.to_string())?;
    let mut command = std::process::Command::new(artifacts::program()?);
    let output = command.args(["config", "check"]).arg(&file).output()?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success() && printed.lines().count() == 2, "{printed}");
    ensure!(printed.contains(&format!("{LONG_NAME}: models refuse `.`")), "{printed}");
    ensure!(printed.contains("more than 34"), "{printed}");
    Ok(std::fs::remove_dir_all(folder)?)
}
