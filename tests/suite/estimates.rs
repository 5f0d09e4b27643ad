//! Estimates: the sums of the study that measured the tables, and the counts of the tokenizer itself.

use context_guard_core::tokens::Profile;
use context_guard_core::tokens::lexical::estimate;
use context_guard_test_support::answer::o200k;
use context_guard_test_support::{Context, Result, artifacts, ensure};

/// `tests/captures/lexical.tsv` holds what the code gave that the tables were measured with: any other sum means that the events differ.
#[test]
fn lexical_gives_the_sums_that_the_tables_were_measured_for() -> Result<()> {
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

/// SC-008 asks for a fifth for 90 of 100; here a tenth is held for all but the text that was made to be odd.
#[test]
fn lexical_is_close_to_the_real_count() -> Result<()> {
    let (mut all, mut close) = (0, 0);
    for file in std::fs::read_dir(artifacts::root().join("tests/captures"))? {
        let path = file?.path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let (real, estimated) = (o200k(&text), estimate(text.as_bytes(), Profile::O200k));
        all += 1;
        close += usize::from(estimated.abs_diff(real) * 10 <= real);
    }
    ensure!(close * 100 >= all * 90, "{close} of {all} within a tenth");
    Ok(())
}
