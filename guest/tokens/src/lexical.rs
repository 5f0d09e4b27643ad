//! The token estimator for long texts, and for tokenizers without a vocabulary.
//!
//! It reads a text once, and looks up the cost of each lexical event, such as a word, in a table.
//! Its estimates are within 10 % of the real count for more than 95 % of texts. `chars4` achieves
//! that for a third (SC-008).

mod characters;
mod classes;
mod scan;
mod tables;
#[cfg(feature = "train")]
pub mod train;
mod window;
mod words;

use characters::Characters;
use tables::{Sum, Tables};
use words::{ONE, WORDS, Word};

use super::MIN_CACHED_BYTES;

/// The tokenizer that the tables were measured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// OpenAI's o200k, the tokenizer of current GPT models.
    #[default]
    O200k,
    /// OpenAI's cl100k.
    Cl100k,
    /// The last Claude tokenizer with a public vocabulary.
    ClaudeLegacy,
}

static O200K: Tables = Tables::read(include_bytes!("lexical/tables/o200k.bin"));
#[cfg(feature = "cl100k")]
static CL100K: Tables = Tables::read(include_bytes!("lexical/tables/cl100k.bin"));
#[cfg(feature = "claude-legacy")]
static CLAUDE_LEGACY: Tables = Tables::read(include_bytes!("lexical/tables/claude-legacy.bin"));

const O200K_CHARACTERS: Characters =
    Characters::new(include_bytes!("lexical/tables/o200k-characters.bin"));
#[cfg(any(feature = "cl100k", feature = "claude-legacy"))]
const CL100K_CHARACTERS: Characters =
    Characters::new(include_bytes!("lexical/tables/cl100k-characters.bin"));

impl Profile {
    fn built_in(self) -> Option<&'static Tables> {
        match self {
            Profile::O200k => Some(&O200K),
            #[cfg(feature = "cl100k")]
            Profile::Cl100k => Some(&CL100K),
            #[cfg(feature = "claude-legacy")]
            Profile::ClaudeLegacy => Some(&CLAUDE_LEGACY),
            #[allow(unreachable_patterns, reason = "where all tables are built in")]
            _ => None,
        }
    }

    /// Returns true if the tokens of short texts are counted with the vocabulary.
    pub(crate) fn has_vocabulary(self) -> bool {
        self == Profile::O200k
    }

    /// Returns true if this build contains the tables of this tokenizer. Policies that name other
    /// tokenizers are rejected.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        self.built_in().is_some()
    }

    fn characters(self) -> Characters {
        match self {
            // The vocabulary of the Claude tokenizer is about as small as that of cl100k.
            #[cfg(any(feature = "cl100k", feature = "claude-legacy"))]
            Profile::Cl100k | Profile::ClaudeLegacy => CL100K_CHARACTERS,
            _ => O200K_CHARACTERS,
        }
    }

    fn tables(self) -> &'static Tables {
        self.built_in().unwrap_or(&O200K)
    }
}

/// The estimate for a text, not rounded to whole tokens, in 1/4096 token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledEstimate {
    /// The estimated tokens of the text, in 1/4096 token.
    pub estimate: u64,
    /// The estimate plus an extra cost for runs of characters that natural text does not have.
    /// Budgets use this value.
    pub cautious: u64,
    /// The cautious estimate, with the maximum cost for each non-ASCII character outside of
    /// sequences that tokens contain.
    pub greatest: u64,
    /// The part of the extra costs in `greatest` that may itself be too low.
    pub uncertain: u64,
}

/// Returns the estimated tokens of `text`, which may be any bytes. O(n), about 200 MB/s in a WASM
/// sandbox.
///
/// The result is at least one token for each 16 bytes, so that text made to mislead the tables
/// still has a cost.
#[must_use]
pub fn estimate(text: &[u8], profile: Profile) -> u64 {
    (scaled_estimate(text, profile).estimate + ONE.unsigned_abs() / 2) / ONE.unsigned_abs()
}

/// A cache of the costs of words under one profile.
pub(crate) struct WordCosts([Word; WORDS]);

impl Default for WordCosts {
    fn default() -> Self {
        Self([Word::default(); WORDS])
    }
}

/// Returns the estimate for a text, not rounded to whole tokens. O(n), one pass.
#[must_use]
pub fn scaled_estimate(text: &[u8], profile: Profile) -> ScaledEstimate {
    if text.len() < MIN_CACHED_BYTES {
        Sum::new(profile.tables(), profile.characters(), None).scan(text)
    } else {
        scaled_estimate_in(&mut WordCosts::default(), text, profile)
    }
}

/// Returns the estimate, not rounded to whole tokens, for one of many texts that share the cache
/// `words`. O(n), one pass.
#[must_use]
pub(crate) fn scaled_estimate_in(
    words: &mut WordCosts,
    text: &[u8],
    profile: Profile,
) -> ScaledEstimate {
    Sum::new(profile.tables(), profile.characters(), Some(&mut words.0)).scan(text)
}

/// Returns the cost, in 1/4096 token, of the control characters in a text, which the tables do not
/// distinguish from punctuation.
fn controls(text: &[u8]) -> i64 {
    let is_control = |byte: &&u8| **byte < b'\t' || (**byte > b'\r' && **byte < b' ');
    text.iter().filter(is_control).count() as i64 * ONE
}

impl Sum<'_> {
    #[inline]
    fn scan(mut self, text: &[u8]) -> ScaledEstimate {
        scan::scan(text, &mut self);
        let least = text.len() as u64 * ONE.unsigned_abs() / 16;
        let weight = |total: i64| total.max(0).unsigned_abs().max(least);
        let controls = controls(text);
        ScaledEstimate {
            estimate: weight(self.total),
            cautious: weight(self.total + self.caution),
            // The further costs are themselves means over what no table distinguishes.
            greatest: weight(
                self.total + self.caution + self.greatest_caution() * 9 / 8 + controls,
            ),
            uncertain: (self.uncertain() + controls).max(0).unsigned_abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_has_a_minimum_cost() {
        assert!(estimate(&b" ".repeat(32_000), Profile::O200k) >= 2_000);
    }

    /// The expected numbers are the real token counts.
    #[test]
    fn text_of_no_language_has_its_greatest_cost() {
        let cost = |text: &str| scaled_estimate(text.as_bytes(), Profile::O200k).greatest / 4096;
        for (text, tokens) in [
            ("p".repeat(100), 50),
            ("ab".repeat(100), 50),
            ("\u{2801}\u{28ff}".repeat(50), 250),
            ("[".repeat(2_000), 1_000),
            ("\0".repeat(200), 100),
        ] {
            assert!(cost(&text) * 6 >= tokens * 5, "{}: {text:.20}", cost(&text));
        }
    }

    #[test]
    fn natural_words_have_their_mean_cost() {
        for text in [
            "The booking of the harbour house was confirmed on Monday by the owner.",
            "Der Termin für die Prüfung wurde am Montag bestätigt.",
            "Бронирование дома у моря было подтверждено в понедельник.",
        ] {
            let all = scaled_estimate(text.as_bytes(), Profile::O200k);
            assert!(all.greatest * 2 < all.cautious * 3, "{text}: {all:?}");
        }
    }

    #[test]
    fn names_among_usual_words_are_not_uncertain() {
        let usual = "The booking of the harbour house was confirmed by its owner Xhlqtzk.";
        let unusual = "Xhlqtzk qwrtz plkmnb zzxcvb ghtrwq mnbvcx qqwrtp.";
        let share = |text: &str| {
            let all = scaled_estimate(text.as_bytes(), Profile::O200k);
            all.uncertain as f64 / all.estimate as f64
        };
        assert!(share(usual) < 0.01, "{}", share(usual));
        assert!(share(unusual) > 0.1, "{}", share(unusual));
    }

    /// The expected number is the real token count.
    #[test]
    fn escapes_of_style_sheets_are_not_those_of_json() {
        let css =
            ".fa-zazhe:before{content:\"\\f660\"}.fa-iglks:before{content:\"\\f777\"}".repeat(20);
        let cost = scaled_estimate(css.as_bytes(), Profile::O200k).greatest / 4096;
        assert!(cost * 100 >= 559 * 95, "{cost}");
    }

    #[test]
    fn any_bytes_are_estimated() {
        let bytes: Vec<u8> = (0u8..=255).cycle().take(5_000).collect();
        for profile in [Profile::O200k, Profile::Cl100k, Profile::ClaudeLegacy] {
            for end in 0..600 {
                let _ = estimate(bytes.get(end..end * 3).unwrap(), profile);
            }
        }
    }

    /// The estimate must be close to 1,120, the count of the real o200k tokenizer.
    #[test]
    fn estimate_is_close_to_the_real_count() {
        let json = r#"{"id":17,"name":"Harbour Loft","status":"confirmed","price":{"basePrice":129.50,"currency":"EUR"}}"#;
        let estimated = estimate(json.repeat(40).as_bytes(), Profile::O200k);
        assert!((1_008..=1_232).contains(&estimated), "{estimated}");
    }
}
