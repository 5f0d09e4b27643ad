//! Finds links of Markdown files that lead nowhere. Links to other sites are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::root;

/// Returns the broken links of all Markdown files, each with its file and line. Files of other
/// authors, which `.gitattributes` names, are not read.
pub(super) fn broken() -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .arg(":(attr:!linguist-vendored)*.md")
        .output()
        .context("git cannot be started")?;
    let mut pages = BTreeMap::new();
    for name in String::from_utf8_lossy(&output.stdout).lines() {
        if let Ok(text) = std::fs::read_to_string(root().join(name)) {
            pages.insert(PathBuf::from(name), text);
        }
    }
    let mut broken = broken_links(&pages, |path| root().join(path).exists());
    broken.extend(missing_pages(&pages));
    Ok(broken)
}

/// Returns the pages below `docs` that the book lacks, because its summary does not link them.
fn missing_pages(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let summary = Path::new("docs/SUMMARY.md");
    let Some(text) = pages.get(summary) else { return Vec::new() };
    let linked: BTreeSet<PathBuf> = links(text)
        .into_iter()
        .filter_map(|(_, link)| normalize(&Path::new("docs").join(link)))
        .collect();
    let in_book = pages.keys().filter(|page| page.starts_with("docs") && *page != summary);
    in_book
        .filter(|page| !linked.contains(*page))
        .map(|page| format!("{}: no link to it in {}", page.display(), summary.display()))
        .collect()
}

fn broken_links(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    let mut broken = Vec::new();
    for (page, text) in pages {
        for (line, link) in links(text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                Some(page.clone())
            } else {
                normalize(&page.parent().unwrap_or(Path::new("")).join(path))
            };
            let is_page = |target: &PathBuf| pages.contains_key(target) || exists(target);
            let has_anchor = |target: &PathBuf| {
                let known = anchors.get(target.as_path());
                anchor.is_empty() || known.is_none_or(|known| known.contains(anchor))
            };
            if !target.is_some_and(|target| is_page(&target) && has_anchor(&target)) {
                broken.push(format!("{}:{line}: {link}", page.display()));
            }
        }
    }
    broken
}

/// Resolves `..` and `.` in a path without the file system. Returns none if the path leaves the
/// root.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    Some(normal)
}

/// Returns the lines of a Markdown text outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// Returns the targets of the links in a Markdown text that lead to files of the repository, with
/// line numbers.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Code between backquotes is not a link.
        for part in line.split('`').step_by(2) {
            for target in part.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                // A title may follow the target.
                let target = target.split_whitespace().next().unwrap_or_default();
                if !has_scheme(target) && !target.is_empty() {
                    found.push((number, target));
                }
            }
        }
    }
    found
}

/// Returns true if a target begins with the scheme of a URL, such as `mailto:` (RFC 3986).
fn has_scheme(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one))
    })
}

/// Returns the anchors that GitHub and mdBook create for the headings of a Markdown text.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        // A heading that occurs again gets a number.
        let mut unique = anchor.clone();
        let mut count = 0;
        while !anchors.insert(unique.clone()) {
            count += 1;
            unique = format!("{anchor}-{count}");
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(links: &str) -> Vec<String> {
        let page = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
        let pages = BTreeMap::from([
            page("docs/a.md", links),
            page("docs/b/c.md", "# One, two!\n\n## One, two!\n"),
            page("README.md", "# Readme\n"),
        ]);
        broken_links(&pages, |path| path == Path::new("docs/picture.svg"))
    }

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let broken = check("# A\n\n[x](d.md) [y](b/c.md#three)\n[z](../../x.md) [w](#b)\n");
        assert_eq!(
            broken,
            [
                "docs/a.md:3: d.md",
                "docs/a.md:3: b/c.md#three",
                "docs/a.md:4: ../../x.md",
                "docs/a.md:4: #b",
            ]
        );
    }

    #[test]
    fn pages_that_the_book_lacks_are_found() {
        let page = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
        let pages = BTreeMap::from([
            page("docs/SUMMARY.md", "- [a](a.md)\n"),
            page("docs/a.md", "# A\n"),
            page("docs/b.md", "# B\n"),
            page("README.md", "# Readme\n"),
        ]);
        assert_eq!(missing_pages(&pages), ["docs/b.md: no link to it in docs/SUMMARY.md"]);
    }

    #[test]
    fn good_links_code_and_other_sites_pass() {
        let links = "# A\n\n[x](b/c.md#one-two-1) [y](#a) ![z](picture.svg \"title\")\n\
                     [r](../README.md) [s](https://example.org/x) `[t](u)`\n```\n[v](w)\n```\n";
        assert_eq!(check(links), [""; 0]);
    }
}
