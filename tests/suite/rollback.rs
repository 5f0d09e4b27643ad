//! Automatic rollback: only failures that another revision does not have, and that one client
//! cannot cause alone, roll a revision back.

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::{active_revision, admin_call, admin_config};
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Result, artifacts, ensure};
use serde_json::{Value, json};

use super::access::key;

/// Starts a gateway in front of server-everything, and deploys a component as revision 2 that fails
/// on demand.
fn faulty_gateway(mut settings: Value) -> Result<Gateway> {
    let everything = Server::npm("server-everything", &["stdio"])?;
    let upstreams = json!([{"name": "everything", "command": everything.0, "isolation": "shared"}]);
    settings["admin"] = admin_config();
    settings["component"] = json!({"deadlineMs": 1_000});
    let gateway = Gateway::start(upstreams, settings)?;
    let faulty = std::fs::read(artifacts::faulty_component()?)?;
    let swapped = admin_call(&gateway, "PUT", "/admin/component", &faulty)?;
    ensure!(swapped.status == 200 && active_revision(&gateway)? == 2, "{}", swapped.body);
    Ok(gateway)
}

fn fault(client: &mut HttpClient, kind: &str) -> Result<()> {
    let answer =
        client.call("echo", json!({"message": format!("inject-fault:{kind} and more")}))?;
    ensure!(answer.texts()[0].contains("and more"), "{}", answer.0);
    Ok(())
}

#[test]
fn deadline_of_a_query_does_not_roll_back() -> Result<()> {
    let gateway = faulty_gateway(json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for _ in 0..6 {
        let message = "inject-fault:loop and more";
        let answer =
            client.call("echo", json!({"message": message, "_guard": {"grep": "more"}}))?;
        ensure!(answer.texts()[0].contains("and more"), "{}", answer.0);
    }
    ensure!(active_revision(&gateway)? == 2);
    let expected = ["within its deadline", "endpoint=\"echo\"", "principal=\"anonymous"];
    gateway.process.wait_for_output(&expected)?;
    // The same failure without a query is the component's own.
    for _ in 0..4 {
        fault(&mut client, "loop")?;
    }
    wait_until("a rollback", || Ok(active_revision(&gateway)? == 1))?;
    Ok(())
}

#[test]
fn one_principal_of_many_does_not_roll_back() -> Result<()> {
    let file = peers::folder("rollback")?.join("keys.json");
    let keys = [key(&file, "alice")?, key(&file, "bob")?, key(&file, "carol")?];
    let access = json!({"keys": file, "rateLimit": {"perMinute": 0}});
    let gateway = faulty_gateway(json!({"access": access}))?;
    let open = |key: &String| {
        let bearer = format!("Bearer {key}");
        HttpClient::open(&gateway.url(), &[("authorization", bearer.as_str())], json!({}))
    };
    let mut clients = keys.iter().map(open).collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        let healthy = client.call("echo", json!({"message": "hello"}))?;
        ensure!(healthy.texts()[0].contains("hello"), "{}", healthy.0);
    }
    for _ in 0..6 {
        fault(&mut clients[0], "trap")?;
    }
    ensure!(active_revision(&gateway)? == 2, "one principal chose the revision");
    for client in &mut clients[1..] {
        fault(client, "trap")?;
    }
    wait_until("a rollback", || Ok(active_revision(&gateway)? == 1))?;
    gateway.process.wait_for_output(&["of 3 principals"])?;
    Ok(())
}

#[test]
fn long_queries_are_refused() -> Result<()> {
    let houses = json!([{"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}]);
    let gateway = Gateway::start(houses, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for (name, value, expected) in [
        ("where", vec!["id=1"; 5_000].join(","), "where has 24999 bytes; at most 4096"),
        ("where", vec!["id=1"; 65].join(","), "where has 65 parts; at most 64"),
        ("aggregate", vec!["sum(price)"; 65].join(","), "aggregate has 65 parts; at most 64"),
    ] {
        let refused = client.call("list_bookings", json!({"_guard": {name: value}}))?;
        let text = refused.all_texts().concat();
        ensure!(refused.is_error() && text.contains(expected), "{text}");
        ensure!(text.len() < 1_000, "{text}");
    }
    let most = vec!["id~BK"; 64].join(",");
    let answered = client.call("list_bookings", json!({"_guard": {"where": most}}))?;
    ensure!(!answered.is_error(), "{}", answered.0);
    ensure!(!gateway.process.output().contains("guard failed"), "{}", gateway.process.output());
    Ok(())
}
