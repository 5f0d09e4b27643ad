//! The crate `shrinkfit` on the same payload at the same token cost: the better of its two ways.

use serde_json::Value;
use shrinkfit::{ArrayStrategy, Options, shrink_json};

use crate::needles::Needles;
use crate::tokens;

/// What it kept.
pub(crate) struct Kept {
    pub(crate) tokens: u64,
    pub(crate) kept: usize,
    pub(crate) fits: bool,
}

/// The largest output of at most `budget` real tokens that keeps most needles.
pub(crate) fn best(json: &Value, budget: u64, needles: &Needles) -> Kept {
    let text = json.to_string();
    let ways = [ArrayStrategy::Condense, ArrayStrategy::Sample]
        .map(|way| within(&text, way, budget, needles));
    ways.into_iter().max_by_key(|kept| (kept.fits, kept.kept)).unwrap_or(Kept {
        tokens: 0,
        kept: 0,
        fits: false,
    })
}

fn within(text: &str, way: ArrayStrategy, budget: u64, needles: &Needles) -> Kept {
    let (mut low, mut high) = (100usize, usize::try_from(budget).unwrap_or(0) * 6);
    let mut best = Kept { tokens: 0, kept: 0, fits: false };
    for _ in 0..9 {
        let size = usize::midpoint(low, high);
        let mut options = Options::new(size);
        options.indent = 0;
        options.array_strategy = way;
        let Ok(shrunk) = shrink_json(text, &options) else { break };
        let tokens = tokens(&shrunk.text);
        if tokens <= budget && shrunk.report.fits {
            best = Kept { tokens, kept: needles.kept(&shrunk.text), fits: true };
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
