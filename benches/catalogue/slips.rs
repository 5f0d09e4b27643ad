//! Misspelled queries: two neighbouring letters of the longest word are swapped.

use context_guard_catalogue::index::Settings;

use super::data::{Data, Query};
use super::metrics::evaluate;
use super::rankers::{self, Guard};

/// Random numbers that are the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Swaps two neighbouring letters inside the longest word. Words shorter than four letters remain.
fn misspelled(query: &str, random: &mut Random) -> String {
    let words = query.split(|character: char| !character.is_ascii_alphabetic());
    let Some(longest) = words.max_by_key(|word| word.len()).filter(|word| word.len() > 3) else {
        return query.to_owned();
    };
    let at = 1 + random.below(longest.len() - 2);
    let mut letters: Vec<char> = longest.chars().collect();
    letters.swap(at, at + 1);
    query.replacen(longest, &letters.into_iter().collect::<String>(), 1)
}

/// Prints the loss of recall by misspelled words for each set.
pub(crate) fn print(data: &Data) {
    println!("\n| set | recall@5 | misspelled | loss |\n|---|--:|--:|--:|");
    for set in &data.sets {
        let tools = &data.catalogues[&set.catalogue];
        let guard = Guard { index: rankers::compile(tools, &Settings::default()), splits: false };
        let mut random = Random::new(7);
        let slips: Vec<Query> = set
            .queries
            .iter()
            .map(|query| Query { query: misspelled(&query.query, &mut random), ..query.clone() })
            .collect();
        let recall = |queries: &[Query]| {
            let ids = |query: &Query| {
                let found = rankers::Ranker::rank(&guard, &query.query).into_iter();
                found.map(|at| tools[at].id.as_str()).collect()
            };
            let ranked: Vec<Vec<&str>> = queries.iter().map(ids).collect();
            evaluate(&ranked, queries).recall_5
        };
        let (correct, misspelled) = (recall(&set.queries), recall(&slips));
        let loss = correct - misspelled;
        println!("| {} | {correct:.3} | {misspelled:.3} | {loss:.3} |", set.name);
    }
}
