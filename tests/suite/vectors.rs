//! Golden vectors, through the native core and the component: the same bytes, the same records, the same store. See tests/vectors/README.md.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_test_support::answer::Answer;
use context_guard_test_support::guards::{Host, KEY, NOW, Native, Verdict, Wasm, component};
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    policy: Value,
    exchanges: Vec<Exchange>,
}

#[derive(Deserialize)]
struct Exchange {
    client: String,
    upstream: Option<String>,
}

fn cases() -> Result<Vec<PathBuf>> {
    let folder = artifacts::root().join("tests/vectors");
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder)?.filter_map(|file| Some(file.ok()?.path())).collect();
    cases.retain(|path| {
        path.extension().is_some_and(|ending| ending == "json")
            && !path.display().to_string().ends_with(".expected.json")
    });
    cases.sort();
    ensure!(cases.len() >= 20, "{} vectors", cases.len());
    Ok(cases)
}

fn read(path: &Path) -> Result<Case> {
    serde_json::from_slice(&std::fs::read(path)?).with_context(|| path.display().to_string())
}

/// What comes of a case.
fn outcome(case: &Case, host: &dyn Host) -> Result<Value> {
    let (mut cursor, mut exchanges) = (String::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for exchange in &case.exchanges {
        let request = exchange.client.replace("{{cursor}}", &cursor);
        let (to_upstream, to_client, record) = match host.request(request.as_bytes())? {
            Verdict::Answer(answer, record) => (Value::Null, text(&answer), Some(record)),
            Verdict::Forward(changed, ticket) => {
                let upstream = exchange.upstream.as_deref().unwrap_or_default();
                let to_upstream =
                    changed.map_or(json!("as it came"), |changed| text(&changed).into());
                if ticket.is_empty() {
                    (to_upstream, "as it came".to_owned(), None)
                } else {
                    let (changed, record) = host.response(&ticket, upstream.as_bytes())?;
                    (
                        to_upstream,
                        changed.map_or("as it came".to_owned(), |changed| text(&changed)),
                        Some(record),
                    )
                }
            }
        };
        if let Some(next) =
            Answer::read(to_client.as_bytes()).ok().and_then(|answer| answer.cursor())
        {
            cursor = next;
        }
        exchanges.push(json!({"upstream": to_upstream, "client": to_client, "record": record}));
    }
    let stored: serde_json::Map<_, _> = host
        .stored()
        .into_iter()
        .map(|(key, value)| (key, STANDARD.encode(value).into()))
        .collect();
    Ok(json!({"exchanges": exchanges, "stored": stored}))
}

fn native(case: &Case) -> Result<Value> {
    outcome(case, &Native::new(&case.policy.to_string(), "tester", NOW, &[KEY])?)
}

fn wasm(case: &Case) -> Result<Value> {
    outcome(case, &Wasm::new(component()?, &case.policy.to_string(), "tester", NOW, &[KEY])?)
}

/// The first place where two outcomes differ, for people.
fn differ(path: &Path, expected: &Value, found: &Value) -> Result<()> {
    let (expected, found) =
        (serde_json::to_string_pretty(expected)?, serde_json::to_string_pretty(found)?);
    let line = expected
        .lines()
        .zip(found.lines())
        .position(|(left, right)| left != right)
        .unwrap_or_default();
    ensure!(
        expected == found,
        "{}, line {}:\n- {:?}\n+ {:?}",
        path.display(),
        line + 1,
        expected.lines().nth(line),
        found.lines().nth(line)
    );
    Ok(())
}

#[test]
fn native_core() -> Result<()> {
    for path in cases()? {
        let found = native(&read(&path)?)?;
        let file = path.with_extension("expected.json");
        if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
            std::fs::write(&file, serde_json::to_string_pretty(&found)? + "\n")?;
        }
        let expected = std::fs::read(&file).with_context(|| {
            format!("{} is missing: `cargo xtask docs` writes it", file.display())
        })?;
        differ(&path, &serde_json::from_slice(&expected)?, &found)?;
    }
    Ok(())
}

#[test]
fn component_in_wasmtime() -> Result<()> {
    for path in cases()? {
        let case = read(&path)?;
        let (native, wasm) = (native(&case)?, wasm(&case)?);
        differ(&path, &native, &wasm)?;
        ensure!(native.to_string() == wasm.to_string());
    }
    Ok(())
}

#[test]
fn every_expectation_belongs_to_a_case() -> Result<()> {
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
