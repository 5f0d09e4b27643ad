//! `context-guard stats`: queries the history of calls.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use context_guard::config;
use context_guard::gateway::printable;
use context_guard::history::{Error, Query, Reader};
use serde_json::{Map, Value};

use super::{UsageError, table};

const AFTER_HELP: &str = "\
Examples:
  context-guard stats --since 7d --by tool --top 10    the tools with the highest net savings
  context-guard stats --order asc                      the tools with the lowest, below zero if reads cost more
  context-guard stats --measure calls --by client --where outcome:paginated
  context-guard stats --measure latency_p95 --by upstream --since 1d --step 1h --json

`wrap` and `stdio` record calls in the state folder of the user, `serve` where its setting `history` says.
The reference lists all measures and dimensions: docs/reference/statistics.md.";

/// Show what tools cost and what the guard saved, from the history of calls.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stats {
    /// The start: a time before now such as 7d or 2h, or RFC 3339.
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: String,
    /// The end: like --since.
    #[arg(long, value_name = "TIME", default_value = "now")]
    until: String,
    /// The dimensions of the rows: up to two of upstream, tool, client, outcome, revision, session.
    #[arg(long, value_name = "NAMES", default_value = "tool")]
    by: String,
    /// The measures, separated by commas. The first one orders the rows.
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "net_tokens_saved,reduction,calls,followups,tokens_before,tokens_sent,tokens_followup"
    )]
    measure: String,
    /// A filter such as client:claude-code, outcome:paginated or endpoint:files::read*. Several
    /// values of one dimension are alternatives.
    #[arg(long = "where", value_name = "DIMENSION:VALUE")]
    filters: Vec<String>,
    /// The maximum number of rows.
    #[arg(long, value_name = "N", default_value = "20")]
    top: String,
    /// The order of the first measure: asc or desc.
    #[arg(long, default_value = "desc")]
    order: String,
    /// The length of the periods to show separately, such as 1h or 1d.
    #[arg(long, value_name = "DURATION")]
    step: Option<String>,
    /// The history file, instead of the one in the state folder of the user.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print the answer as JSON, as `GET /admin/v1/query` returns it.
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let mut parameters = vec![
            ("from", self.since.as_str()),
            ("to", &self.until),
            ("by", &self.by),
            ("measure", &self.measure),
            ("top", &self.top),
            ("order", &self.order),
        ];
        parameters.extend(self.filters.iter().map(|filter| ("where", filter.as_str())));
        parameters.extend(self.step.iter().map(|step| ("step", step.as_str())));
        let query = Query::parse(parameters, u64::try_from(now)?).map_err(usage)?;
        let path = self.file.map_or_else(config::history_file, Ok)?;
        let answer = Reader::open(&path)?.run(&query)?;
        if self.json {
            say!("{}", serde_json::to_string_pretty(&answer)?);
            return Ok(ExitCode::SUCCESS);
        }
        let columns: Vec<&str> = self.by.split(',').chain(self.measure.split(',')).collect();
        print(&answer, &columns, self.step.is_some());
        Ok(ExitCode::SUCCESS)
    }
}

/// Converts the error of an invalid query to an error of the command line.
fn usage(error: Error) -> anyhow::Error {
    match error {
        Error::Query(text) => UsageError(text).into(),
        error => error.into(),
    }
}

/// Prints the rows as a table with these columns, with the total as the last line.
fn print(answer: &Value, columns: &[&str], has_steps: bool) {
    let rows = answer.get("rows").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let head: Vec<&str> =
        has_steps.then_some("at").into_iter().chain(columns.iter().copied()).collect();
    let mut table = table::new(&head);
    let empty = Vec::new();
    for row in rows.iter().filter_map(Value::as_object) {
        if !has_steps {
            table.add_row(head.iter().map(|name| cell(row.get(*name))));
            continue;
        }
        let points = row.get("points").and_then(Value::as_array).unwrap_or(&empty);
        for point in points.iter().filter_map(Value::as_object) {
            let value = |name: &&str| point.get(*name).or_else(|| row.get(*name));
            table.add_row(head.iter().map(|name| cell(value(name))));
        }
    }
    let total = answer.get("total").and_then(Value::as_object);
    if let Some(total) = total.filter(|_| rows.len() > 1 && !has_steps) {
        let label =
            Map::from_iter([(head.first().map_or("", |name| name).to_owned(), "total".into())]);
        let value = |name: &&str| total.get(*name).or_else(|| label.get(*name));
        table.add_row(
            head.iter().map(|name| value(name).map_or_else(String::new, |value| cell(Some(value)))),
        );
    }
    say!("{table}");
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    say!("from {} to {}", text("from"), text("to"));
    if let Some(dropped) = answer.get("dropped").and_then(Value::as_u64).filter(|lost| *lost > 0) {
        say!("{dropped} calls are missing: the history was written too slowly");
    }
}

/// Formats a value of the answer: numbers with thousands separators, and shares with four decimals.
/// Texts are names from servers and clients.
fn cell(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => printable(text.as_bytes()),
        Some(Value::Number(number)) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => table::number(number),
            (None, Some(number)) => format!("-{}", table::number(number.unsigned_abs())),
            _ => number.to_string(),
        },
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_do_not_control_the_terminal() {
        assert_eq!(cell(Some(&"read\x1b[2J\nfile".into())), r"read\u{1b}[2J\nfile");
        assert_eq!(cell(Some(&1_234.into())), "1,234");
        assert_eq!(cell(None), "-");
    }
}
