//! Alerts: they fire and resolve under load, and the webhook receives signed notifications.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::replace_file;
use context_guard_test_support::scripted::{ReceivedRequest, ScriptedServer};
use context_guard_test_support::wait::{wait_for, wait_until};
use context_guard_test_support::{Context, Result, artifacts, ensure};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

const SECRET: &str = "the secret of the webhook";

fn alert(gateway: &Gateway, name: &str) -> Result<Value> {
    let (status, body) = gateway.get_admin("/admin/v1/alerts")?;
    ensure!(status == 200, "{body}");
    let alerts: Vec<Value> = serde_json::from_str(&body)?;
    alerts.into_iter().find(|alert| alert["name"] == name).context(body)
}

/// Verifies the signature of a notification, and returns its body.
fn verified(request: &ReceivedRequest) -> Result<Value> {
    let body = String::from_utf8(request.body.clone())?;
    let [id, time] = ["webhook-id", "webhook-timestamp"].map(|name| request.header(name));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    ensure!(request.header("webhook-signature") == expected, "{request:?}");
    let age = std::time::UNIX_EPOCH.elapsed()?.as_secs().abs_diff(time.parse()?);
    ensure!(age < 300, "the signature is {age} s old");
    Ok(serde_json::from_str(&body)?)
}

#[test]
fn oversized_share_fires_and_resolves_under_load() -> Result<()> {
    let receiver = ScriptedServer::start()?;
    let server = artifacts::property_server()?;
    let upstreams = json!([{"name": "houses", "command": [server]}]);
    let url = format!("{}/hook?key=hidden", receiver.url());
    let gateway = Gateway::start(
        upstreams,
        json!({
            "alerts": [
                {"name": "oversized", "over": "10s", "min": 20},
                {"name": "slow", "when": "latency_p95 > 60000"},
                {"name": "audit", "enabled": false},
            ],
            "alertWebhook": {"url": url, "secret": SECRET},
        }),
    )?;
    ensure!(alert(&gateway, "oversized")?["state"] == "ok");
    ensure!(alert(&gateway, "audit").is_err(), "the alert is switched off");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let load: Vec<_> = (0..2)
            .map(|_| {
                threads.spawn(|| -> Result<()> {
                    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
                    while !is_done.load(Ordering::Relaxed) {
                        client.call("short_note", json!({}))?;
                        std::thread::sleep(std::time::Duration::from_millis(20));
                    }
                    Ok(())
                })
            })
            .collect();
        let result = watch(&gateway, &receiver);
        is_done.store(true, Ordering::Relaxed);
        for client in load {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        result
    })?;
    let log = gateway.process.wait_for_output(&["alert is firing", "alert is resolved"])?;
    ensure!(log.matches("alert is firing").count() == 1, "{log}");
    ensure!(log.matches("alert is resolved").count() == 1, "{log}");
    ensure!(!log.contains("key=hidden"), "the log contains the URL:\n{log}");
    Ok(())
}

/// Raises the share of oversized answers, and follows the alert until it is resolved.
fn watch(gateway: &Gateway, receiver: &ScriptedServer) -> Result<()> {
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    wait_until("load", || {
        let value = &alert(gateway, "slow")?["summary"];
        let calls = value.as_str().and_then(|text| text.split(" with ").nth(1)?.split(' ').next());
        Ok(calls.and_then(|calls| calls.parse::<u64>().ok()).is_some_and(|calls| calls > 30))
    })?;
    for _ in 0..60 {
        client.call("list_bookings", json!({}))?;
    }
    wait_until("a firing alert", || Ok(alert(gateway, "oversized")?["state"] == "firing"))?;
    let firing = alert(gateway, "oversized")?;
    ensure!(firing["value"].as_f64().is_some_and(|value| value > 0.05), "{firing}");
    ensure!(firing["threshold"] == 0.05, "{firing}");
    let (_, metrics) = gateway.get_admin("/metrics")?;
    ensure!(metrics.contains("context_guard_alert{name=\"oversized\"} 1"), "{metrics}");
    let sent = |at: usize| wait_for("a notification", || Ok(receiver.requests().get(at).cloned()));
    let first = verified(&sent(0)?)?;
    ensure!(first["type"] == "alert.firing" && first["data"]["name"] == "oversized", "{first}");
    // The oversized calls leave the window.
    wait_until("a resolved alert", || Ok(alert(gateway, "oversized")?["state"] == "resolved"))?;
    let second = verified(&sent(1)?)?;
    ensure!(second["type"] == "alert.resolved", "{second}");
    let (_, metrics) = gateway.get_admin("/metrics")?;
    ensure!(metrics.contains("context_guard_alert{name=\"oversized\"} 0"), "{metrics}");
    let counted = "context_guard_alert_notifications_total{result=\"sent\"} 2";
    wait_until("counted notifications", || Ok(gateway.get_admin("/metrics")?.1.contains(counted)))?;
    Ok(())
}

#[test]
fn changed_file_changes_alerts_and_keeps_states() -> Result<()> {
    let receiver = ScriptedServer::start()?;
    let server = artifacts::property_server()?;
    let upstreams = json!([
        {"name": "houses", "command": [server]},
        {"name": "gone", "url": "http://127.0.0.1:9/mcp"},
    ]);
    let alerts = json!([{"name": "upstream-down", "for": "0s"}]);
    let gateway = Gateway::start(
        upstreams,
        json!({"alerts": alerts, "alertWebhook": {"url": receiver.url(), "secret": SECRET}}),
    )?;
    wait_until("a firing alert", || Ok(alert(&gateway, "upstream-down")?["state"] == "firing"))?;
    let since = alert(&gateway, "upstream-down")?["since"].clone();
    let file = gateway.folder.join("gateway.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    config["alerts"] = json!([alerts[0], {"name": "busy", "when": "calls > 1000000"}]);
    replace_file(&file, config.to_string().as_bytes())?;
    wait_until("the new alert", || Ok(alert(&gateway, "busy").is_ok()))?;
    let kept = alert(&gateway, "upstream-down")?;
    ensure!(kept["state"] == "firing" && kept["since"] == since, "{kept}");
    config["alerts"] = json!([{"name": "upstream-down", "enabled": false}]);
    replace_file(&file, config.to_string().as_bytes())?;
    let ended = wait_for("a notification", || Ok(receiver.requests().get(1).cloned()))?;
    ensure!(verified(&ended)?["type"] == "alert.resolved");
    ensure!(alert(&gateway, "upstream-down").is_err());
    Ok(())
}
