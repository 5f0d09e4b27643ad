//! `context-guard shape`: shapes one payload.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use context_guard::clock::SystemClock;
use context_guard::engine::LossClass;
use context_guard::{answer, config};
use regex::Regex;
use serde_json::{Value, json};

use super::payload::{Answer, Payload};
use super::{GuardOptions, escape_controls, runtime, table};

const AFTER_HELP: &str = "\
Examples:
  context-guard shape bookings.json                  the first page, and a cursor
  context-guard shape bookings.json --cursor C       the page that the cursor leads to
  context-guard shape bookings.json --fields id,price.total
  context-guard shape bookings.json --where 'price.total>=1000' --mode metadata
  context-guard shape bookings.json --where 'price.total>=1000' --mode metadata --cursor C
  context-guard shape bookings.json --aggregate 'count by status, sum(price.total)'
  context-guard shape server.log --grep 'ERROR|panic' --context 3
  context-guard shape server.log --all               every chunk, put together again: the file
  context-guard shape answer.json --json             the whole answer as a client gets it

Cursors are signed with CONTEXT_GUARD_SIGNING_KEYS, else with a key that is kept in your state folder.";

/// Shape one payload.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Shape {
    #[command(flatten)]
    guard: GuardOptions,
    /// The file, or `-` for standard input: JSON, text, or a whole JSON-RPC response.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The name of the tool, for policy rules.
    #[arg(long, default_value = "shape")]
    tool: String,
    /// Items per page.
    #[arg(long)]
    limit: Option<u64>,
    /// A cursor from an earlier page of the same file. One of a query needs the same query again.
    #[arg(long, conflicts_with = "all", allow_hyphen_values = true)]
    cursor: Option<String>,
    #[command(flatten)]
    query: Query,
    /// Follow all cursors and print everything in full.
    #[arg(long)]
    all: bool,
    /// Print whole answers as JSON, one per line.
    #[arg(long)]
    json: bool,
}

/// Selections from the payload.
#[derive(Args)]
struct Query {
    /// Fields to show, such as `id,price.total`; `all` shows whole items.
    #[arg(long)]
    fields: Option<String>,
    /// A path in the document: `/items/0/name` or `$.items[*].name`.
    #[arg(long)]
    path: Option<String>,
    /// A condition on records: `status=open AND price>=10 order by price desc`.
    #[arg(long = "where", value_name = "TESTS", allow_hyphen_values = true)]
    condition: Option<String>,
    /// A regular expression for lines or values.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    grep: Option<String>,
    /// True to match any case, false for the given one; by default, lower case matches any.
    #[arg(long, requires = "grep", value_name = "BOOL")]
    ignore_case: Option<bool>,
    /// Lines around each match.
    #[arg(long, requires = "grep", value_name = "LINES")]
    context: Option<u64>,
    /// A program of jq: `.items | map(.price) | add`.
    #[arg(long, value_name = "PROGRAM", allow_hyphen_values = true)]
    jq: Option<String>,
    /// Totals over all records: `count by status, sum(price.total), distinct(city)`.
    #[arg(long, value_name = "TOTALS", allow_hyphen_values = true)]
    aggregate: Option<String>,
    /// The form of records: `ids_only`, `metadata`, `preview` or `full`.
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// The ids of the records to show, separated by commas.
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    ids: Option<String>,
    /// The minimum score of the records to show.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    min_score: Option<f64>,
}

impl Query {
    /// Returns the names and values of the guard arguments that the command line sets.
    fn arguments(&self) -> Vec<(String, Value)> {
        let texts = [
            ("fields", &self.fields),
            ("path", &self.path),
            ("where", &self.condition),
            ("grep", &self.grep),
            ("aggregate", &self.aggregate),
            ("jq", &self.jq),
            ("response_mode", &self.mode),
            ("filter_ids", &self.ids),
        ];
        let texts =
            texts.into_iter().filter_map(|(name, value)| Some((name, Value::from(value.clone()?))));
        let numbers = [
            ("context", self.context.map(Value::from)),
            ("ignoreCase", self.ignore_case.map(Value::from)),
            ("min_score", self.min_score.map(Value::from)),
        ];
        let numbers = numbers.into_iter().filter_map(|(name, value)| Some((name, value?)));
        texts.chain(numbers).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Shape {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let bytes = read(&self.file)?;
        let keys = runtime::user_keys()?;
        let payload = Payload::new(
            self.guard.build(keys, Arc::new(SystemClock))?.into(),
            &self.tool,
            &bytes,
        )?;
        let mut wish = serde_json::Map::new();
        wish.extend(self.limit.map(|limit| ("limit".to_owned(), limit.into())));
        wish.extend(self.cursor.as_deref().map(|cursor| ("cursor".to_owned(), cursor.into())));
        wish.extend(self.query.arguments());
        if self.all && !wish.contains_key("fields") {
            wish.insert("fields".to_owned(), "all".into());
        }
        let wish = Value::Object(wish);
        let mut report = table::new(&["", "tokens", "bytes"]);
        let before = answer::visible(payload.original());
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
            let visible = answer::visible(&answer.message);
            let tokens = answer.decision.as_ref().map_or(0, |decision| decision.estimated_tokens);
            let name = if self.all { format!("part {parts}") } else { "after".to_owned() };
            report.add_row([name, table::number(tokens), table::number(visible.len() as u64)]);
            let next = answer::next_cursor(&answer.message);
            let Some(cursor) = next.filter(|_| self.all) else { break };
            // The cursor of a selection leads to the rest of it.
            let next = match self.query.arguments().is_empty() {
                true => json!({"cursor": cursor, "fields": "all"}),
                false => json!({ "cursor": cursor }),
            };
            answer = payload.call(&next)?;
        }
        let cursor =
            match (answer::next_cursor(&answer.message), answer::whole_cursor(&answer.message)) {
                (Some(next), _) => next,
                (None, Some(whole)) => format!("{whole} (the whole answer; there is no next part)"),
                (None, None) => "none: there is no next part".to_owned(),
            };
        let summary = format!("{report}\nloss   {}\ncursor {cursor}", loss(&answer));
        eprintln!("{}", escape_controls(&summary));
        if let Some(notice) = answer::notice(&answer.message).filter(|_| !self.json) {
            eprintln!("\n{}", escape_controls(&command_line_notice(&notice)?));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, answer: &Answer) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let written = if self.json {
            out.write_all(&answer.message).and_then(|()| out.write_all(b"\n"))
        } else {
            let texts = answer::content(&answer.message).join("\n");
            // The chunks of a text are contiguous: they are joined without a separator.
            let chunk = answer::contract(&answer.message)
                .is_some_and(|contract| contract.get("kind") == Some(&Value::from("chunk")));
            out.write_all(texts.as_bytes())
                .and_then(|()| if chunk { Ok(()) } else { out.write_all(b"\n") })
        };
        match written.and_then(|()| out.flush()) {
            // The reader closed the pipe.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other.context("cannot write the answer"),
        }
    }
}

/// Rewrites a notice for the terminal. The read tool and its arguments become this command's
/// options.
fn command_line_notice(notice: &str) -> Result<String> {
    let argument = Regex::new(r#""(cursor|fields|path|grep|aggregate)":"([^"]*)""#)?;
    let bare = Regex::new(r#""(path|grep|aggregate)""#)?;
    let call = Regex::new(r"(?:call )?context_guard_read with \{([^}]*)\}")?;
    let notice = argument.replace_all(notice, "--$1 $2").replace(",--", " --");
    let notice = bare.replace_all(&notice, "--$1");
    Ok(call.replace_all(&notice, "repeat this command with $1").into_owned())
}

fn loss(answer: &Answer) -> &'static str {
    match answer.decision.as_ref().map(|decision| decision.loss) {
        Some(LossClass::None) => "none: the original, unchanged",
        Some(LossClass::Lossless) => "lossless: everything in fewer bytes",
        Some(LossClass::Partial) => "partial: a part, the cursor leads to the rest",
        Some(LossClass::Condensed) => {
            "condensed: fewer fields and shorter values, the cursor leads to the whole"
        }
        Some(LossClass::Described) => "described: a description, the cursor leads to the whole",
        None => "unknown: the guard failed and the byte limit was applied",
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    Ok(std::fs::read(path)
        .map_err(|source| config::Error::File { path: path.to_owned(), source })?)
}
