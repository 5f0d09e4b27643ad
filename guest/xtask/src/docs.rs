//! `cargo xtask docs`: builds the documentation as an mdBook and checks its links.

mod links;

use std::process::Command;

use anyhow::{Result, bail};

use crate::build::{self, root, target};
use crate::tools;

const MDBOOK: &str = "0.5.4";

/// Checks the links of the documentation, builds the book in `target/book`, and prints its path.
pub(crate) fn run() -> Result<()> {
    check_links()?;
    if !root().join("book.toml").is_file() || !root().join("docs/SUMMARY.md").is_file() {
        tools::skipped("book", "book.toml or docs/SUMMARY.md does not exist");
        return tools::report_skipped();
    }
    let mdbook = tools::install("mdbook", MDBOOK, &["--no-default-features", "--features=search"])?;
    let book = target().join("book");
    build::run(Command::new(mdbook).arg("build").arg(root()).arg("--dest-dir").arg(&book))?;
    eprintln!("Written: {}", book.join("index.html").display());
    Ok(())
}

/// Fails if a link of a Markdown file names a file or a heading that does not exist.
pub(crate) fn check_links() -> Result<()> {
    let broken = links::broken()?;
    if broken.is_empty() {
        return Ok(());
    }
    bail!("{} broken links:\n  {}", broken.len(), broken.join("\n  "))
}
