//! Time of compiling an index and of one search, at several sizes.

use std::time::{Duration, Instant};

use context_guard_catalogue::index::{Index, Settings};
use context_guard_catalogue::rank::SearchRequest;

use super::data::{Data, ToolRecord};
use super::rankers;

/// The numbers of tools that are measured.
const SIZES: [usize; 3] = [1_000, 3_000, 10_000];

/// Prints times. The tools are those of all catalogues, each once.
pub(crate) fn print(data: &Data) {
    let mut names: Vec<&String> = data.catalogues.keys().collect();
    names.sort();
    let mut tools: Vec<ToolRecord> = Vec::new();
    for name in names {
        for tool in &data.catalogues[name] {
            if !tools.iter().any(|known| known.id == tool.id) {
                tools.push(tool.clone());
            }
        }
    }
    let queries: Vec<&str> = data
        .sets
        .iter()
        .flat_map(|set| set.queries.iter().take(50))
        .map(|query| query.query.as_str())
        .collect();
    println!("\n| tools | index, kB | compile, ms | search, median µs | p95 µs |");
    println!("|--:|--:|--:|--:|--:|");
    for size in SIZES.into_iter().filter(|size| *size <= tools.len()) {
        // Every n-th tool, so that each size has tools of all catalogues.
        let step = tools.len() / size;
        let some: Vec<ToolRecord> = tools.iter().step_by(step).take(size).cloned().collect();
        let start = Instant::now();
        let bytes = rankers::compile(&some, &Settings::default());
        let compile = start.elapsed().as_millis();
        let Some(index) = Index::open(&bytes) else { continue };
        let mut times: Vec<Duration> = queries
            .iter()
            .map(|query| {
                let start = Instant::now();
                std::hint::black_box(index.search(&SearchRequest::new(query)));
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let (median, p95) = (times[times.len() / 2], times[times.len() * 95 / 100]);
        println!(
            "| {size} | {} | {compile} | {} | {} |",
            bytes.len() / 1_000,
            median.as_micros(),
            p95.as_micros()
        );
    }
}
