//! Envoy listeners as operators write them: without a setting that the filter needs, and as the
//! recipes for Envoy Gateway and Istio produce them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use context_guard::document;
use context_guard_test_support::answer::Answer;
use context_guard_test_support::envoy::{Envoy, Listener};
use context_guard_test_support::gateway::{get, post};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde::Deserialize as _;
use serde_json::{Value, json};

const SETTING: &str = "allow_on_headers_stop_iteration";
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"records","arguments":{}}}"#;

/// Starts a server whose answers have 2,000 records.
fn records() -> Result<ScriptedServer> {
    let records: Vec<Value> =
        (0..2_000).map(|id| json!({"id": id, "name": format!("record {id}")})).collect();
    let list = Value::from(records).to_string();
    let result = json!({"content": [{"type": "text", "text": list}]});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    ScriptedServer::from_fn(move |request| {
        if request.line.starts_with("GET") {
            return ScriptedResponse::json(list.clone());
        }
        ScriptedResponse::json(answer.clone())
    })
}

/// Asserts that a call is answered with a page.
fn assert_paged(url: &str) -> Result<()> {
    let reply = post(&format!("{url}/mcp"), &[], CALL)?;
    let answer = Answer(reply.messages()?.pop().context("no message")?);
    ensure!(answer.metadata()["meta"]["totalCount"] == 2_000, "{}", answer.0);
    Ok(())
}

#[test]
fn missing_setting_is_reported_to_the_client_and_in_the_log() -> Result<()> {
    let server = records()?;
    for stop_iteration in [None, Some(false)] {
        let config = json!({"apis": [{"path": "/v1/*"}]});
        let listener = Listener { stop_iteration, ..Listener::before(server.address, config)? };
        let envoy = Envoy::start(&[listener], 1)?;
        let url = envoy.url(0)?;
        // Each response is the first of its kind in turn: a request with a body, one without.
        for at in 0..2 {
            let reply = get(&format!("{url}/v1/records"), &[])?;
            ensure!(reply.status == 500 && reply.body.contains(SETTING), "{at}: {}", reply.body);
            let reply = post(&format!("{url}/mcp"), &[], CALL)?;
            let error: Value = serde_json::from_str(&reply.body)?;
            ensure!(reply.status == 500 && error["error"]["code"] == -31006, "{error}");
            ensure!(error["error"]["message"].to_string().contains(SETTING), "{error}");
        }
        envoy.process.wait_for_output(&[SETTING])?;
        let forwarded = server.requests().iter().any(|one| one.line.starts_with("POST"));
        ensure!(!forwarded, "a request was forwarded unread");
        envoy.is_alive()?;
    }
    Ok(())
}

/// Sends the first request of an Envoy with pauses that exceed the time of the check. Returns the
/// answer, or what arrived before the body was sent.
fn send_slowly(url: &str) -> Result<(String, String)> {
    let address = url.strip_prefix("http://").context("no address")?;
    let mut client = TcpStream::connect(address)?;
    let (start, end) = CALL.split_at(30);
    write!(
        client,
        "POST /mcp HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        CALL.len()
    )?;
    // Whatever arrives before the body is sent was decided too early.
    client.set_read_timeout(Some(Duration::from_millis(1_500)))?;
    let mut early = [0; 1_000];
    let read = client.read(&mut early).unwrap_or(0);
    let early = String::from_utf8_lossy(early.get(..read).unwrap_or_default()).into_owned();
    let mut rest = String::new();
    if early.is_empty() {
        client.write_all(start.as_bytes())?;
        std::thread::sleep(Duration::from_millis(1_500));
        // An error response may have closed the connection already.
        let _ = client.write_all(end.as_bytes());
        client.set_read_timeout(Some(Duration::from_secs(180)))?;
        let _ = client.read_to_string(&mut rest);
    }
    Ok((early, rest))
}

#[test]
fn slow_clients_are_not_refused() -> Result<()> {
    let server = records()?;
    let envoy = Envoy::start(&[Listener::before(server.address, json!({}))?], 1)?;
    let (early, answer) = send_slowly(&envoy.url(0)?)?;
    ensure!(early.is_empty() && answer.starts_with("HTTP/1.1 200"), "{early}{answer}");
    ensure!(!envoy.process.output().contains(SETTING));
    // Without the setting, the first byte of the body is the evidence.
    let listener =
        Listener { stop_iteration: None, ..Listener::before(server.address, json!({}))? };
    let envoy = Envoy::start(&[listener], 1)?;
    let (early, answer) = send_slowly(&envoy.url(0)?)?;
    ensure!(early.is_empty() && answer.starts_with("HTTP/1.1 500"), "{early}{answer}");
    envoy.is_alive()
}

#[test]
fn slow_api_responses_are_not_refused() -> Result<()> {
    let server = ScriptedServer::from_fn(|_| {
        let body = Value::from((0..2_000).collect::<Vec<_>>()).to_string();
        let (start, end) = body.as_bytes().split_at(10);
        let chunks = vec![start.to_vec(), end.to_vec()];
        ScriptedResponse { chunks, sized: false, pause_ms: 1_500, ..ScriptedResponse::json("") }
    })?;
    let listener = Listener::before(server.address, json!({"apis": [{"path": "/v1/*"}]}))?;
    let envoy = Envoy::start(&[listener], 1)?;
    let reply = get(&format!("{}/v1/slow", envoy.url(0)?), &[])?;
    ensure!(reply.status == 200 && reply.body.contains("nextCursor"), "{}", reply.body);
    envoy.is_alive()
}

/// Returns the resources of a recipe, by their kind.
fn recipe(name: &str) -> Result<Vec<Value>> {
    let file = artifacts::root().join("examples").join(name).join("context-guard.yaml");
    let text = std::fs::read_to_string(&file)?;
    text.split("\n---\n").map(|one| Ok(document::parse(&file, one)?)).collect()
}

fn of_kind<'a>(resources: &'a [Value], kind: &str) -> Result<&'a Value> {
    resources.iter().find(|one| one["kind"] == kind).with_context(|| format!("no {kind}"))
}

/// Returns the filters of the listener's HTTP connection manager.
fn http_filters(listener: &mut Value) -> Result<&mut Vec<Value>> {
    let filters = &mut listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
    filters.as_array_mut().context("no filters")
}

/// Returns the bytes of a Kubernetes quantity.
fn bytes(quantity: &Value) -> Result<u64> {
    let quantity = quantity.as_str().context("no quantity")?;
    let factors = [("Ki", 1 << 10), ("Mi", 1 << 20)];
    let (suffix, factor) =
        factors.into_iter().find(|(suffix, _)| quantity.ends_with(suffix)).context("no unit")?;
    Ok(quantity.trim_end_matches(suffix).parse::<u64>()? * factor)
}

#[test]
fn recipe_for_envoy_gateway_guards() -> Result<()> {
    let server = records()?;
    let resources = recipe("envoy-gateway")?;
    let extension = &of_kind(&resources, "EnvoyExtensionPolicy")?;
    let wasm = &extension["spec"]["wasm"][0];
    let place = format!(
        "envoyextensionpolicy/{}/{}/wasm/0",
        extension["metadata"]["namespace"].as_str().context("no namespace")?,
        extension["metadata"]["name"].as_str().context("no name")?
    );
    let filter = format!("envoy.filters.http.wasm/{place}");
    // The listener as Envoy Gateway translates the policy: routes enable the filter.
    let folder = Envoy::folder()?;
    let base = Listener { stop_iteration: None, ..Listener::before(server.address, json!({}))? };
    let mut listener = base.resource("eg", &folder.join("log").display().to_string());
    let limits = of_kind(&resources, "ClientTrafficPolicy")?;
    listener["per_connection_buffer_limit_bytes"] =
        bytes(&limits["spec"]["connection"]["bufferLimit"])?.into();
    let routes = &mut listener["filter_chains"][0]["filters"][0]["typed_config"]["route_config"];
    let route = &mut routes["virtual_hosts"][0]["routes"][0];
    route["typed_per_filter_config"][&filter] =
        json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}});
    let translated = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        "config": {
            "name": wasm["name"],
            "configuration": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": wasm["config"].to_string()},
            "vm_config": {
                "vm_id": place,
                "runtime": "envoy.wasm.runtime.v8",
                "code": {"local": {"filename": base.filter}},
                "environment_variables": {"host_env_keys": wasm["env"]["hostKeys"]},
            },
        },
    });
    http_filters(&mut listener)?[0] =
        json!({"name": filter, "disabled": true, "typed_config": translated});
    let mut patched = listener.clone();
    let patch = of_kind(&resources, "EnvoyPatchPolicy")?;
    let operations = patch["spec"]["jsonPatches"].as_array().context("no patches")?;
    let wanted = format!("$..http_filters[?(@.name=='{filter}')].typed_config.config");
    for operation in operations.iter().map(|one| &one["operation"]) {
        ensure!(operation["jsonPath"] == wanted.as_str(), "{operation}");
        let path = operation["path"].as_str().context("no path")?;
        let config = &mut http_filters(&mut patched)?[0]["typed_config"]["config"];
        let existing = path.split('/').fold(&mut *config, |at, member| &mut at[member]);
        ensure!(existing.is_null() == (operation["op"] == "add"), "{operation}");
        *existing = operation["value"].clone();
    }
    let envoy = Envoy::start_resources(Envoy::folder()?, &[(patched, server.address)], 1)?;
    assert_paged(&envoy.url(0)?)?;
    envoy.is_alive()?;
    // Without the patch, the filter names the setting.
    let envoy = Envoy::start_resources(Envoy::folder()?, &[(listener, server.address)], 1)?;
    let reply = post(&format!("{}/mcp", envoy.url(0)?), &[], CALL)?;
    ensure!(reply.status == 500 && reply.body.contains(SETTING), "{}", reply.body);
    envoy.is_alive()
}

#[test]
fn recipe_for_istio_guards() -> Result<()> {
    let server = records()?;
    let resources = recipe("istio")?;
    let patches = of_kind(&resources, "EnvoyFilter")?["spec"]["configPatches"].clone();
    let patches = Vec::<Value>::deserialize(patches)?;
    let value = |kind: &str| {
        let patch = patches.iter().find(|patch| patch["applyTo"] == kind);
        patch.map(|patch| patch["patch"]["value"].clone()).context("no such patch")
    };
    let folder = Envoy::folder()?;
    let base = Listener::before(server.address, json!({}))?;
    let mut listener = base.resource("istio", &folder.join("log").display().to_string());
    // The agent downloads the image, and replaces its address by a file.
    let mut extension = value("EXTENSION_CONFIG")?;
    let code = &mut extension["typed_config"]["config"]["vm_config"]["code"];
    let uri = code["remote"]["http_uri"]["uri"].as_str().context("no uri")?;
    ensure!(uri.starts_with("oci://"), "{uri}");
    *code = json!({"local": {"filename": base.filter}});
    let mut filter = value("HTTP_FILTER")?;
    ensure!(filter["name"] == extension["name"], "{filter}");
    // A file takes the place of the control plane.
    let source = &mut filter["config_discovery"]["config_source"];
    ensure!(source["ads"].is_object(), "{source}");
    let file = folder.join("extension.json");
    source.as_object_mut().context("no source")?.remove("ads");
    source["path_config_source"] = json!({"path": file});
    let mut resource = extension;
    resource["@type"] = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig".into();
    std::fs::write(&file, json!({"resources": [resource]}).to_string())?;
    http_filters(&mut listener)?[0] = filter;
    let limit = &value("LISTENER")?["per_connection_buffer_limit_bytes"];
    listener["per_connection_buffer_limit_bytes"] = limit.clone();
    let clusters = &value("CLUSTER")?["per_connection_buffer_limit_bytes"];
    ensure!(clusters.as_u64().map(|bytes| 2 * bytes) == limit.as_u64(), "{clusters}, {limit}");
    let envoy = Envoy::start_resources(folder, &[(listener, server.address)], 1)?;
    let url = envoy.url(0)?;
    wait_until("the extension", || {
        Ok(post(&format!("{url}/mcp"), &[], CALL).is_ok_and(|reply| reply.status == 200))
    })
    .with_context(|| envoy.process.output())?;
    assert_paged(&url)?;
    envoy.is_alive()
}

#[test]
fn resumed_streams_are_shaped() -> Result<()> {
    const PRIME: &[u8] = b"id: stream-1\nretry: 10\ndata: \n\n";
    let events = |id: &str| {
        let records: Vec<Value> =
            (0..2_000).map(|id| json!({"id": id, "name": format!("record {id}")})).collect();
        let content = json!([{"type": "text", "text": Value::from(records).to_string()}]);
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content}});
        format!("id: {id}\nevent: message\ndata: {answer}\n\n").into_bytes()
    };
    let server = ScriptedServer::from_fn(move |request| {
        let with = |chunks, pause_ms| ScriptedResponse {
            chunks,
            sized: false,
            pause_ms,
            ..ScriptedResponse::with_type("text/event-stream", "")
        };
        if request.line.starts_with("GET") {
            return with(vec![events("stream-2")], 0);
        }
        let is_slow = request.body.windows(4).any(|word| word == b"slow");
        // The server ends the stream before its answer, or the client does.
        if is_slow {
            with(vec![PRIME.to_vec(), events("late")], 20_000)
        } else {
            with(vec![PRIME.to_vec()], 0)
        }
    })?;
    let envoy = Envoy::start(&[Listener::before(server.address, json!({}))?], 1)?;
    let url = format!("{}/mcp", envoy.url(0)?);
    let resume = |key: &str, last: &str| {
        let headers = [("authorization", key), ("last-event-id", last), ("mcp-session-id", "s")];
        get(&url, &[headers.as_slice(), &[("accept", "text/event-stream")]].concat())
    };
    let is_paged = |body: &str| body.contains("nextCursor");
    let reply = post(&url, &[("authorization", "ada"), ("mcp-session-id", "s")], CALL)?;
    ensure!(reply.status == 200 && reply.body.as_bytes() == PRIME, "{}", reply.body);
    // Another caller, and an unknown event, have nothing to resume.
    for (key, last) in [("bob", "stream-1"), ("ada", "stream-0")] {
        ensure!(!is_paged(&resume(key, last)?.body), "{key} resumed {last}");
    }
    let reply = resume("ada", "stream-1")?;
    ensure!(is_paged(&reply.body) && reply.body.starts_with("id: stream-2"), "{}", reply.body);

    // The client leaves after the first event.
    let call = CALL.replace("records", "slow");
    let mut client = TcpStream::connect(envoy.url(0)?.trim_start_matches("http://"))?;
    write!(
        client,
        "POST /mcp HTTP/1.1\r\nhost: a\r\nauthorization: eve\r\nmcp-session-id: s\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{call}",
        call.len()
    )?;
    client.set_read_timeout(Some(Duration::from_secs(180)))?;
    let mut received = String::new();
    while !received.contains("stream-1") {
        let mut part = [0; 1_000];
        let read = client.read(&mut part)?;
        ensure!(read > 0, "the stream ended: {received}");
        received.push_str(&String::from_utf8_lossy(part.get(..read).unwrap_or_default()));
    }
    drop(client);
    wait_until("a resumed stream", || Ok(is_paged(&resume("eve", "stream-1")?.body)))?;
    envoy.is_alive()
}
