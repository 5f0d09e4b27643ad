//! The tutorial on clients works from its first step to its last, as it is written.

use std::path::Path;
use std::process::Command;

use context_guard_test_support::{Context, Result, artifacts, ensure, peers};

use crate::documents::blocks;

/// Steps of the reader that the build of the tests has done.
const DONE: [&str; 2] = ["cargo xtask build", "export PATH="];

/// Runs a line of the tutorial in the home folder of its reader, and returns what it prints.
fn run(home: &Path, line: &str) -> Result<String> {
    let program = artifacts::program()?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let parts = program.parent().map(Path::to_owned).into_iter();
    let path = std::env::join_paths(parts.chain(std::env::split_paths(&paths)))?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(home).env("PATH", path);
    // The compiled guard is that of the other tests.
    if let (None, Some(home)) = (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        command.env("XDG_CACHE_HOME", Path::new(&home).join(".cache"));
    }
    command.env("HOME", home).env("XDG_STATE_HOME", home.join("state"));
    command.env("XDG_CONFIG_HOME", home.join("config")).env("npm_config_offline", "true");
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {text}{report}");
    Ok(text)
}

/// Adds to a line what the text asks of a reader without a client, and the answer to its question.
fn completed(line: &str) -> String {
    if !line.starts_with("context-guard install") {
        return line.to_owned();
    }
    let answers = line.contains("--yes") || line.contains("--dry-run");
    let answer = if answers { "" } else { " --yes" };
    format!("{line} --client cursor --file mcp.json{answer}")
}

#[test]
fn tutorial_guards_a_server_and_undoes_it() -> Result<()> {
    let home = peers::folder("tutorial")?;
    // `npx` finds the packages of the folder.
    #[cfg(unix)]
    std::os::unix::fs::symlink(
        artifacts::peers()?.join("mcporter/node_modules"),
        home.join("node_modules"),
    )?;
    let document = artifacts::root().join("docs/tutorials/guard-your-clients.md");
    let client = home.join("mcp.json");
    let (mut original, mut call) = (String::new(), None);
    let mut results = Vec::new();
    let blocks = blocks(&document)?;
    // The file of the reader without a client comes after the first command that needs it.
    for block in blocks.iter().filter(|block| block.text.contains("mcpServers")) {
        std::fs::write(&client, &block.text)?;
        original.clone_from(&block.text);
    }
    let guarded = || Ok::<_, std::io::Error>(std::fs::read_to_string(&client)?.contains("wrap"));
    for block in blocks {
        if block.language == "yaml" {
            std::fs::write(home.join("policy.yaml"), &block.text)?;
        }
        if block.language != "sh" {
            continue;
        }
        for line in block.text.lines() {
            if DONE.iter().any(|start| line.starts_with(start)) {
                continue;
            }
            let text = run(&home, &completed(line))?;
            if line.contains("--dry-run") {
                ensure!(text.contains("wrap --") && !guarded()?, "{text}");
            }
            if line.starts_with("npx mcporter") {
                results.push(text.clone());
                call = Some(line.to_owned());
            }
            if line == "context-guard stats" {
                ensure!(text.contains("net_tokens_saved"), "{text}");
                let saved = text.lines().nth(2).and_then(|row| row.split('|').nth(2));
                let saved: u64 = saved.context("no row")?.trim().replace(',', "").parse()?;
                ensure!(saved > 10_000, "{text}");
            }
            if line.contains("--policy") {
                ensure!(std::fs::read_to_string(&client)?.contains("policy.yaml"));
                results.push(run(&home, call.as_deref().context("nothing was called")?)?);
            }
        }
    }
    let [first, second] = results.as_slice() else { panic!("{} calls", results.len()) };
    ensure!(first.contains("500"), "{first}");
    ensure!(second.len() * 4 < first.len() * 3, "{} and {} bytes", first.len(), second.len());
    ensure!(std::fs::read_to_string(&client)? == original);
    std::fs::remove_dir_all(home)?;
    Ok(())
}
