//! First answers: how much of their budget they use, whether every one fits, and how much of what
//! is known to matter they have.
//!
//! `cargo xtask bench answers --payloads DIR [--questions FILE]` runs this. A payload `NAME` may
//! have a file `NAME.expected` beside it: HTML or text with the words that its reader needs, of
//! which the first 400 count. They count if the answer has four of them in the same order.
//!
//! A file of questions is a JSON list. Each question has the name of its payload, the words of its
//! answer and, if it helps, the arguments of a read:
//! `{"payload": "a.json", "question": "How many?", "answer": ["3"], "follow": {"grep": "x"}}`.
//! It is answered if all words are shown.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench prints its table, and reads JSON that it made"
)]

mod expected;
mod guard;
mod other;
mod payload;
mod questions;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use guard::{Answer, Client, Contents};
use payload::Payload;
use questions::{Questions, Score, plain};
use serde_json::json;

/// The name of the environment variable that prints the first answers and reads of payloads whose
/// file name contains its value.
const SHOW: &str = "CONTEXT_GUARD_BENCH_SHOW";
/// The maximum number of parts that are read after a first answer.
const MAX_LATER_PARTS: usize = 4;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments
        .next()
        .map(PathBuf::from)
        .context("a folder of payloads is required: bench-answers DIR [BUDGET [QUESTIONS]]")?;
    let budget = arguments.next().map_or(Ok(4000), |budget| {
        let budget = budget.to_string_lossy().into_owned();
        budget.parse::<u64>().with_context(|| format!("{budget} is not a number of tokens"))
    })?;
    let questions = arguments.next().map(|file| Questions::read(file.as_ref())).transpose()?;
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let show = std::env::var(SHOW).ok();
    let (mut uses, mut over, mut shaped, mut shares) = (Vec::new(), 0, 0, Vec::new());
    let mut later_uses = Vec::new();
    for payload in Payload::read_all(&folder)? {
        let contents = Contents::possible(&payload);
        for content in contents {
            let client = Client::new(budget)?;
            let before = content.tokens(&payload);
            let answer = client.first(&payload, content).with_context(|| payload.name.clone())?;
            let after = answer.tokens();
            let kind = answer.kind();
            if let Some(show) = &show
                && payload.name.contains(show.as_str())
            {
                println!("{} {content:?}\n{}\n", payload.name, answer.shown());
            }
            if let Some(expected) = &payload.expected {
                shares.push(expected::share(expected, &answer.shown()));
            }
            if let Some(questions) = &questions {
                let score = scores.entry(content.name()).or_default();
                ask(score, &payload, questions, &client, &answer)?;
            }
            if kind == "whole" {
                continue;
            }
            shaped += 1;
            over += u64::from(after > budget);
            let used = after as f64 / budget as f64;
            uses.push(used);
            let planned = answer.planned(budget);
            let later = later_parts(&client, answer)?;
            over += later.iter().filter(|part| part.tokens() > budget).count() as u64;
            let continued = later.iter().filter(|part| part.has_next());
            let later: Vec<f64> =
                continued.map(|part| part.tokens() as f64 / budget as f64).collect();
            let shown: String = later.iter().map(|used| format!(" {used:.2}")).collect();
            later_uses.extend(later);
            if show.is_none() {
                println!(
                    "{used:.2} {planned:.2} {before:>8} {after:>6} {kind:<12} {:<6} {}{shown}",
                    content.name(),
                    payload.name
                );
            }
        }
    }
    println!("{shaped} reduced; used of the budget: {}; over budget: {over}", quantiles(uses));
    println!(
        "{} later parts with more behind them; used of the budget: {}",
        later_uses.len(),
        quantiles(later_uses)
    );
    if !shares.is_empty() {
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let most = shares.iter().filter(|share| **share >= 0.8).count();
        println!(
            "{} with expected words: {:.3} of them on average, at least 0.8 in {most}",
            shares.len(),
            mean
        );
    }
    for (contents, score) in scores {
        score.print(contents);
    }
    ensure!(over == 0, "{over} answers exceed the budget");
    Ok(())
}

/// Returns the least value, and the values below which a tenth, a quarter and half of all are.
fn quantiles(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
    };
    format!(
        "least {:.2}, tenth {:.2}, quarter {:.2}, median {:.2}",
        at(0.0),
        at(0.1),
        at(0.25),
        at(0.5)
    )
}

/// Reads the next parts after an answer, at most [`MAX_LATER_PARTS`].
fn later_parts(client: &Client, answer: Answer) -> Result<Vec<Answer>> {
    let (mut parts, mut last) = (Vec::new(), answer);
    while parts.len() < MAX_LATER_PARTS
        && last.has_next()
        && let Some(next) = client.read(&last, &json!({}))?
    {
        parts.push(std::mem::replace(&mut last, next));
    }
    parts.push(last);
    Ok(parts.split_off(1))
}

/// Asks all questions about a payload, and prints those that the first answer does not answer.
fn ask(
    score: &mut Score,
    payload: &Payload,
    questions: &Questions,
    client: &Client,
    answer: &Answer,
) -> Result<()> {
    let questions = questions.about(&payload.name);
    if questions.is_empty() {
        return Ok(());
    }
    let (shown, tokens) = (plain(&answer.shown()), answer.tokens());
    let cut = plain(other::cut(&payload.text, tokens));
    let shrunk: Vec<String> =
        other::shrunk(&payload.text, tokens).iter().map(|text| plain(text)).collect();
    for question in questions {
        score.asked += 1;
        score.cut += u32::from(question.missing(&cut).is_empty());
        score.shrunk += u32::from(shrunk.iter().any(|shrunk| question.missing(shrunk).is_empty()));
        let missing = question.missing(&shown);
        if missing.is_empty() {
            score.first += 1;
            score.follow += 1;
            continue;
        }
        // Without a read that answers it, the next part is read.
        let arguments = question.follow.clone().unwrap_or_else(|| json!({}));
        let read = client.read(answer, &arguments)?;
        if std::env::var(SHOW).is_ok_and(|show| payload.name.contains(&show))
            && let Some(read) = &read
        {
            println!("{arguments}\n{}\n", read.shown());
        }
        let read = read.map(|read| plain(&read.shown())).unwrap_or_default();
        let still = question.missing(&read);
        let both = format!("{shown} {read}");
        let is_answered = question.missing(&both).is_empty();
        score.follow += u32::from(is_answered);
        println!(
            "  not answered{}: {} {:?} {still:?}",
            if is_answered { " at first" } else { "" },
            question.question,
            missing
        );
    }
    Ok(())
}
