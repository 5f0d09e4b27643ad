//! Each promise of SECURITY.md names tests that exist.

use context_guard_test_support::{Context, Result, artifacts, ensure};

/// Returns the texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Checks that a named test exists.
fn check(name: &str) -> Result<()> {
    if let Some(target) = name.strip_prefix("fuzz/") {
        let file = artifacts::root().join(format!("tests/fuzz/targets/{target}.rs"));
        ensure!(file.is_file(), "no fuzz target {target}");
        return Ok(());
    }
    let (file, test) = name.split_once("::").with_context(|| format!("{name} is no test"))?;
    let file = if file.contains('/') { file.to_owned() } else { format!("tests/suite/{file}.rs") };
    let text = std::fs::read_to_string(artifacts::root().join(&file)).context(file.clone())?;
    let (before, _) = text
        .split_once(&format!("fn {test}("))
        .with_context(|| format!("{file} has no function {test}"))?;
    // A helper is no proof. The tests of a `proptest!` block have the attribute, too.
    let attributes: Vec<&str> = before.lines().rev().take(4).collect();
    ensure!(attributes.iter().any(|line| line.contains("test]")), "{file}: {test} is no test");
    Ok(())
}

#[test]
fn promises_name_their_tests() -> Result<()> {
    let text = std::fs::read_to_string(artifacts::root().join("SECURITY.md"))?;
    let table = text.lines().skip_while(|line| !line.starts_with("| asset |"));
    let rows: Vec<&str> = table.skip(2).take_while(|line| line.starts_with('|')).collect();
    ensure!(rows.len() >= 20, "{} promises", rows.len());
    let mut faults = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names: Vec<&str> = cells.get(4).copied().map(quoted).into_iter().flatten().collect();
        if names.is_empty() {
            faults.push(format!("no test: {row}"));
        }
        faults.extend(names.iter().filter_map(|name| check(name).err()).map(|e| format!("{e:#}")));
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}
