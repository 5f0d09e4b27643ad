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

/// The files of a folder that was given: within a tenth for 95 of 100, within a fifth for 99, which the formula over characters is far from.
#[test]
fn lexical_is_close_on_a_folder_that_was_given() -> Result<()> {
    let Some(corpus) = artifacts::corpus() else { return Ok(()) };
    let mut files = Vec::new();
    collect(&corpus, &mut files)?;
    let (mut all, mut tenth, mut fifth, mut chars) = (0, 0, 0, 0);
    for path in files {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if text.len() < 40 {
            continue;
        }
        let (real, estimated) = (o200k(&text), estimate(text.as_bytes(), Profile::O200k));
        let formula = context_guard_core::tokens::chars4::of_chars(text.chars().count() as u64);
        all += 1;
        tenth += usize::from(estimated.abs_diff(real) * 10 <= real);
        fifth += usize::from(estimated.abs_diff(real) * 5 <= real);
        chars += usize::from(formula.abs_diff(real) * 5 <= real);
    }
    eprintln!(
        "{all} files: {tenth} within 10 %, {fifth} within 20 %; by chars4 {chars} within 20 %"
    );
    ensure!(tenth * 100 >= all * 95 && fifth * 100 >= all * 99, "{tenth} and {fifth} of {all}");
    Ok(())
}

fn collect(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
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
