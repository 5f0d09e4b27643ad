//! `context-guard demo`: compares an example server with and without the guard.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use context_guard::answer::{COUNTS_EXACTLY, content as texts, next_cursor, o200k, visible};

use super::table;

mod client;
use client::Client;

const AFTER_HELP: &str = "\
The example server is part of this program. To see your own server's tools instead, use `context-guard wrap` in your client.";

/// Call the tools of an example server with and without the guard, and compare.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Demo {
    /// A server with the same tools, instead of the example server.
    #[arg(long, value_name = "FILE")]
    upstream: Option<PathBuf>,
}

/// The tools that the demonstration calls, each with a description of its answer.
const CALLS: [(&str, &str); 7] = [
    ("list_bookings", "500 bookings"),
    ("recent_bookings", "10 bookings"),
    ("list_listings", "300 listings, twice: text and structured"),
    ("list_transactions", "400 transactions"),
    ("get_booking", "one verbose booking"),
    ("read_log", "a log of 10,000 lines"),
    ("read_manual", "a long document"),
];

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let server = match &self.upstream {
            Some(path) => vec![path.as_os_str()],
            None => vec![program.as_os_str(), OsStr::new("example-server")],
        };
        let name = match &self.upstream {
            Some(path) => path.display().to_string(),
            None => "the example server".to_owned(),
        };
        say!("Starting {name} twice: directly, and behind `context-guard wrap --`.\n");
        let mut raw = Client::start(&server)?;
        // The calls of a demonstration do not belong in the user's history.
        let wrap = ["wrap", "--no-history", "--"].map(OsStr::new);
        let wrapped = [&[program.as_os_str()][..], &wrap, &server].concat();
        let mut guarded = Client::start(&wrapped)?;

        let mut report =
            table::new(&["tool", "raw tokens", "guarded tokens", "saved", "result notice"]);
        if let Some(column) = report.column_mut(4) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        for (tool, what) in CALLS {
            let before = o200k(&visible(&raw.call(tool, json!({}))?));
            let answer = guarded.call(tool, json!({}))?;
            let after = o200k(&visible(&answer));
            let notice_summary = notice_summary(&answer);
            report.add_row([
                format!("{tool}: {what}"),
                table::number(before),
                table::number(after),
                table::saved(before, after),
                notice_summary,
            ]);
        }
        say!("{report}");
        let counted = if COUNTS_EXACTLY {
            "counted with the o200k tokenizer"
        } else {
            "estimated at four characters per token"
        };
        say!("Tokens are {counted}, over the whole answer: text and structured content.\n");

        let whole = walk_list(&mut raw, &mut guarded)?;
        let log = walk_text(&mut raw, &mut guarded)?;
        say!(
            "\nNothing is lost: {}",
            if whole && log {
                "all omitted parts were fetched and equal the original"
            } else {
                "FAILED: reassembled output differs"
            }
        );
        Ok(if whole && log { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Returns the first clause of the result notice in an answer, without the cursor.
fn notice_summary(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let blocks =
        answer.pointer("/result/content").and_then(Value::as_array).cloned().unwrap_or_default();
    let notice = blocks
        .iter()
        .filter_map(|block| block.get("text")?.as_str())
        .find_map(|text| text.strip_prefix("[context-guard] "));
    notice.map_or("the original, byte for byte".to_owned(), |notice| {
        notice.split([';', '.']).next().unwrap_or_default().to_owned()
    })
}

fn items(answer: &[u8]) -> Result<Vec<Value>> {
    let page: Value =
        serde_json::from_str(&texts(answer).concat()).context("a page is not JSON")?;
    page.get("bookings").and_then(Value::as_array).cloned().context("a page has no bookings")
}

/// Calls a tool, follows its cursors to the last page, and calls `page` with each answer. Returns
/// the number of answers, and the tokens of the largest one.
fn walk(
    guarded: &mut Client,
    tool: &str,
    mut page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<(u64, u64)> {
    let mut answer = guarded.call(tool, json!({}))?;
    let (mut pages, mut largest) = (0, 0);
    loop {
        pages += 1;
        largest = largest.max(o200k(&visible(&answer)));
        page(&answer)?;
        let Some(cursor) = next_cursor(&answer) else { return Ok((pages, largest)) };
        answer = guarded.call("context_guard_read", json!({ "cursor": cursor }))?;
    }
}

fn walk_list(raw: &mut Client, guarded: &mut Client) -> Result<bool> {
    let original = items(&raw.call("list_bookings", json!({}))?)?;
    let mut walked = Vec::new();
    let (pages, largest) = walk(guarded, "list_bookings", |answer| {
        walked.extend(items(answer)?);
        Ok(())
    })?;
    let same = walked == original;
    let result = if same { "equal" } else { "DIFFER FROM" };
    say!(
        "list_bookings: {} bookings on {pages} pages, at most {largest} tokens each; together they {result} the {} of the server",
        walked.len(),
        original.len()
    );
    Ok(same)
}

fn walk_text(raw: &mut Client, guarded: &mut Client) -> Result<bool> {
    let original = texts(&raw.call("read_log", json!({}))?).concat();
    let mut walked = String::new();
    let (chunks, largest) = walk(guarded, "read_log", |answer| {
        walked.push_str(&texts(answer).concat());
        Ok(())
    })?;
    let same = walked == original;
    let result = if same { "equal" } else { "DIFFER FROM" };
    let (lines, bytes) = (walked.lines().count(), table::number(walked.len() as u64));
    say!(
        "read_log: {lines} lines in {chunks} chunks, at most {largest} tokens each; together they {result} the log of the server ({bytes} bytes)"
    );
    Ok(same)
}
