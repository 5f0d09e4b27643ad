//! Golden vectors: the cases, their outcomes and their comparison. See `tests/vectors/README.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::guard::{NOW_MS, NativeGuard, SIGNING_KEY, TestGuard, Verdict};

/// A golden vector's input.
#[derive(Deserialize)]
pub struct Case {
    /// The policy.
    pub policy: Value,
    /// The exchanges, in order.
    pub exchanges: Vec<Exchange>,
}

/// A client's message, and the upstream's reply if the guard forwards it.
#[derive(Deserialize)]
pub struct Exchange {
    /// The client's message; `{{cursor}}` is replaced by the last answer's cursor.
    pub client: String,
    /// The upstream's reply.
    pub upstream: Option<String>,
}

/// Returns the folder of the vectors.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

/// Lists the files of all cases, sorted.
///
/// # Errors
/// Fails if the folder cannot be read or most of the cases are missing.
pub fn cases() -> Result<Vec<PathBuf>> {
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder())?.filter_map(|file| Some(file.ok()?.path())).collect();
    cases.retain(|path| {
        path.extension().is_some_and(|extension| extension == "json")
            && !path.display().to_string().ends_with(".expected.json")
    });
    cases.sort();
    ensure!(cases.len() >= 20, "{} vectors", cases.len());
    Ok(cases)
}

/// Reads a case.
///
/// # Errors
/// Fails if the file cannot be read or is no case.
pub fn read(path: &Path) -> Result<Case> {
    serde_json::from_slice(&std::fs::read(path)?).with_context(|| path.display().to_string())
}

/// Returns the cursor of an answer: the one to the next part, or else the one to the whole.
#[must_use]
pub fn cursor(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let contract = &answer["result"]["_meta"]["dev.context-guard/result"];
    Some(contract.get("nextCursor").or(contract.get("cursor"))?.as_str()?.to_owned())
}

/// Runs a case through a guard. The result has the form of an `.expected.json` file.
///
/// # Errors
/// Fails if the guard fails.
pub fn outcome(case: &Case, host: &dyn TestGuard) -> Result<Value> {
    let (mut last_cursor, mut exchanges) = (String::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let or_unchanged =
        |message: Option<Vec<u8>>| message.map_or("as it came".to_owned(), |bytes| text(&bytes));
    for exchange in &case.exchanges {
        let request = exchange.client.replace("{{cursor}}", &last_cursor);
        let (to_upstream, to_client, record) = match host.request(request.as_bytes())? {
            Verdict::Answer(answer, record) => (Value::Null, text(&answer), Some(record)),
            Verdict::Forward(changed, ticket) => {
                let to_upstream = or_unchanged(changed).into();
                if ticket.is_empty() {
                    (to_upstream, or_unchanged(None), None)
                } else {
                    let upstream = exchange.upstream.as_deref().unwrap_or_default();
                    let (changed, record) = host.response(&ticket, upstream.as_bytes())?;
                    (to_upstream, or_unchanged(changed), Some(record))
                }
            }
        };
        if let Some(next) = cursor(&to_client) {
            last_cursor = next;
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

/// Runs a case through the native core.
///
/// # Errors
/// Fails if the policy is invalid or the guard fails.
pub fn native(case: &Case) -> Result<Value> {
    let guard = NativeGuard::new(&case.policy.to_string(), "tester", NOW_MS, &[SIGNING_KEY])?;
    outcome(case, &guard.listing_tools())
}

/// Compares two outcomes.
///
/// # Errors
/// Fails if they differ; the error shows the first line that does.
pub fn compare(path: &Path, expected: &Value, found: &Value) -> Result<()> {
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

/// Compares the native core's outcome of every case with its `.expected.json` file.
///
/// # Errors
/// Fails if a case fails or differs; the error lists all of them.
pub fn check_native() -> Result<()> {
    let mut failures = Vec::new();
    for path in cases()? {
        let check = || {
            let file = path.with_extension("expected.json");
            let expected = std::fs::read(&file).with_context(|| {
                format!("{} is missing: `cargo xtask generate` writes it", file.display())
            })?;
            compare(&path, &serde_json::from_slice(&expected)?, &native(&read(&path)?)?)
        };
        failures.extend(check().err().map(|error| format!("{error:#}")));
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Writes the native core's outcome of every case to its `.expected.json` file.
///
/// # Errors
/// Fails if a case fails or a file cannot be written.
pub fn write_expected() -> Result<()> {
    for path in cases()? {
        let outcome = serde_json::to_string_pretty(&native(&read(&path)?)?)? + "\n";
        std::fs::write(path.with_extension("expected.json"), outcome)?;
    }
    Ok(())
}
