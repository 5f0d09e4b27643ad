//! Token estimates, compared with reference sums and with the real tokenizer.

use std::path::Path;

use context_guard_core::tokens::lexical::estimate;
use context_guard_core::tokens::{Estimator, Profile};
use context_guard_test_support::answer::o200k;
use context_guard_test_support::{Context, Result, artifacts, ensure};

/// `tests/captures/lexical.tsv` holds the estimates of the code that the tables were trained with.
/// A different sum means that this code extracts different events.
#[test]
fn lexical_matches_reference_sums() -> Result<()> {
    let folder = artifacts::root().join("tests/captures");
    let table = std::fs::read_to_string(folder.join("lexical.tsv"))?;
    let mut compared = 0;
    for row in table.lines().skip(1) {
        let mut columns = row.split('\t');
        let name = columns.next().context("an empty row")?;
        let text = std::fs::read(folder.join(name))?;
        for profile in [Profile::O200k, Profile::Cl100k, Profile::ClaudeLegacy] {
            let expected: u64 = columns.next().context("a short row")?.parse()?;
            ensure!(
                estimate(&text, profile) == expected,
                "{name}, {profile:?}: {}",
                estimate(&text, profile)
            );
            compared += 1;
        }
    }
    ensure!(compared >= 60, "{compared}");
    Ok(())
}

/// Shares of texts, in percent, whose estimate is within a tenth and within a fifth of the count.
#[derive(Debug)]
struct Accuracy {
    texts: u64,
    within_tenth: u64,
    within_fifth: u64,
}

fn accuracy(folder: &Path) -> Result<Accuracy> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    let mut accuracy = Accuracy { texts: 0, within_tenth: 0, within_fifth: 0 };
    for path in files {
        let text = read_text(&path)?;
        // In very short texts one token more or less exceeds a tenth.
        if text.len() < 40 {
            continue;
        }
        let (count, estimate) = (o200k(&text), estimate(text.as_bytes(), Profile::O200k));
        accuracy.texts += 1;
        accuracy.within_tenth += u64::from(estimate.abs_diff(count) * 10 <= count);
        accuracy.within_fifth += u64::from(estimate.abs_diff(count) * 5 <= count);
    }
    Ok(accuracy)
}

/// SC-008 asks for 90 of 100 within a fifth. The captures hold text that was made to be odd; a
/// corpus of `cargo xtask test --corpus FOLDER` has to be closer.
#[test]
fn lexical_is_close_to_token_count() -> Result<()> {
    let captures = accuracy(&artifacts::root().join("tests/captures"))?;
    ensure!(
        captures.texts >= 20 && captures.within_tenth * 100 >= captures.texts * 90,
        "{captures:?}"
    );
    if let Some(corpus) = artifacts::corpus()? {
        let corpus = accuracy(&corpus)?;
        eprintln!("{corpus:?}");
        let is_close = corpus.within_tenth * 100 >= corpus.texts * 95
            && corpus.within_fifth * 100 >= corpus.texts * 99;
        ensure!(corpus.texts > 0 && is_close, "{corpus:?}");
    }
    Ok(())
}

/// Texts are counted with a rounded vocabulary: the count may differ where a string is taken for a
/// token.
#[test]
fn counted_tokens_are_those_of_the_tokenizer() -> Result<()> {
    const PART: usize = 8_000;
    let mut files = Vec::new();
    collect(&artifacts::root().join("tests/captures"), &mut files)?;
    let mut parts = 0;
    for path in files {
        let text = read_text(&path)?;
        let characters: Vec<char> = text.chars().collect();
        for part in characters.chunks(PART).filter(|part| part.len() > PART / 8) {
            let part: String = part.iter().collect();
            let (count, estimate) = (o200k(&part), Estimator::default().price(part.as_bytes()));
            let least = count - count / 50;
            ensure!(
                estimate >= least && estimate <= count + count / 10,
                "{}: {estimate} for {count}",
                path.display()
            );
            parts += 1;
        }
    }
    ensure!(parts >= 20, "{parts}");
    Ok(())
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
