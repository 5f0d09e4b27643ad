//! The examples of the documents work as they are written.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use context_guard::history::{History, HistoryOptions};
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// Commands that need servers from the network or recorded calls, run until they are stopped, or
/// change the clients of this user. Other tests run them with other arguments, or in another home
/// folder.
const NOT_RUN: [&str; 11] = [
    "serve",
    "stdio",
    "ext-proc",
    "ext-mcp",
    "wrap",
    "replay",
    "login",
    "install",
    "doctor",
    "stats",
    "dashboard",
];

/// The command of a server that the reader of a document has.
const READERS_SERVER: &str = "node dist/index.js";

/// A fenced block: its language, and its lines.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Returns the documents for users, except for generated ones.
fn documents() -> Result<Vec<PathBuf>> {
    let root = artifacts::root();
    let mut found = vec![root.join("README.md")];
    for folder in ["docs/tutorials", "docs/how-to", "docs/reference"] {
        for file in std::fs::read_dir(root.join(folder))? {
            let file = file?.path();
            let is_generated = file.file_name().is_some_and(|name| name == "command-line.md");
            if file.extension().is_some_and(|ending| ending == "md") && !is_generated {
                found.push(file);
            }
        }
    }
    Ok(found)
}

pub(crate) fn blocks(document: &Path) -> Result<Vec<Block>> {
    let text = std::fs::read_to_string(document)?;
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                found.push(Block { language: language.to_owned(), text: String::new() });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let block = found.last_mut().context("no block")?;
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    Ok(found)
}

/// Returns a folder with the files that documents name.
fn workplace(name: &str) -> Result<PathBuf> {
    let folder = peers::folder(name)?;
    let booking = |id: usize| json!({"id": id, "status": "open", "total": id, "guest": "Ada"});
    let bookings = json!({"bookings": (0..500).map(booking).collect::<Vec<_>>()});
    std::fs::write(folder.join("bookings.json"), bookings.to_string())?;
    let log: String = (0..5_000).map(|at| format!("2026-01-01 00:00:00 ERROR {at}\n")).collect();
    std::fs::write(folder.join("server.log"), log)?;
    std::fs::write(folder.join("policy.yaml"), "tokenBudgetThreshold: 4000\n")?;
    let client = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"]}}}"#;
    std::fs::write(folder.join(".mcp.json"), client)?;
    std::fs::write(folder.join("gateway.yaml"), "upstreams: [{name: a, command: [cat]}]\n")?;
    // The state of a user who has wrapped a server.
    let history = folder.join("context-guard/history.db");
    History::open(&history, &HistoryOptions::default())?;
    Ok(folder)
}

/// Runs a line of a shell with the program on PATH.
fn shell(folder: &Path, line: &str) -> Result<Output> {
    let program = artifacts::program()?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let parts = program.parent().map(Path::to_owned).into_iter();
    let path = std::env::join_paths(parts.chain(std::env::split_paths(&paths)))?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder);
    Ok(command.env("PATH", path).env("XDG_STATE_HOME", folder).output()?)
}

#[test]
fn commands_of_documents_succeed() -> Result<()> {
    let mut run = 0;
    for document in documents()? {
        let folder = workplace("documents")?;
        for block in blocks(&document)? {
            let is_session = block.text.starts_with("$ ");
            if !(matches!(block.language.as_str(), "sh" | "console") || is_session) {
                continue;
            }
            for line in block.text.lines() {
                let line = if is_session { line.strip_prefix("$ ") } else { Some(line) };
                let Some(line) = line.filter(|line| line.contains("context-guard ")) else {
                    continue;
                };
                let words: Vec<&str> = line.split_whitespace().collect();
                let first = words.first() == Some(&"context-guard");
                if !first
                    || line.contains(READERS_SERVER)
                    || NOT_RUN.contains(words.get(1).unwrap_or(&""))
                {
                    continue;
                }
                let output = shell(&folder, line)?;
                let report = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "{}: {line}: {report}", document.display());
                run += 1;
            }
        }
        std::fs::remove_dir_all(folder)?;
    }
    ensure!(run >= 10, "only {run} commands were found");
    Ok(())
}

#[test]
fn yaml_of_documents_is_valid() -> Result<()> {
    let mut valid = 0;
    for document in documents()? {
        let folder = workplace("documents-yaml")?;
        for block in blocks(&document)? {
            // The configuration of Goose, and a component that only its publisher can sign.
            let is_other =
                ["extensions:", "component:"].iter().any(|one| block.text.starts_with(one));
            if block.language != "yaml" || is_other {
                continue;
            }
            // A part of a gateway file has no upstreams.
            let part = format!("upstreams: [{{name: a, command: [cat]}}]\n{}", block.text);
            let member = format!("upstreams:\n- name: a\n  {}", block.text.replace('\n', "\n  "));
            let attempts = [
                ("check.yaml", &block.text, "context-guard policy check check.yaml"),
                ("check.yaml", &block.text, "context-guard config check --no-secrets check.yaml"),
                ("check.yaml", &part, "context-guard config check --no-secrets check.yaml"),
                ("check.yaml", &member, "context-guard config check --no-secrets check.yaml"),
            ];
            let mut reports = String::new();
            let mut passed = false;
            for (name, text, command) in attempts {
                std::fs::write(folder.join(name), text)?;
                let output = shell(&folder, command)?;
                passed |= output.status.success();
                reports.push_str(&String::from_utf8_lossy(&output.stderr));
            }
            ensure!(passed, "{}:\n{}\n{reports}", document.display(), block.text);
            valid += 1;
        }
        std::fs::remove_dir_all(folder)?;
    }
    ensure!(valid >= 8, "only {valid} blocks were found");
    Ok(())
}

#[test]
fn client_files_of_documents_are_imported() -> Result<()> {
    let folder = workplace("documents-clients")?;
    let document = artifacts::root().join("docs/how-to/configure-clients.md");
    let mut imported = 0;
    for block in blocks(&document)? {
        if !matches!(block.language.as_str(), "json" | "toml" | "yaml") {
            continue;
        }
        std::fs::write(folder.join("client"), &block.text)?;
        let output = shell(&folder, "context-guard config import client")?;
        let yaml = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && !yaml.contains("wrap"), "{}\n{yaml}", block.text);
        std::fs::write(folder.join("imported.yaml"), yaml.as_bytes())?;
        ensure!(shell(&folder, "context-guard config check imported.yaml")?.status.success());
        imported += 1;
    }
    ensure!(imported == 9, "{imported}");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn json_of_readme_is_a_client_file() -> Result<()> {
    let blocks = blocks(&artifacts::root().join("README.md"))?;
    let client = blocks.iter().find(|block| block.text.contains("mcpServers"));
    let client: Value = serde_json::from_str(&client.context("no client file")?.text)?;
    ensure!(client["mcpServers"]["files"]["args"][0] == "wrap", "{client}");
    Ok(())
}
