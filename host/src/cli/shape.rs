//! `context-guard shape`: one payload, shaped.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use context_guard::engine::LossClass;
use context_guard::{Error, keys};
use serde_json::{Value, json};

use super::payload::{self, Answer, Payload};
use super::{GuardOptions, table};

const AFTER_HELP: &str = "\
Examples:
  context-guard shape bookings.json                  the first page, and a cursor
  context-guard shape bookings.json --cursor C       the page that the cursor leads to
  context-guard shape server.log --all               every chunk, put together again: the file
  context-guard shape answer.json --json             the whole answer as a client gets it

Cursors are signed with CONTEXT_GUARD_SIGNING_KEYS, else with a key that is kept in your state folder.";

/// Shape one payload.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Shape {
    #[command(flatten)]
    guard: GuardOptions,
    /// The file; `-` is standard input. JSON or text, or a whole JSON-RPC response.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The tool that the payload is said to come from, for policy rules.
    #[arg(long, default_value = "shape")]
    tool: String,
    /// Items a page.
    #[arg(long)]
    limit: Option<u64>,
    /// The cursor of an earlier page of the same file.
    #[arg(long, conflicts_with = "all")]
    cursor: Option<String>,
    /// Follow cursors to the end.
    #[arg(long)]
    all: bool,
    /// Print whole answers as JSON, one a line.
    #[arg(long)]
    json: bool,
}

impl Shape {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let bytes = read(&self.file)?;
        let keys = match keys::from_environment() {
            Some(keys) => keys,
            None => vec![keys::from_file(&state_folder().join("signing-key"))?],
        };
        let payload = Payload::new(self.guard.filter(keys)?, &self.tool, &bytes)?;
        let mut wish = serde_json::Map::new();
        wish.extend(self.limit.map(|limit| ("limit".to_owned(), limit.into())));
        wish.extend(self.cursor.as_deref().map(|cursor| ("cursor".to_owned(), cursor.into())));
        let wish = Value::Object(wish);
        let mut report = table::new(&["", "tokens", "bytes"]);
        let before = payload::visible(payload.original());
        let mut answer = payload.call(&wish)?;
        let original = answer.decision.as_ref().map_or(0, |decision| decision.original_tokens);
        report.add_row([
            "before".to_owned(),
            table::number(original),
            table::number(before.len() as u64),
        ]);
        let mut parts = 0u64;
        loop {
            parts += 1;
            self.print(&answer)?;
            let visible = payload::visible(&answer.message);
            let tokens = answer.decision.as_ref().map_or(0, |decision| decision.estimated_tokens);
            let name = if self.all { format!("part {parts}") } else { "after".to_owned() };
            report.add_row([name, table::number(tokens), table::number(visible.len() as u64)]);
            let next = payload::next_cursor(&answer.message);
            let Some(cursor) = next.filter(|_| self.all) else { break };
            answer = payload.call(&json!({ "cursor": cursor }))?;
        }
        let cursor = payload::next_cursor(&answer.message)
            .unwrap_or_else(|| "none: nothing follows".to_owned());
        eprintln!("{report}\nloss   {}\ncursor {cursor}", loss(&answer));
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, answer: &Answer) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let written = if self.json {
            out.write_all(&answer.message).and_then(|()| out.write_all(b"\n"))
        } else {
            let texts = payload::texts(&answer.message).join("\n");
            // Chunks of a text follow each other without a seam.
            let chunk = payload::contract(&answer.message)
                .is_some_and(|contract| contract.get("kind") == Some(&Value::from("chunk")));
            out.write_all(texts.as_bytes())
                .and_then(|()| if chunk { Ok(()) } else { out.write_all(b"\n") })
        };
        match written.and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other.context("the answer cannot be written"),
        }
    }
}

fn loss(answer: &Answer) -> &'static str {
    match answer.decision.as_ref().map(|decision| decision.loss) {
        Some(LossClass::None) => "none: the original, as it is",
        Some(LossClass::Lossless) => "lossless",
        Some(LossClass::Partial) => "partial: a part of it, the rest is behind the cursor",
        Some(LossClass::Condensed) => "condensed",
        Some(LossClass::Described) => "described",
        None => "unknown: the guard failed, and the byte limit decided",
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    Ok(std::fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?)
}

/// Where programs keep what is theirs between runs.
fn state_folder() -> PathBuf {
    let folder = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .map_or_else(std::env::temp_dir, |home| PathBuf::from(home).join(".local/state"))
    };
    folder.unwrap_or_else(home).join("context-guard")
}
