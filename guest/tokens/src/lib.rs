//! Token estimators, budgets and the cost model.
#![forbid(unsafe_code)]

pub mod budget;
pub mod chars4;
mod cost_model;
pub mod lexical;
mod original;
pub mod vocabulary;

pub use budget::{Budget, TokenBudget};
pub use cost_model::CostModel;
pub use lexical::{Profile, ScaledEstimate};
pub use original::{OriginalCost, PriceLimits};

use serde::{Deserialize, Serialize};

use context_guard_json::blocks::is_ascii;
use lexical::WordCosts;
use vocabulary::PieceCache;

/// The number of units per token in which costs are computed before they are rounded to tokens.
pub const COST_SCALE: u64 = 4_096;

/// The maximum size of a text, in bytes, whose tokens are counted with the vocabulary. Longer texts
/// exceed most budgets, and the tables are faster.
const MAX_COUNTED_BYTES: usize = 64 * 1024;
/// The maximum number of bytes per token of usual text. A text that would fit a limit only with
/// more bytes per token is counted at once.
const MOST_BYTES_PER_TOKEN: u64 = 5;
/// The minimum size of a text, in bytes, that gets a cache of words. Shorter texts repeat too few
/// words.
const MIN_CACHED_BYTES: usize = 512;

/// The estimation method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Tables measured from real tokenizers.
    #[default]
    Lexical,
    /// The formula `floor(chars/4) + floor(0.20 * floor(chars/4))` over Unicode scalar values.
    Chars4,
}

/// A token estimator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimator {
    /// The estimation method.
    pub method: Method,
    /// The tokenizer that the lexical method represents.
    pub profile: Profile,
    /// A factor for the estimated tokens, for tokenizers that need more tokens than the profile's.
    pub scale: f64,
}

/// The estimated tokens of a text and its cost against a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// The estimated tokens, as reported to clients.
    pub tokens: u64,
    /// The cost against a budget: the estimated tokens, plus a margin if the estimate may be too
    /// low.
    pub cost: u64,
}

impl Measure {
    /// Returns the sums of the tokens and costs of two texts that were measured separately.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens + other.tokens, cost: self.cost + other.cost }
    }
}

impl Default for Estimator {
    fn default() -> Self {
        Self { method: Method::default(), profile: Profile::default(), scale: 1.0 }
    }
}

impl Estimator {
    /// Returns the estimated tokens of a text, without a safety margin. O(n).
    #[must_use]
    pub fn price(&self, text: &[u8]) -> u64 {
        self.measure(text).tokens
    }

    /// Returns the cost of a text against a budget: its estimated tokens, plus a margin if the
    /// estimate may be too low. O(n).
    #[must_use]
    pub fn cost(&self, text: &[u8]) -> u64 {
        self.measure(text).cost
    }

    /// Returns the cost of a text in 1/4096 token, not rounded, for adding up many small texts.
    /// O(n).
    #[must_use]
    pub fn scaled_cost(&self, text: &[u8]) -> u64 {
        self.scaled(self.estimate(text, None).cautious)
    }

    /// Returns the cost, in 1/4096 token and not rounded, of one of many texts that share the cache
    /// `words`. O(n).
    #[must_use]
    pub fn scaled_cost_in(&self, words: &mut WordCache, text: &[u8]) -> u64 {
        self.scaled(self.estimate(text, Some(words)).cautious)
    }

    /// Returns the tokens and the cost of a text. O(n).
    #[must_use]
    pub fn measure(&self, text: &[u8]) -> Measure {
        if text.len() < MIN_CACHED_BYTES {
            return self.rounded(text, self.estimate(text, None));
        }
        self.measure_in(&mut WordCache::default(), text)
    }

    /// Returns the tokens and the cost of one of many texts that share the cache `words`. O(n).
    #[must_use]
    pub fn measure_in(&self, words: &mut WordCache, text: &[u8]) -> Measure {
        self.rounded(text, self.estimate(text, Some(words)))
    }

    /// Returns the tokens and the cost of a text, for a caller that needs exact values near `limit`
    /// only. If the text costs far less by the tables, its tokens are not counted: the tables take
    /// a third of the time. O(n).
    #[must_use]
    pub fn measure_up_to(&self, text: &[u8], limit: u64) -> Measure {
        let is_counted = self.is_counted(text) && is_ascii(text);
        if is_counted && text.len() as u64 / MOST_BYTES_PER_TOKEN <= limit {
            let measure = match text.len() < MIN_CACHED_BYTES {
                true => self.rounded(text, self.by_tables(text, None)),
                false => self.rounded(text, self.by_tables(text, Some(&mut WordCosts::default()))),
            };
            if with_slack(measure.cost) <= limit {
                return measure;
            }
        }
        self.measure(text)
    }

    fn rounded(&self, text: &[u8], weight: ScaledEstimate) -> Measure {
        let tokens = match self.method {
            Method::Lexical => (weight.estimate + COST_SCALE / 2) / COST_SCALE,
            Method::Chars4 => chars4::of_chars(characters(text)),
        };
        Measure {
            tokens: self.scaled(tokens),
            cost: self.scaled(weight.cautious).div_ceil(COST_SCALE),
        }
    }

    /// Estimates a text. Counts short texts if the profile has a vocabulary.
    fn estimate(&self, text: &[u8], mut words: Option<&mut WordCache>) -> ScaledEstimate {
        let exact = |tokens| ScaledEstimate {
            estimate: tokens,
            cautious: tokens,
            greatest: tokens,
            uncertain: 0,
        };
        if self.method == Method::Chars4 {
            return exact(characters(text) * COST_SCALE * 3 / 10);
        }
        if self.is_counted(text) {
            let cache = words.as_deref_mut().map(|words| &mut words.pieces);
            return exact(vocabulary::count(cache, text) * COST_SCALE);
        }
        self.by_tables(text, words.map(|words| &mut words.costs))
    }

    /// Returns true if the tokens of a text are counted, because it is short and its profile has a
    /// vocabulary.
    fn is_counted(&self, text: &[u8]) -> bool {
        let has_vocabulary = self.method == Method::Lexical && self.profile.has_vocabulary();
        has_vocabulary && text.len() <= MAX_COUNTED_BYTES
    }

    /// Estimates a text with the tables.
    fn by_tables(&self, text: &[u8], words: Option<&mut WordCosts>) -> ScaledEstimate {
        let weight = match words {
            Some(words) => lexical::scaled_estimate_in(words, text, self.profile),
            None => lexical::scaled_estimate(text, self.profile),
        };
        let mut cautious = with_caution(text, weight);
        if self.profile.has_vocabulary() {
            // The allowance has the margin of counted texts alone.
            cautious += cautious / (TABLE_MARGIN - 1);
        }
        ScaledEstimate { cautious, ..weight }
    }

    /// Returns the maximum cost of a text under a limit of `budget` tokens: the budget minus a
    /// safety margin (FR-013). For counted tokens, the margin is an eightieth and up to four
    /// tokens, because a string that is mistaken for a token may repeat. For tables, the margin is
    /// a seventeenth and up to ten tokens. The costs of usual text are up to 5 % too low, and the
    /// error of a short text is greater. The formula of `chars4` has its own margin.
    #[must_use]
    pub fn allowance(&self, budget: u64) -> u64 {
        match self.method {
            Method::Lexical if self.profile.has_vocabulary() => {
                budget - budget.div_ceil(80) - (budget / 50).min(4)
            }
            Method::Lexical => budget - budget.div_ceil(TABLE_MARGIN) - (budget / 20).min(10),
            Method::Chars4 => budget,
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "estimates, far below 2^52"
    )]
    fn scaled(&self, tokens: u64) -> u64 {
        if self.scale == 1.0 { tokens } else { (tokens as f64 * self.scale).ceil() as u64 }
    }
}

/// Returns the number of Unicode scalar values in UTF-8 text, which is the number of bytes that are
/// not continuation bytes.
fn characters(text: &[u8]) -> u64 {
    text.iter().filter(|byte| (**byte as i8) >= -0x40).count() as u64
}

/// The safety margin of the tables: the divisor of a budget.
const TABLE_MARGIN: u64 = 17;

/// Returns a cost from the tables plus a quarter, by which the real tokens may exceed it.
#[must_use]
pub const fn with_slack(cost: u64) -> u64 {
    cost.saturating_add(cost / 4)
}

/// A cache of the costs of words under one profile, because similar texts repeat the same words. It
/// affects speed only.
#[derive(Default)]
pub struct WordCache {
    costs: WordCosts,
    pieces: PieceCache,
}

/// Returns the cost of a text from the tables. Adds a margin for characters beyond ASCII, because
/// the tables were trained on other texts. Without it, estimates were up to 29 % too low if nearly
/// half of the characters were not ASCII. Also adds a margin for uncertain costs.
fn with_caution(text: &[u8], weight: ScaledEstimate) -> u64 {
    let mut cautious = weight.greatest;
    if !is_ascii(text) {
        let characters = characters(text);
        let ascii = text.iter().filter(|byte| byte.is_ascii()).count() as u64;
        let wide = characters - ascii.min(characters);
        let other = weight.cautious + weight.cautious / 20 * 7 * wide / characters.max(1);
        cautious = cautious.max(other);
    }
    // What is unusual enough to need caution is estimated worse than other text too. A few unusual
    // words are in any text.
    let beyond = cautious.saturating_sub(weight.greatest) + weight.uncertain;
    let usual = weight.estimate / 100 * 3;
    let uncertain = (beyond.saturating_sub(usual) * 2).min(cautious / 20 * 3);
    cautious + uncertain
}
