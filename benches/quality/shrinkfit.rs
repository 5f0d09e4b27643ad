//! The crate `shrinkfit` on the same payload at the same token cost, with the better of its two
//! array strategies.

use ::shrinkfit::{ArrayStrategy, Options, shrink_json};
use serde_json::Value;

use crate::key_facts::KeyFacts;
use crate::tokens;

/// The result of `shrinkfit`.
pub(crate) struct Shrunk {
    pub(crate) tokens: u64,
    pub(crate) recalled: usize,
    pub(crate) fits: bool,
}

/// Returns the output of at most `budget` tokens that contains the most key facts.
pub(crate) fn best(json: &Value, budget: u64, key_facts: &KeyFacts) -> Shrunk {
    let text = json.to_string();
    let results = [ArrayStrategy::Condense, ArrayStrategy::Sample]
        .map(|strategy| within(&text, strategy, budget, key_facts));
    results.into_iter().max_by_key(|shrunk| (shrunk.fits, shrunk.recalled)).unwrap_or(Shrunk {
        tokens: 0,
        recalled: 0,
        fits: false,
    })
}

fn within(text: &str, strategy: ArrayStrategy, budget: u64, key_facts: &KeyFacts) -> Shrunk {
    let (mut low, mut high) = (100usize, usize::try_from(budget).unwrap_or(0) * 6);
    let mut best = Shrunk { tokens: 0, recalled: 0, fits: false };
    for _ in 0..9 {
        let size = usize::midpoint(low, high);
        let mut options = Options::new(size);
        options.indent = 0;
        options.array_strategy = strategy;
        let Ok(shrunk) = shrink_json(text, &options) else { break };
        let tokens = tokens(&shrunk.text);
        if tokens <= budget && shrunk.report.fits {
            best = Shrunk { tokens, recalled: key_facts.recalled_by(&shrunk.text), fits: true };
            low = size + 1;
        } else if tokens <= budget {
            low = size + 1;
        } else {
            high = size - 1;
        }
        if low >= high {
            break;
        }
    }
    best
}
