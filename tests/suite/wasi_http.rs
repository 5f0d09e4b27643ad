//! The wasi:http middleware, composed and served by the library behind `wasmtime serve`.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::gateway::{ArchiveServer, agent, get, post};
use context_guard_test_support::peers::{CLIENTS, call, run_at};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::serve::Served;
use context_guard_test_support::{Context, Result, artifacts, bail, ensure};
use serde_json::{Value, json};

/// The served compositions: 0.2 alone, and 0.3 with the end of a chain behind it.
const FORMS: [&str; 2] = ["context-guard-http-p2", "context-guard-http-p3-proxy"];

fn served(form: &str, suffix: &str, upstream: &str, config: &Value) -> Result<Served> {
    Served::start(&format!("{form}{suffix}.wasm"), upstream, config, None)
}

fn request(arguments: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": arguments}}).to_string()
}

fn answer(list: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": list.to_string()}]});
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
}

fn records(count: usize) -> Value {
    (0..count).map(|id| json!({"id": id, "name": format!("record {id}")})).collect()
}

fn ask(served: &Served, arguments: &Value) -> Result<Answer> {
    let reply = post(&format!("{}/mcp", served.url), &[], &request(arguments))?;
    ensure!(reply.status == 200, "{}: {}", reply.status, reply.body);
    Ok(Answer(reply.messages()?.pop().context("no message")?))
}

#[test]
fn sdk_clients_list_call_page_and_chunk() -> Result<()> {
    for form in FORMS {
        for plain in [false, true] {
            let server = ArchiveServer::start(plain)?;
            let served = served(form, "", server.base(), &json!({"upstream": "archive"}))?;
            let url = format!("{}/mcp", served.url);
            let steps = [
                call("list_bookings", json!({"limit": 200})),
                call("read_log", json!({})),
                json!({"op": "call", "name": "picture"}),
                json!({"op": "call", "name": "slow"}),
            ];
            for client in CLIENTS {
                let outcomes = run_at(client, &url, "auto", &steps)
                    .with_context(|| format!("{form}, plain: {plain}"))?;
                for answer in outcomes[1..].iter().flatten() {
                    ensure!(!answer.is_error() && answer.tokens() <= 4_000, "{}", answer.0);
                }
                let bookings: usize = outcomes[1]
                    .iter()
                    .filter_map(|page| page.json().ok()?["bookings"].as_array().map(Vec::len))
                    .sum();
                ensure!(bookings == 500, "{form}, {client}: {bookings} bookings");
                let log: String = outcomes[2].iter().flat_map(Answer::texts).collect();
                ensure!(log.lines().count() == 10_000, "{form}, {client}");
                ensure!(outcomes[3][0].result()["content"][0]["mimeType"] == "image/png");
            }
        }
    }
    Ok(())
}

#[test]
fn events_are_streamed_and_bodies_complete() -> Result<()> {
    for form in FORMS {
        let server = ScriptedServer::start()?;
        let served = served(form, "", &server.url(), &json!({}))?;
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;
        let events = format!(
            ": hi\n\nid: 7\ndata: {progress}\n\nid: 8\ndata: {}\n\n",
            answer(&records(900))
        );
        server.push(ScriptedResponse::with_type("text/event-stream", events).chunked(1_000));
        let reply = post(&format!("{}/mcp", served.url), &[], &request(&json!({})))?;
        ensure!(
            reply.body.starts_with(&format!(": hi\n\nid: 7\ndata: {progress}\n\nid: 8\ndata: ")),
            "{}",
            reply.body
        );
        ensure!(reply.messages()?.len() == 2 && reply.body.len() < 20_000, "{form}");
        // 5 MB are shaped, with and without a content length. 12 MB exceed the limit, and pass
        // unshaped.
        for (count, chunked, is_refused) in
            [(150_000, false, false), (150_000, true, false), (400_000, true, true)]
        {
            let body = ScriptedResponse::json(answer(&records(count)));
            server.push(if chunked { body.chunked(100_000) } else { body });
            let answer = ask(&served, &json!({}))?;
            ensure!(answer.is_error() == is_refused, "{form}: {}", answer.0);
            ensure!(
                is_refused || answer.metadata()["meta"]["totalCount"] == count,
                "{form}: {}",
                answer.0
            );
        }
        // A body that is no tool answer passes byte for byte.
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        server.push(
            ScriptedResponse::with_type("application/octet-stream", bytes.clone()).chunked(9_999),
        );
        let passed =
            agent().get(format!("{}/file", served.url)).call()?.into_body().read_to_vec()?;
        ensure!(passed == bytes, "{form}: {} bytes", passed.len());
    }
    Ok(())
}

#[test]
fn api_is_paged_by_query() -> Result<()> {
    for form in FORMS {
        let server = ScriptedServer::from_fn(|request| {
            ScriptedResponse::json(if request.line.starts_with("GET /v1/list?a=b ") {
                records(500).to_string()
            } else {
                "null".to_owned()
            })
        })?;
        let served = served(form, "", &server.url(), &json!({"apis": [{"path": "/v1/*"}]}))?;
        let reply = get(&format!("{}/v1/list?a=b&limit=3", served.url), &[])?;
        let page: Value = serde_json::from_str(&reply.body)?;
        ensure!(page["items"].as_array().is_some_and(|items| items.len() == 3), "{page}");
        ensure!(reply.header("x-context-guard") == "partial");
        let next = reply.header("link").split(['<', '>']).nth(1).context("no link")?.to_owned();
        let next = get(&format!("{}{next}", served.url), &[])?;
        ensure!(serde_json::from_str::<Value>(&next.body)?["items"][0]["id"] == 3, "{}", next.body);
        let forged = get(&format!("{}/v1/list?a=b&cursor=forged", served.url), &[])?;
        ensure!(forged.status == 400 && forged.body.contains("cursor_invalid"), "{}", forged.body);
    }
    Ok(())
}

#[test]
fn missing_store_replays_calls() -> Result<()> {
    for form in FORMS {
        let server = ScriptedServer::start()?;
        let policy = json!({"endpoints": [{"match": "list", "readOnly": true}]});
        let served = served(form, "-replay", &server.url(), &json!({"policy": policy}))?;
        let first = ScriptedResponse::json(answer(&records(500)));
        server.push(first.clone());
        let page = ask(&served, &json!({}))?;
        let cursor = page.next_cursor().context("no cursor")?;
        server.push(first);
        let next = ask(&served, &json!({"_guard": {"cursor": cursor}}))?;
        let shown = page.json()?["items"].as_array().map(Vec::len);
        ensure!(next.json()?["items"][0]["id"] == json!(shown), "{form}: {}", next.0);
        server.push(ScriptedResponse::json(answer(&records(400))));
        let changed = ask(&served, &json!({"_guard": {"cursor": cursor}}))?;
        ensure!(
            changed.is_error() && changed.0.to_string().contains("data_changed"),
            "{}",
            changed.0
        );
    }
    Ok(())
}

#[test]
fn invalid_environment_is_reported() -> Result<()> {
    for form in FORMS {
        let server = ScriptedServer::start()?;
        for (config, expected) in [
            (json!({"policy": {"defaultPageSize": 0}}), "policy.defaultPageSize"),
            (json!({"maxBody": "much"}), "CONTEXT_GUARD_CONFIG"),
        ] {
            let served = served(form, "", &server.url(), &config)?;
            let reply = post(&format!("{}/mcp", served.url), &[], &request(&json!({})))?;
            ensure!(reply.status == 500 && reply.body.contains(expected), "{form}: {}", reply.body);
        }
    }
    Ok(())
}

/// Returns the imports and exports of a composition, without the WASI that every wasi:http host
/// has.
fn surface(composition: &str) -> Result<(Vec<String>, Vec<String>)> {
    let bytes = std::fs::read(artifacts::dist(composition)?)?;
    let wit_component::DecodedWasm::Component(resolve, world) = wit_component::decode(&bytes)?
    else {
        bail!("{composition} is no component")
    };
    let world = &resolve.worlds[world];
    let names = |items: Vec<String>| {
        // Our interfaces contain types only, which a host does not have to provide.
        let common = [
            "context-guard:guard/types@",
            "wasi:cli/",
            "wasi:clocks/",
            "wasi:io/",
            "wasi:random/",
            "wasi:http/types@",
            "wasi:filesystem/",
        ];
        let mut items: Vec<String> = items
            .into_iter()
            .filter(|name| !common.iter().any(|common| name.starts_with(common)))
            .collect();
        items.sort();
        items
    };
    let imports = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();
    let exports = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
    Ok((names(imports), names(exports)))
}

#[test]
fn compositions_import_only_host_interfaces() -> Result<()> {
    let stores = [
        ("", vec!["wasi:keyvalue/store@0.2.0-draft"]),
        ("-spin", vec!["wasi:keyvalue/store@0.2.0-draft2"]),
        ("-replay", vec![]),
    ];
    for (suffix, store) in stores {
        for (form, way, exported) in [
            ("p2", "wasi:http/outgoing-handler@0.2", "wasi:http/incoming-handler@0.2"),
            ("p3", "wasi:http/handler@0.3.0", "wasi:http/handler@0.3.0"),
            ("p3-proxy", "wasi:http/client@0.3.0", "wasi:http/handler@0.3.0"),
        ] {
            let (imports, exports) = surface(&format!("context-guard-http-{form}{suffix}.wasm"))?;
            let wanted: Vec<&str> = [way].into_iter().chain(store.iter().copied()).collect();
            let fits = imports.len() == wanted.len()
                && imports.iter().zip(&wanted).all(|(import, wanted)| import.starts_with(wanted));
            ensure!(fits, "{form}{suffix} imports {imports:?}, not {wanted:?}");
            ensure!(exports.len() == 1 && exports[0].starts_with(exported), "{form}: {exports:?}");
        }
    }
    Ok(())
}
