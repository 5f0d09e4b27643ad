//! Exact token counts with the o200k tokenizer.

#[cfg(feature = "exact-tokens")]
mod vocabulary;

use crate::{Result, config};

/// True if [`o200k`] counts with the real tokenizer. That needs the cargo feature `exact-tokens`.
pub const COUNTS_EXACTLY: bool = cfg!(feature = "exact-tokens");

/// Checks that this build has the real tokenizer. `setting` is the name of the setting that needs
/// it.
///
/// # Errors
/// [`config::Error::Feature`] without the cargo feature `exact-tokens`.
pub fn require_exact_tokens(setting: &'static str) -> Result<()> {
    if COUNTS_EXACTLY {
        return Ok(());
    }
    Err(config::Error::Feature { setting, feature: "exact-tokens" }.into())
}

/// Returns the number of o200k tokens of a text. The tokenizer is too large for the guard itself.
#[cfg(feature = "exact-tokens")]
#[must_use]
pub fn o200k(text: &str) -> u64 {
    vocabulary::count(text)
}

/// Estimates the number of o200k tokens of a text as a quarter of its characters.
#[cfg(not(feature = "exact-tokens"))]
#[must_use]
pub fn o200k(text: &str) -> u64 {
    text.chars().count().div_ceil(4) as u64
}
