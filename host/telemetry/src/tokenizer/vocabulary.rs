//! The o200k tokenizer, whose vocabulary is embedded in compressed form.

use std::io::Read as _;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR, Rank};

/// The compressed vocabulary from the build script.
static VOCABULARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.lzma"));

/// The tokenizer, or the reason why it cannot be created. It takes about 45 MB after its first use.
static TOKENIZER: LazyLock<Result<CoreBPE, String>> =
    LazyLock::new(|| tokenizer().map_err(|error| error.to_string()));

/// Returns the number of tokens of a text.
///
/// # Panics
/// If the build script wrote a damaged vocabulary.
#[allow(clippy::panic, reason = "a damaged program counts nothing")]
pub(super) fn count(text: &str) -> u64 {
    match &*TOKENIZER {
        Ok(tokenizer) => tokenizer.count_ordinary(text) as u64,
        Err(error) => panic!("damaged vocabulary of the tokenizer: {error}"),
    }
}

fn tokenizer() -> Result<CoreBPE, Box<dyn std::error::Error>> {
    let mut file = Vec::new();
    lzma_rust2::LzmaReader::new_mem_limit(VOCABULARY, u32::MAX, None)?.read_to_end(&mut file)?;
    let ranks = ranks(&file).ok_or("it is too short")?;
    // Special tokens are counted as text, so that the tokenizer needs none.
    CoreBPE::new(ranks, FxHashMap::default(), O200K_BASE_PAT_STR).map_err(Into::into)
}

/// Returns the tokens of a vocabulary file with their ranks. `None` if the file is too short.
fn ranks(file: &[u8]) -> Option<FxHashMap<Vec<u8>, Rank>> {
    let (count, rest) = file.split_first_chunk()?;
    let (lengths, mut tokens) = rest.split_at_checked(u32::from_le_bytes(*count) as usize)?;
    let mut ranks = FxHashMap::with_capacity_and_hasher(lengths.len(), rustc_hash::FxBuildHasher);
    for (rank, length) in (0..).zip(lengths) {
        let token;
        (token, tokens) = tokens.split_at_checked(usize::from(*length))?;
        ranks.insert(token.to_vec(), rank);
    }
    Some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabulary_has_all_tokens() {
        let (own, whole) = (tokenizer().unwrap(), tiktoken_rs::o200k_base_singleton());
        for rank in 0..199_998 {
            let bytes = |tokenizer: &CoreBPE| tokenizer.decode_bytes(&[rank]).ok();
            assert_eq!(bytes(&own), bytes(whole), "{rank}");
        }
        assert!(own.decode_bytes(&[199_998]).is_err());
        let text = include_str!("vocabulary.rs");
        assert_eq!(own.encode_ordinary(text), whole.encode_ordinary(text));
    }
}
