//! The HTTP API of the tool catalogue: its base path, its tags, and the scores of tools.

use std::process::Command;

use context_guard_test_support::gateway::{Gateway, HttpClient, get};
use context_guard_test_support::operations::{admin_call, admin_config};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

use crate::catalogue::upstreams;

/// The definition of a tool, and its recorded calls.
const TOOL: &str = "/admin/v1/catalogue/widgets/process_widgets_1";

/// Waits until the gateway knows the lists of its servers.
fn wait_for_lists(gateway: &Gateway) -> Result<()> {
    wait_until("lists of all servers", || {
        let (_, body) = gateway.get_admin("/admin/v1/catalogue/servers")?;
        Ok(body.matches("tool_count").count() == 4)
    })?;
    Ok(())
}

fn performance(gateway: &Gateway) -> Result<Value> {
    let (status, body) = gateway.get_admin(TOOL)?;
    ensure!(status == 200, "{status} {body}");
    Ok(serde_json::from_str::<Value>(&body)?["performance"].take())
}

#[test]
fn usage_outlives_the_gateway_and_scores_change_on_demand() -> Result<()> {
    let more = json!({"history": {"file": "history.db"}, "admin": admin_config()});
    let gateway = Gateway::start(upstreams("catalogue-usage")?, more)?;
    wait_for_lists(&gateway)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for fail in [false, false, false, true] {
        client.call("widgets__process_widgets_1", json!({"value": "a", "fail": fail}))?;
    }
    // Scores change with an update only.
    let before = client.request("tools/list", json!({}))?;
    ensure!(performance(&gateway)?.is_null(), "the scores have changed");
    ensure!(client.request("tools/list", json!({}))?.result() == before.result(), "another list");
    let recompute = || admin_call(&gateway, "POST", "/admin/catalogue/recompute", b"");
    let updated = recompute()?;
    ensure!(updated.body == r#"{"changed":true,"tools":1}"#, "{} {}", updated.status, updated.body);
    let recorded = performance(&gateway)?;
    ensure!(recorded["total_invocations"] == 4, "{recorded}");
    ensure!(recorded["success_rate"] == 75.0, "{recorded}");
    let again = recompute()?;
    ensure!(again.body == r#"{"changed":false,"tools":1}"#, "{}", again.body);
    let gateway = gateway.restart()?;
    wait_for_lists(&gateway)?;
    ensure!(performance(&gateway)? == recorded, "{}", performance(&gateway)?);
    Ok(())
}

#[test]
fn servers_that_did_not_list_are_named() -> Result<()> {
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let dead = json!({"name": "dead", "command": ["false"]});
    for (upstreams, unlisted) in [(json!([well.clone(), dead]), "dead"), (json!([well]), "")] {
        let gateway = Gateway::start(upstreams, json!({}))?;
        wait_until("a list", || {
            let found = get(&format!("{}/api/v1/tools/servers", gateway.base), &[])?;
            Ok(found.status == 200 && found.body.contains("\"well\""))
        })?;
        for (path, status) in [("search?q=booking", 200), ("none/none", 404)] {
            let found = get(&format!("{}/api/v1/tools/{path}", gateway.base), &[])?;
            ensure!(found.status == status, "{path}: {} {}", found.status, found.body);
            ensure!(found.header("context-guard-unlisted") == unlisted, "{path}: {unlisted}");
        }
    }
    Ok(())
}

#[test]
fn every_route_has_a_tag() -> Result<()> {
    let gateway = Gateway::start(upstreams("catalogue-tags")?, json!({}))?;
    let base = format!("{}/api/v1/tools", gateway.base);
    wait_until("lists of all servers", || {
        let servers = get(&format!("{base}/servers"), &[])?;
        Ok(servers.body.matches("tool_count").count() == 4)
    })?;
    for path in [
        "hot",
        "categories",
        "category/widgets?page=1",
        "widgets/process_widgets_1",
        "servers/widgets/process_widgets_1",
        "search?q=process&detail=signature",
        "servers",
        "overview",
    ] {
        let url = format!("{base}/{path}");
        let first = get(&url, &[])?;
        ensure!(first.status == 200, "{path}: {} {}", first.status, first.body);
        ensure!(first.header("cache-control") == "private, no-cache", "{path}");
        let tag = first.header("etag").to_owned();
        for tags in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let second = get(&url, &[("if-none-match", &tags)])?;
            ensure!(second.status == 304 && second.body.is_empty(), "{path}: {}", second.status);
            ensure!(second.header("etag") == tag, "{path}: another tag");
            ensure!(second.header("cache-control") == "private, no-cache", "{path}");
        }
        let other = get(&url, &[("if-none-match", "\"x\"")])?;
        ensure!(other.status == 200 && other.body == first.body, "{path}: {}", other.status);
    }
    let missing = get(&format!("{base}/category/none"), &[("if-none-match", "*")])?;
    ensure!(missing.status == 404 && missing.header("etag").is_empty(), "{}", missing.status);
    ensure!(missing.header("cache-control") == "private, no-cache", "a cache may store it");
    Ok(())
}

#[test]
fn base_path_is_that_of_the_policy() -> Result<()> {
    for (prefix, served, missing) in [
        (json!("/catalogue"), Some("/catalogue/servers"), "/api/v1/tools/servers"),
        (Value::Null, None, "/api/v1/tools/servers"),
    ] {
        let policy = json!({"policy": {"catalogue": {"httpPrefix": prefix}}});
        let gateway = Gateway::start(upstreams("catalogue-prefix")?, policy)?;
        if let Some(served) = served {
            wait_until("lists of all servers", || {
                let found = get(&format!("{}{served}", gateway.base), &[])?;
                Ok(found.status == 200)
            })?;
            let url = format!("{}/catalogue/search?max_tokens=200", gateway.base);
            let cut = get(&url, &[])?.body;
            ensure!(cut.contains(r#""next":"/catalogue/search?"#), "{cut}");
        }
        let missing = get(&format!("{}{missing}", gateway.base), &[])?;
        ensure!(missing.status == 404, "{} {}", missing.status, missing.body);
    }
    Ok(())
}

#[test]
fn api_that_covers_the_base_path_is_refused() -> Result<()> {
    let folder = peers::folder("catalogue-covered")?;
    let file = folder.join("gateway.json");
    let check = |policy: Value| -> Result<String> {
        let api = json!({"url": "http://127.0.0.1:9", "prefix": "/api"});
        let config = json!({
            "upstreams": [
                {"name": "tools", "command": ["true"]},
                {"name": "shop", "rest": api},
            ],
            "policy": policy,
        });
        std::fs::write(&file, config.to_string())?;
        let checked =
            Command::new(artifacts::program()?).args(["config", "check"]).arg(&file).output()?;
        Ok(String::from_utf8_lossy(&checked.stderr).into_owned())
    };
    let refused = check(json!({}))?;
    let expected = "catalogue.httpPrefix: the JSON API `shop` with the prefix /api covers \
                    /api/v1/tools: set another path, or null";
    ensure!(refused.contains(expected), "{refused}");
    for prefix in [json!("/tools"), Value::Null] {
        let accepted = check(json!({"catalogue": {"httpPrefix": prefix}}))?;
        ensure!(!accepted.contains("httpPrefix"), "{accepted}");
    }
    let wrong = check(json!({"catalogue": {"httpPrefix": "tools"}}))?;
    ensure!(wrong.contains("not a path: use one such as /api/v1/tools"), "{wrong}");
    let admin = json!({"policy": {"catalogue": {"httpPrefix": null}}, "admin": admin_config()});
    let api = json!({"name": "shop", "rest": {"url": "http://127.0.0.1:9", "prefix": "/api"}});
    let mut servers = upstreams("catalogue-covered-servers")?;
    servers.as_array_mut().context("no upstreams")?.push(api);
    let gateway = Gateway::start(servers, admin)?;
    let deployed = admin_call(&gateway, "PUT", "/admin/policy", b"{\"hardCap\": 9000}")?;
    ensure!(deployed.status == 422, "{} {}", deployed.status, deployed.body);
    ensure!(deployed.body.contains("covers /api/v1/tools"), "{}", deployed.body);
    Ok(())
}
