//! What is left of real payloads: tokens before and after, whether the budget held, which needles stayed, what was lost; and the crate `shrinkfit` at the same token cost
//! beside it. Run by `cargo xtask bench quality [--corpus DIR]`.
//!
//! A payload is a tool result as text (`DIR/payloads/CLASS/*`) or a captured message (`DIR/mcp-captures/*.json`). Without a folder, the captures of the tests are used.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench prints its table, and reads JSON that it made"
)]

mod needles;
mod payloads;
mod peer;
mod report;

use anyhow::{Context, Result, ensure};
use context_guard_test_support::answer::{Answer, o200k};
use context_guard_test_support::guards::NativeGuard;
use context_guard_test_support::walk;
use needles::Needles;
use payloads::Payload;
use report::{Report, Sample};
use serde_json::json;

fn main() -> Result<()> {
    let corpus = std::env::var_os("CONTEXT_GUARD_CORPUS").map(std::path::PathBuf::from);
    let budgets =
        std::env::var("CONTEXT_GUARD_BENCH_BUDGETS").unwrap_or_else(|_| "4000,1000".to_owned());
    let payloads = payloads::read(corpus.as_deref())?;
    let (mut reports, mut held) = (Vec::new(), true);
    for budget in budgets.split(',') {
        let budget: u64 =
            budget.trim().parse().with_context(|| format!("{budget} is no budget"))?;
        let mut report = Report::new(budget);
        for payload in &payloads {
            report.add(measure(payload, budget).with_context(|| payload.name.clone())?);
        }
        println!("{}", report.markdown());
        held &= report.holds();
        reports.push(report.json());
    }
    let folder = context_guard_test_support::artifacts::root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("quality.json");
    std::fs::write(
        &file,
        serde_json::to_string_pretty(&json!({"files": payloads.len(), "budgets": reports}))? + "\n",
    )?;
    eprintln!("written: {}", file.display());
    ensure!(
        held,
        "a budget did not hold, an answer is not valid, or an original is not kept: see the table"
    );
    Ok(())
}

/// Shapes a payload, and looks at what is left of it.
fn measure(payload: &Payload, budget: u64) -> Result<Sample> {
    let policy = json!({"tokenBudgetThreshold": budget, "summaryThreshold": budget.max(500), "hardCap": budget.max(12_000)});
    let host = NativeGuard::with_policy(&policy.to_string())?;
    let before = Answer::read(&payload.message)?.tokens();
    let shaped = walk::shape(&host, "t", &json!({}), &payload.message)?;
    let answer = Answer::read(shaped.as_deref().unwrap_or(&payload.message))?;
    let after = answer.tokens();
    // White space is no needle: what is JSON is compared without it.
    let texts: Vec<String> = answer.all_texts().into_iter().map(minified).collect();
    let shown = texts.join("\n");
    let text_tokens = answer.all_texts().iter().map(|text| o200k(text)).sum();
    if std::env::var("CONTEXT_GUARD_BENCH_SHOW").is_ok_and(|name| payload.name.contains(&name)) {
        eprintln!("{}\n{shown}\n", payload.name);
    }
    let needles = Needles::of(&payload.text);
    let contract = answer.metadata();
    // Whatever was shaped must lead to all of it: the store holds the original, byte for byte.
    let recovered =
        shaped.is_none() || walk::original(&host)?.iter().any(|kept| payload.holds(kept));
    let valid = shaped.is_none()
        || payload.json.is_none()
        || answer.texts().iter().all(|text| is_whole(text, contract));
    let over = before > budget;
    let peer = over
        .then_some(payload.json.as_ref())
        .flatten()
        .map(|json| peer::best(json, text_tokens, &needles));
    if std::env::var_os("CONTEXT_GUARD_BENCH_FILES").is_some() && over {
        let kept = peer.as_ref().map_or(0, |peer| peer.kept);
        eprintln!(
            "{}\t{budget}\t{before}\t{after}\t{}\t{}/{}\tpeer {kept}\t{}{}",
            payload.name,
            contract["kind"].as_str().unwrap_or("whole"),
            needles.kept(&shown),
            needles.len(),
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
        needles: needles.len(),
        kept: needles.kept(&shown),
        text_tokens,
        loss: contract["loss"].as_str().unwrap_or("none").to_owned(),
        peer,
    })
}

/// Whether a text of a JSON answer is JSON, or says that it is a piece of it.
fn is_whole(text: &str, contract: &serde_json::Value) -> bool {
    matches!(contract["kind"].as_str(), Some("chunk" | "part"))
        || serde_json::from_str::<serde_json::Value>(text).is_ok()
}

fn minified(text: String) -> String {
    if serde_json::from_str::<serde_json::Value>(&text).is_err() {
        return text;
    }
    String::from_utf8(context_guard_core::shape::lossless::minify(text.as_bytes())).unwrap_or(text)
}

/// Real tokens of a text.
fn tokens(text: &str) -> u64 {
    o200k(text)
}
