//! Golden vectors, run through every form of the guard: native core, component, Envoy filter,
//! external processor, wasi:http middleware, npm package. Messages, records and store must be
//! identical. See tests/vectors/README.md.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_test_kit::vectors::{
    self, Case, Exchange, cases, compare, native, outcome, read,
};
use context_guard_test_support::envoy::{Envoy, Listener};
use context_guard_test_support::external::{Bodies, ProcessedListener, VectorGuard, envoy_with};
use context_guard_test_support::gateway::agent;
use context_guard_test_support::guards::{ComponentGuard, NOW_MS, SIGNING_KEY, component};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::serve::Served;
use context_guard_test_support::{Result, artifacts, ensure, peers};
use serde_json::{Value, json};

fn wasm(case: &Case) -> Result<Value> {
    outcome(
        case,
        &ComponentGuard::new(
            component()?,
            &case.policy.to_string(),
            "tester",
            NOW_MS,
            &[SIGNING_KEY],
        )?,
    )
}

#[test]
fn component_in_wasmtime() -> Result<()> {
    for path in cases()? {
        let case = read(&path)?;
        let (native, wasm) = (native(&case)?, wasm(&case)?);
        compare(&path, &native, &wasm)?;
        ensure!(native.to_string() == wasm.to_string());
    }
    Ok(())
}

/// Removes the parts of an outcome that a form does not expose.
fn unseen(form: &str, name: &str, outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    // Tests cannot read the shared data of Envoy. The pages that are read from it prove its
    // content.
    if form == "envoy"
        && let Some(members) = outcome.as_object_mut()
    {
        members.remove("stored");
    }
    // The keys of a catalogue depend on the address of the server.
    if name == "tools-tiered"
        && let Some(stored) = outcome["stored"].as_object()
    {
        let mut values: Vec<Value> = stored.values().cloned().collect();
        values.sort_by_key(Value::to_string);
        outcome["stored"] = values.into();
    }
    // wasi:http has no log that a handler could write a record to, and the history of an external
    // processor has other records.
    if form.starts_with("http") || form.starts_with("ext-proc") {
        for exchange in outcome["exchanges"].as_array_mut().into_iter().flatten() {
            exchange["record"] = Value::Null;
        }
    }
    outcome
}

/// Cases that a form cannot run, with the reason. A case that it can run is an error here.
const CANNOT: [(&str, &str, &str); 1] = [("envoy", "jq", "the filter has no jq")];

/// Compares all outcomes of a form with those of the native core.
fn agree(form: &str, mut found: impl FnMut(&str, &Case) -> Result<Value>) -> Result<()> {
    let mut faults = Vec::new();
    for path in cases()? {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let case = read(&path)?;
        let expected = unseen(form, name, &native(&case)?);
        let case = resolved(case, &expected);
        let same = found(name, &case)
            .and_then(|found| compare(&path, &expected, &unseen(form, name, &found)));
        let cannot = CANNOT.iter().any(|(other, case, _)| (*other, *case) == (form, name));
        match same {
            Ok(()) if cannot => {
                faults.push(format!("{name} is listed as not running in {form}, but runs"))
            }
            Err(error) if !cannot => faults.push(format!("{error:#}")),
            _ => {}
        }
    }
    ensure!(faults.is_empty(), "{form}: {}", faults.join("\n"));
    Ok(())
}

/// Inserts the cursors, which must be the same in every form.
fn resolved(case: Case, expected: &Value) -> Case {
    let mut cursor = String::new();
    let exchanges = case.exchanges.into_iter().enumerate().map(|(at, exchange)| {
        let client = exchange.client.replace("{{cursor}}", &cursor);
        let shown = expected["exchanges"][at]["client"].as_str().unwrap_or_default();
        if let Some(next) = vectors::cursor(shown) {
            cursor = next;
        }
        Exchange { client, upstream: exchange.upstream }
    });
    Case { policy: case.policy, exchanges: exchanges.collect() }
}

/// Runs a case over HTTP through the guard at `url` before `upstream`.
fn over_http(case: &Case, url: &str, upstream: &ScriptedServer) -> Result<Vec<Value>> {
    let agent = agent();
    let mut exchanges = Vec::new();
    for exchange in &case.exchanges {
        upstream.requests().clear();
        let answer = exchange.upstream.as_deref().unwrap_or_default();
        upstream.push(if answer.is_empty() {
            ScriptedResponse::empty(202)
        } else {
            ScriptedResponse::json(answer)
        });
        let request = agent.post(format!("{url}/mcp")).header("content-type", "application/json");
        let client = request.send(exchange.client.as_bytes())?.into_body().read_to_string()?;
        let as_is = |same: bool, text: String| if same { "as it came".to_owned() } else { text };
        let asked = upstream.requests().first().map(|request| request.body.clone());
        let onward = match asked {
            Some(body) => {
                let same = body == exchange.client.as_bytes();
                as_is(same, String::from_utf8(body)?).into()
            }
            None => {
                // The guard answered. The prepared response of the upstream must not serve the next
                // exchange.
                upstream.clear();
                Value::Null
            }
        };
        let client = as_is(!onward.is_null() && client == answer, client);
        exchanges.push(json!({"upstream": onward, "client": client, "record": Value::Null}));
    }
    Ok(exchanges)
}

#[test]
fn filter_in_a_real_envoy() -> Result<()> {
    let names: Vec<PathBuf> = cases()?;
    let upstreams: Vec<ScriptedServer> =
        names.iter().map(|_| ScriptedServer::start()).collect::<Result<_>>()?;
    let listeners = names.iter().zip(&upstreams).map(|(path, upstream)| {
        let config = json!({"policy": read(path)?.policy, "principal": "tester", "nowMs": NOW_MS});
        // Each case has its own shared data.
        let vm_id = path.display().to_string();
        Ok(Listener { vm_id, ..Listener::before(upstream.address, config)? })
    });
    let envoy = Envoy::start(&listeners.collect::<Result<Vec<_>>>()?, 1)?;
    let mut at = 0;
    agree("envoy", |_, case| {
        let mut exchanges = over_http(case, &envoy.url(at)?, &upstreams[at])?;
        let records = envoy.records(at, case.exchanges.len())?;
        for (exchange, record) in exchanges.iter_mut().zip(records) {
            exchange["record"] = record.unwrap_or_default();
        }
        at += 1;
        Ok(json!({"exchanges": exchanges}))
    })?;
    envoy.is_alive()
}

fn external_processor(form: &str, bodies: Bodies) -> Result<()> {
    let mut guards = Vec::new();
    let mut upstreams = Vec::new();
    for path in cases()? {
        guards.push(VectorGuard::start(&read(&path)?.policy)?);
        upstreams.push(ScriptedServer::start()?);
    }
    let listeners = guards
        .iter()
        .zip(&upstreams)
        .map(|(guard, upstream)| ProcessedListener::new(upstream.address, guard.address, bodies));
    let envoy = envoy_with(&listeners.collect::<Vec<_>>())?;
    let mut at = 0;
    agree(form, |_, case| {
        let exchanges = over_http(case, &envoy.url(at)?, &upstreams[at])?;
        let stored = guards[at].store.all().into_iter();
        let stored = stored.map(|(key, value)| (key, STANDARD.encode(value).into()));
        at += 1;
        Ok(json!({"exchanges": exchanges, "stored": stored.collect::<serde_json::Map<_, _>>()}))
    })?;
    envoy.is_alive()
}

#[test]
fn external_processor_of_full_duplex_bodies() -> Result<()> {
    external_processor("ext-proc duplex", Bodies::FullDuplex)
}

#[test]
fn external_processor_of_bodies_on_demand() -> Result<()> {
    external_processor("ext-proc on demand", Bodies::OnDemand)
}

fn middleware(form: &str, composition: &str) -> Result<()> {
    let upstream = ScriptedServer::start()?;
    let served = Served::start(composition, &upstream.url(), &json!({}), Some(NOW_MS))?;
    agree(form, |_, case| {
        let config = json!({"policy": case.policy, "principal": "tester"});
        served.begin_anew(&upstream.url(), &config)?;
        let exchanges = over_http(case, &served.url, &upstream)?;
        let stored =
            served.stored()?.into_iter().map(|(key, value)| (key, STANDARD.encode(value).into()));
        Ok(json!({"exchanges": exchanges, "stored": stored.collect::<serde_json::Map<_, _>>()}))
    })
}

#[test]
fn middleware_of_wasi_0_2() -> Result<()> {
    middleware("http 0.2", "context-guard-http-p2.wasm")
}

#[test]
fn middleware_of_wasi_0_3() -> Result<()> {
    middleware("http 0.3", "context-guard-http-p3-proxy.wasm")
}

/// Runs all cases in a JavaScript program.
fn javascript(form: &str, script: &str) -> Result<()> {
    let folder = peers::folder(&format!("vectors-{form}"))?;
    let mut all = serde_json::Map::new();
    for path in cases()? {
        let case = read(&path)?;
        let expected = native(&case)?;
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let case = resolved(case, &expected);
        let exchanges: Vec<Value> = case
            .exchanges
            .iter()
            .map(|exchange| json!({"client": exchange.client, "upstream": exchange.upstream}))
            .collect();
        all.insert(
            name.to_owned(),
            json!({"policy": case.policy.to_string(), "exchanges": exchanges}),
        );
    }
    let file = folder.join("cases.json");
    let key = std::str::from_utf8(SIGNING_KEY)?;
    std::fs::write(&file, json!({"cases": all, "key": key, "now": NOW_MS}).to_string())?;
    let done = Command::new(artifacts::node()?)
        .arg(artifacts::root().join("tests/support/browser").join(script))
        .arg(artifacts::dist("npm/context-guard")?)
        .arg(&file)
        .env("PEERS", artifacts::peers()?)
        .output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout)?;
    agree(form, |name, _| Ok(found[name].clone()))
}

#[test]
fn npm_package_in_node() -> Result<()> {
    javascript("node", "node.mjs")
}

#[test]
fn npm_package_in_chromium() -> Result<()> {
    javascript("chromium", "chromium-vectors.mjs")
}

#[test]
fn every_expectation_has_a_case() -> Result<()> {
    for file in std::fs::read_dir(artifacts::root().join("tests/vectors"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if let Some(case) = name.strip_suffix(".expected.json") {
            ensure!(
                artifacts::root().join(format!("tests/vectors/{case}.json")).is_file(),
                "{name} has no case"
            );
        }
    }
    Ok(())
}
