//! Quality of shaped payloads: tokens before and after, budgets, validity, and recall of key facts,
//! compared with the crate `shrinkfit` at the same token cost.
//!
//! `cargo xtask bench quality [--corpus DIR]` runs this.
//!
//! A payload is the text of a tool result (`DIR/payloads/CLASS/*`) or a captured message
//! (`DIR/mcp-captures/*.json`). The default is the captures of the tests.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench prints its table, and reads JSON that it made"
)]

mod key_facts;
mod payloads;
mod report;
mod shrinkfit;

use anyhow::{Context, Result, ensure};
use context_guard_test_support::answer::{Answer, o200k};
use context_guard_test_support::guards::NativeGuard;
use context_guard_test_support::walk;
use key_facts::KeyFacts;
use payloads::Payload;
use report::{Report, Sample};
use serde_json::json;

fn main() -> Result<()> {
    let corpus = std::env::var_os("CONTEXT_GUARD_CORPUS").map(std::path::PathBuf::from);
    let budgets =
        std::env::var("CONTEXT_GUARD_BENCH_BUDGETS").unwrap_or_else(|_| "4000,1000".to_owned());
    let payloads = payloads::read(corpus.as_deref())?;
    println!("{}", key_facts::NOTE);
    let (mut reports, mut passed) = (Vec::new(), true);
    for budget in budgets.split(',') {
        let budget: u64 =
            budget.trim().parse().with_context(|| format!("{budget} is not a number of tokens"))?;
        let mut report = Report::new(budget);
        for payload in &payloads {
            report.add(measure(payload, budget).with_context(|| payload.name.clone())?);
        }
        println!("{}", report.markdown());
        passed &= report.passes();
        reports.push(report.json());
    }
    let folder = context_guard_test_support::artifacts::root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("quality.json");
    std::fs::write(
        &file,
        serde_json::to_string_pretty(
            &json!({"files": payloads.len(), "note": key_facts::NOTE, "budgets": reports}),
        )? + "\n",
    )?;
    eprintln!("written to {}", file.display());
    ensure!(
        passed,
        "an answer exceeds its budget or is invalid, or an original was not stored: see the table"
    );
    Ok(())
}

/// Shapes a payload, and measures the result.
fn measure(payload: &Payload, budget: u64) -> Result<Sample> {
    let policy = json!({"tokenBudgetThreshold": budget, "summaryThreshold": budget.max(500), "hardCap": budget.max(12_000)});
    let host = NativeGuard::with_policy(&policy.to_string())?;
    let before = Answer::read(&payload.message)?.tokens();
    let shaped = walk::shape(&host, "t", &json!({}), &payload.message)?;
    let answer = Answer::read(shaped.as_deref().unwrap_or(&payload.message))?;
    let after = answer.tokens();
    // White space is not significant in JSON, so JSON is compared without it.
    let texts: Vec<String> = answer.all_texts().into_iter().map(minified).collect();
    let shown = texts.join("\n");
    let text_tokens = answer.all_texts().iter().map(|text| o200k(text)).sum();
    if std::env::var("CONTEXT_GUARD_BENCH_SHOW").is_ok_and(|name| payload.name.contains(&name)) {
        eprintln!("{}\n{shown}\n", payload.name);
    }
    let key_facts = KeyFacts::find(&payload.text);
    let metadata = answer.metadata();
    // The store must hold the original of a shaped answer, byte for byte.
    let recovered =
        shaped.is_none() || walk::snapshots(&host)?.iter().any(|bytes| payload.contains(bytes));
    let valid = shaped.is_none()
        || payload.json.is_none()
        || answer.texts().iter().all(|text| is_whole(text, metadata));
    let over = before > budget;
    let shrinkfit = over
        .then_some(payload.json.as_ref())
        .flatten()
        .map(|json| shrinkfit::best(json, text_tokens, &key_facts));
    if std::env::var_os("CONTEXT_GUARD_BENCH_FILES").is_some() && over {
        let other = shrinkfit.as_ref().map_or(0, |other| other.recalled);
        eprintln!(
            "{}\t{budget}\t{before}\t{after}\t{}\t{}/{}\tshrinkfit {other}\t{}{}",
            payload.name,
            metadata["kind"].as_str().unwrap_or("whole"),
            key_facts.recalled_by(&shown),
            key_facts.len(),
            if recovered { "" } else { "NOT RECOVERED " },
            if after > budget { "OVER" } else { "" },
        );
    }
    Ok(Sample {
        class: payload.class.clone(),
        before,
        after,
        over,
        within: after <= budget,
        valid,
        recovered,
        key_facts: key_facts.len(),
        recalled: key_facts.recalled_by(&shown),
        text_tokens,
        loss: metadata["loss"].as_str().unwrap_or("none").to_owned(),
        shrinkfit,
    })
}

/// Returns true if a text of a JSON answer is JSON, or is labelled as a part of it.
fn is_whole(text: &str, metadata: &serde_json::Value) -> bool {
    matches!(metadata["kind"].as_str(), Some("chunk" | "part"))
        || serde_json::from_str::<serde_json::Value>(text).is_ok()
}

fn minified(text: String) -> String {
    if serde_json::from_str::<serde_json::Value>(&text).is_err() {
        return text;
    }
    String::from_utf8(context_guard_core::fields::minify(text.as_bytes())).unwrap_or(text)
}

/// Counts the tokens of a text.
fn tokens(text: &str) -> u64 {
    o200k(text)
}
