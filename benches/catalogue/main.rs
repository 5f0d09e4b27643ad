//! Quality of tool search: recall of labelled queries, next to the crate `bm25` with English stems
//! and to FastMCP's search.
//!
//! `cargo xtask bench catalogue --catalogue DIR` runs this. DIR has `NAME.tools.jsonl` and
//! `NAME.jsonl` files; `data.rs` describes them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::panic,
    reason = "a bench prints its table, and reads data that it made"
)]

mod data;
mod metrics;
mod rankers;
mod slips;
mod time;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::{Context, Result};
use context_guard_catalogue::index::Settings;
use data::{Data, QuerySet};
use metrics::{Metrics, evaluate, mean, recall};
use rankers::{Guard, Ranker, StemmedBm25};

/// The name of a ranker, and the ranker of each catalogue.
type NamedRankers<'d> = (&'static str, HashMap<&'d str, Box<dyn Ranker>>);

/// The number of resamples of the paired bootstrap.
const RESAMPLES: usize = 2_000;

fn main() -> Result<()> {
    let folder = std::env::var_os("CONTEXT_GUARD_CATALOGUE")
        .map(PathBuf::from)
        .context("no catalogues: run cargo xtask bench catalogue --catalogue DIR")?;
    let data = data::read(&folder)?;
    let python = std::env::var_os("CONTEXT_GUARD_FASTMCP_PYTHON").map(PathBuf::from);
    let names: BTreeSet<&str> = data.sets.iter().map(|set| set.catalogue.as_str()).collect();
    let mut rankers: Vec<NamedRankers<'_>> = Vec::new();
    for ranker in ["guard", "guard, split queries", "bm25, stemmed", "FastMCP"] {
        let mut all: HashMap<&str, Box<dyn Ranker>> = HashMap::new();
        for name in &names {
            let tools = &data.catalogues[*name];
            let guard = |splits| {
                let index = rankers::compile(tools, &Settings::default());
                Box::new(Guard { index, splits }) as Box<dyn Ranker>
            };
            let ranker: Box<dyn Ranker> = match (ranker, &python) {
                ("guard", _) => guard(false),
                ("guard, split queries", _) => guard(true),
                ("bm25, stemmed", _) => Box::new(StemmedBm25::new(tools)),
                (_, Some(python)) => Box::new(rankers::fastmcp(python, &data, name)?),
                (_, None) => continue,
            };
            all.insert(name, ranker);
        }
        if !all.is_empty() {
            rankers.push((ranker, all));
        }
    }
    print_sets(&data, &rankers);
    slips::print(&data);
    time::print(&data);
    Ok(())
}

fn ranked<'d>(data: &'d Data, set: &QuerySet, ranker: &dyn Ranker) -> Vec<Vec<&'d str>> {
    let tools = &data.catalogues[&set.catalogue];
    let ids = |query: &str| ranker.rank(query).into_iter().map(|at| tools[at].id.as_str());
    set.queries.iter().map(|query| ids(&query.query).collect()).collect()
}

fn print_sets(data: &Data, rankers: &[NamedRankers<'_>]) {
    println!("| set | queries | tools | ranker | recall@1 | @5 | @10 | nDCG@10 | complete@10 |");
    println!("|---|--:|--:|---|--:|--:|--:|--:|--:|");
    let mut sums: Vec<Vec<Metrics>> = vec![Vec::new(); rankers.len()];
    let mut fives: Vec<Vec<Vec<f64>>> = vec![Vec::new(); rankers.len()];
    for set in &data.sets {
        for (at, (name, rankers)) in rankers.iter().enumerate() {
            let found = ranked(data, set, rankers[set.catalogue.as_str()].as_ref());
            let metrics = evaluate(&found, &set.queries);
            let tools = data.catalogues[&set.catalogue].len();
            let set_columns = format!("{} | {} | {tools}", set.name, set.queries.len());
            println!("| {set_columns} | {name} | {} |", columns(&metrics));
            sums[at].push(metrics);
            let each = found.iter().zip(&set.queries).map(|(found, query)| recall(found, query, 5));
            fives[at].push(each.collect());
        }
    }
    for ((name, _), sums) in rankers.iter().zip(&sums) {
        println!("| mean of sets | | | {name} | {} |", columns(&mean(sums)));
    }
    for (at, (name, _)) in rankers.iter().enumerate().skip(1) {
        let (low, high) = bootstrap(&fives[0], &fives[at]);
        println!("\nguard minus {name}, mean recall@5, 95 % interval: {low:+.3} to {high:+.3}");
    }
}

fn columns(metrics: &Metrics) -> String {
    let Metrics { recall_1, recall_5, recall_10, ndcg_10, complete_10 } = metrics;
    format!("{recall_1:.3} | {recall_5:.3} | {recall_10:.3} | {ndcg_10:.3} | {complete_10:.3}")
}

/// Returns the 95 % interval of the difference of means, by resampling the queries of each set.
fn bootstrap(ours: &[Vec<f64>], others: &[Vec<f64>]) -> (f64, f64) {
    let mut random = slips::Random::new(1);
    let mut differences: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sets = ours.iter().zip(others).map(|(ours, others)| {
                let sum: f64 = (0..ours.len())
                    .map(|_| random.below(ours.len()))
                    .map(|at| ours[at] - others[at])
                    .sum();
                sum / ours.len().max(1) as f64
            });
            sets.sum::<f64>() / ours.len().max(1) as f64
        })
        .collect();
    differences.sort_by(f64::total_cmp);
    (differences[RESAMPLES / 40], differences[RESAMPLES - RESAMPLES / 40 - 1])
}
