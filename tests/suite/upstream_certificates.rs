//! The certificate of a gateway at its upstreams, and the authorities of theirs.

use context_guard_test_support::certificates::{Authority, Certificate, TlsProxy};
use context_guard_test_support::gateway::{ConformanceServer, Gateway, HttpClient, get};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Result, ensure, peers};
use serde_json::{Value, json};

/// An authority with the certificates of an upstream and of the gateway as its client.
struct UpstreamSetup {
    authority: Authority,
    server: Certificate,
    client: Certificate,
}

fn upstream(name: &str) -> Result<UpstreamSetup> {
    let authority = Authority::create(peers::folder(name)?.join("ca"))?;
    let server = authority.issue_server()?;
    let client = authority.issue("gateway", "/CN=gateway", "")?;
    Ok(UpstreamSetup { authority, server, client })
}

#[test]
fn upstream_receives_the_certificate_of_the_gateway() -> Result<()> {
    let UpstreamSetup { authority, server, client } = upstream("mtls-upstream")?;
    let api = ScriptedServer::from_fn(|_| ScriptedResponse::json("{}"))?;
    let proxy = TlsProxy::start(&server, &authority, &api.url())?;
    let ca = authority.file();
    let status = |tls: Option<Value>| -> Result<u16> {
        let mut upstream = json!({"name": "api", "rest": {"url": proxy.base}});
        if let Some(tls) = tls {
            upstream["tls"] = tls;
        }
        let gateway = Gateway::start(json!([upstream]), json!({}))?;
        Ok(get(&format!("{}/things", gateway.base), &[])?.status)
    };
    ensure!(status(Some(json!({"ca": ca, "cert": client.cert, "key": client.key})))? == 200);
    proxy.process.wait_for_output(&["client gateway"])?;
    // Without a certificate, with that of another authority, and if the authority of the server is
    // not trusted.
    let foreign = Authority::create(peers::folder("mtls-upstream-foreign")?.join("ca"))?;
    let other = foreign.issue("gateway", "/CN=gateway", "")?;
    ensure!(status(None)? == 502);
    ensure!(status(Some(json!({"ca": ca})))? == 502);
    ensure!(status(Some(json!({"ca": ca, "cert": other.cert, "key": other.key})))? == 502);
    ensure!(status(Some(json!({"cert": client.cert, "key": client.key})))? == 502);
    ensure!(
        status(Some(json!({"ca": foreign.file(), "cert": client.cert, "key": client.key})))? == 502
    );
    ensure!(api.requests().len() == 1, "{:?}", api.requests());
    Ok(())
}

#[test]
fn mcp_upstreams_receive_the_certificate_of_the_gateway() -> Result<()> {
    let UpstreamSetup { authority, server, client } = upstream("mtls-mcp")?;
    let mcp = ConformanceServer::start()?;
    let proxy = TlsProxy::start(&server, &authority, &mcp.url)?;
    let tls = json!({"ca": authority.file(), "cert": client.cert, "key": client.key});
    let url = format!("{}/mcp", proxy.base);
    let with = json!({"name": "with", "url": url, "tls": tls});
    let without = json!({"name": "without", "url": url, "tls": {"ca": authority.file()}});
    // One upstream is passed through, several are aggregated.
    for upstreams in [json!([with]), json!([with, without])] {
        let is_aggregated = upstreams.as_array().map_or(0, Vec::len) > 1;
        let gateway = Gateway::start(upstreams, json!({}))?;
        let mut session = HttpClient::open(&gateway.url(), &[], json!({}))?;
        let tools = session.request("tools/list", json!({}))?.0.to_string();
        ensure!(tools.contains("\"tools\":[{"), "{tools}");
        ensure!(
            tools.contains("with__") == is_aggregated && !tools.contains("without__"),
            "{tools}"
        );
    }
    Ok(())
}

#[test]
fn changed_certificate_is_sent_to_the_upstream() -> Result<()> {
    let UpstreamSetup { authority, server, client } = upstream("mtls-renewal")?;
    let api = ScriptedServer::from_fn(|_| ScriptedResponse::json("{}"))?;
    let proxy = TlsProxy::start(&server, &authority, &api.url())?;
    let tls = json!({"ca": authority.file(), "cert": client.cert, "key": client.key});
    let upstreams = json!([{"name": "api", "rest": {"url": proxy.base}, "tls": tls}]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let status = || -> Result<u16> { Ok(get(&format!("{}/things", gateway.base), &[])?.status) };
    ensure!(status()? == 200);
    let new = authority.issue("renewed", "/CN=renewed", "")?;
    // The key does not fit the certificate until both files are replaced.
    std::fs::copy(&new.cert, &client.cert)?;
    wait_until("a warning", || {
        ensure!(status()? == 200);
        Ok(gateway.process.output().contains("the last certificates remain in use"))
    })?;
    ensure!(!proxy.process.output().contains("client renewed"));
    std::fs::copy(&new.key, &client.key)?;
    wait_until("the new certificate", || {
        ensure!(status()? == 200);
        Ok(proxy.process.output().contains("client renewed"))
    })?;
    Ok(())
}
