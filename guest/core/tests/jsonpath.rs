//! The compliance test suite of JSONPath (RFC 9535): `tests/compliance/jsonpath.json`.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

use std::path::Path as FilePath;

use anyhow::{Context as _, Result, ensure};
use context_guard_core::json::outline::Outline;
use context_guard_core::json::text::Form;
use context_guard_core::query::path::Path;
use serde_json::Value;

/// Invalid selectors that are accepted: a name may contain any digits, as in `items.0.id`.
const ACCEPTED: [&str; 1] = ["basic, name shorthand, number"];
/// Valid selectors that are refused: the engine has no Unicode classes such as `\p{Lu}`.
const DIFFERENT: [&str; 4] = [
    "functions, match, filter, match function, unicode char class, uppercase",
    "functions, match, filter, match function, unicode char class negated, uppercase",
    "functions, search, filter, search function, unicode char class, uppercase",
    "functions, search, filter, search function, unicode char class negated, uppercase",
];

fn results(test: &Value) -> Result<Value, String> {
    let selector = test["selector"].as_str().unwrap_or_default();
    let path = Path::parse(selector)?;
    let document = test["document"].to_string();
    let outline = Outline::parse(document.as_bytes(), Form::Raw, &(0..document.len()))
        .map_err(|error| format!("{error:?}"))?;
    let nodes = path.follow(&outline, 0)?;
    let values = nodes.into_iter().filter_map(|id| {
        let raw = outline.raw(outline.node(id)?);
        serde_json::from_slice::<Value>(&raw).ok()
    });
    Ok(values.collect())
}

#[test]
fn compliance_tests_pass() -> Result<()> {
    let file = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/compliance/jsonpath.json");
    let suite: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let tests = suite["tests"].as_array().context("no tests")?;
    let (mut passed, mut accepted, mut different) = (0, Vec::new(), Vec::new());
    for test in tests {
        let name = test["name"].as_str().unwrap_or_default();
        let found = results(test);
        let is_valid = test["invalid_selector"] != true;
        let is_right = match &found {
            Err(_) => !is_valid,
            Ok(found) => {
                let allowed = test["results"].as_array().into_iter().flatten();
                allowed.chain(test.get("result")).any(|allowed| allowed == found)
            }
        };
        match (is_right, is_valid) {
            (true, _) => passed += 1,
            (false, true) => different.push((name, found)),
            (false, false) => accepted.push(name),
        }
    }
    ensure!(accepted == ACCEPTED, "accepted: {accepted:#?}");
    let names: Vec<_> = different.iter().map(|(name, _)| *name).collect();
    ensure!(names == DIFFERENT, "different: {different:#?}");
    ensure!(different.iter().all(|(_, found)| found.is_err()), "{different:#?}");
    ensure!(tests.len() == 703 && passed == 703 - ACCEPTED.len() - DIFFERENT.len(), "{passed}");
    Ok(())
}
