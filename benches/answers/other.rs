//! Other ways to reduce a payload to the same tokens.

use shrinkfit::{ArrayStrategy, Options, shrink_json};

use crate::guard::o200k;

/// Returns the start of a text with at most `tokens` tokens.
pub(crate) fn cut(text: &str, tokens: u64) -> &str {
    let fits = |end: &usize| text.get(..*end).is_some_and(|start| o200k(start) <= tokens);
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(64).collect();
    let count = ends.partition_point(fits);
    count.checked_sub(1).and_then(|at| text.get(..*ends.get(at)?)).unwrap_or_default()
}

/// Returns what `shrinkfit` makes of a JSON text with at most `tokens` tokens, by its two
/// strategies for arrays. The question counts as answered if one of them answers it.
pub(crate) fn shrunk(text: &str, tokens: u64) -> Vec<String> {
    let strategies = [ArrayStrategy::Condense, ArrayStrategy::Sample];
    strategies.into_iter().filter_map(|strategy| shrunk_by(text, strategy, tokens)).collect()
}

fn shrunk_by(text: &str, strategy: ArrayStrategy, tokens: u64) -> Option<String> {
    let (mut low, mut high) = (100usize, usize::try_from(tokens).ok()? * 6);
    let mut largest = None;
    while low < high {
        let size = usize::midpoint(low, high);
        let mut options = Options::new(size);
        options.indent = 0;
        options.array_strategy = strategy;
        let shrunk = shrink_json(text, &options).ok()?;
        if o200k(&shrunk.text) <= tokens {
            low = size + 1;
            largest = Some(shrunk.text);
        } else {
            high = size;
        }
    }
    largest
}
