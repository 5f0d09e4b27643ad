//! `context-guard replay`: replays recorded traffic under another policy or component.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use context_guard::clock::ManualClock;
use context_guard::dry_run::{self, Report, Row, Side};
use context_guard::engine::SigningKey;
use context_guard::recording::Exchange;
use serde_json::json;

use super::{GuardOptions, table};

const AFTER_HELP: &str = "\
Traffic is recorded by a gateway with `recording: {file: traffic.jsonl}` in its configuration, secrets taken out.

Examples:
  context-guard replay traffic.jsonl --policy new.yaml                          compare with the default policy
  context-guard replay traffic.jsonl --before old.yaml --policy new.yaml --max-growth 5 --max-recall-loss 0.05
                                                                                the same in CI: exits with 5 past a limit
  context-guard replay traffic.jsonl --component new.wasm --json                a new component under the default policy

Key facts are ids, names and titles of records, and errors and warnings of logs. Recall is the share of them in the first answers / with one further read of each. Tokens are counted with o200k.";

/// The key that signs cursors in replays. It is constant, so that the same traffic gives the same
/// report, and public, because nobody receives the cursors.
const KEY: &[u8] = b"the key of dry runs, known to all";
/// The exit code if the report exceeds a limit of the command line, such as `--max-tokens`.
const LIMIT_EXCEEDED: u8 = 5;

/// Replay recorded traffic under another policy or component, and compare.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Replay {
    /// The recording: one JSON line per exchange.
    file: PathBuf,
    #[command(flatten)]
    guard: GuardOptions,
    /// The policy to compare with; the default policy if it is not given.
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// The number of answers to show with the most faults, lost key facts or token growth.
    #[arg(long, default_value_t = 5)]
    worst: usize,
    /// Fail if an answer has more tokens.
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u64>,
    /// Fail if the answers of an endpoint grow by more percent.
    #[arg(long, value_name = "PERCENT")]
    max_growth: Option<f64>,
    /// Fail if an endpoint loses a larger share of its key facts against --before, from 0 to 1: in
    /// the first answers, or with one further read.
    #[arg(long, value_name = "SHARE")]
    max_recall_loss: Option<f64>,
    /// Fail if the guard fails on more answers.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    max_faults: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) fn run(self) -> Result<ExitCode> {
        context_guard::answer::require_exact_tokens("replay")?;
        let traffic = Exchange::read(&self.file)?;
        let keys = vec![SigningKey { id: "dry-run".to_owned(), secret: KEY.to_vec() }];
        let clock = Arc::new(ManualClock::at_ms(0));
        let before = GuardOptions { policy: self.before.clone(), component: None };
        let before = before.build(keys.clone(), clock.clone())?;
        let after = self.guard.build(keys, clock.clone())?;
        let progress = std::io::stderr().is_terminal();
        let report = dry_run::compare(&before, &after, &clock, &traffic, self.worst, |done| {
            if progress && (done.is_multiple_of(50) || done == traffic.len()) {
                eprint!("\r{done} of {} exchanges", traffic.len());
            }
        });
        if progress {
            eprintln!();
        }
        let past = self.past(&report);
        if self.json {
            say!("{:#}", json!({"report": report, "past": past}));
        } else {
            show(&report);
            for reason in &past {
                say!("limit exceeded: {reason}");
            }
        }
        Ok(if past.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(LIMIT_EXCEEDED) })
    }

    /// Returns a message for each limit of the command line that the report exceeds.
    fn past(&self, report: &Report) -> Vec<String> {
        let mut past = Vec::new();
        for row in &report.endpoints {
            let name = &row.endpoint;
            if let Some(most) = self.max_tokens.filter(|most| row.after.largest > *most) {
                past.push(format!(
                    "{name}: an answer has {} tokens (--max-tokens {most})",
                    row.after.largest
                ));
            }
            if let Some(most) = self.max_growth.filter(|most| row.growth() > *most) {
                past.push(format!(
                    "{name}: answers grow by {:.1} % (--max-growth {most})",
                    row.growth()
                ));
            }
            let loss = row.recall_loss();
            if let Some(most) = self.max_recall_loss.filter(|most| loss > *most) {
                past.push(format!(
                    "{name}: recall of key facts falls by {loss:.2} (--max-recall-loss {most})"
                ));
            }
        }
        let faults = report.total.after.faults;
        if faults > self.max_faults {
            past.push(format!(
                "the guard failed on {faults} answers (--max-faults {})",
                self.max_faults
            ));
        }
        past
    }
}

/// Formats the recall of the first answers, and the recall with one further read of each.
fn recall(row: &Row, side: &Side) -> String {
    format!("{:.0} / {:.0} %", row.recall(side) * 100.0, row.reachable(side) * 100.0)
}

fn show(report: &Report) {
    let head = [
        "endpoint",
        "answers",
        "original",
        "before",
        "after",
        "change",
        "largest",
        "key facts",
        "recall before",
        "recall after",
        "faults",
    ];
    let mut all = table::new(&head);
    let line = |row: &Row, name: &str| {
        [
            name.to_owned(),
            table::number(row.answers),
            table::number(row.original),
            table::number(row.before.tokens),
            table::number(row.after.tokens),
            format!("{:+.1} %", row.growth()),
            table::number(row.after.largest),
            table::number(row.key_facts),
            recall(row, &row.before),
            recall(row, &row.after),
            table::number(row.after.faults),
        ]
    };
    for row in &report.endpoints {
        all.add_row(line(row, &row.endpoint));
    }
    all.add_row(line(&report.total, "all"));
    say!("{all}");
    if !report.worst.is_empty() {
        say!("\nworst results:");
        let mut worst = table::new(&head);
        for row in &report.worst {
            worst.add_row(line(row, &format!("{} at {}", row.endpoint, row.timestamp)));
        }
        say!("{worst}");
    }
}
