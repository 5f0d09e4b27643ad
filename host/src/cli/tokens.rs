//! `context-guard tokens`: counts the tokens of files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use context_guard::clock::SystemClock;
use context_guard::{answer, config, engine, keys};
use serde_json::json;

use super::payload::Payload;
use super::{GuardOptions, table};

/// Count the tokens of files.
#[derive(Args)]
pub(crate) struct Tokens {
    #[command(flatten)]
    guard: GuardOptions,
    /// The files to count.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Count with the o200k tokenizer too.
    #[arg(long)]
    exact: bool,
    /// Print JSON, one line per file.
    #[arg(long)]
    json: bool,
}

impl Tokens {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.exact {
            answer::require_exact_tokens("--exact")?;
        }
        let filter = Arc::new(self.guard.build(vec![keys::random()?], Arc::new(SystemClock))?);
        let head = if self.exact {
            &["file", "bytes", "chars4", "estimated", "exact (o200k)", "off"][..]
        } else {
            &["file", "bytes", "chars4", "estimated"]
        };
        let mut report = table::new(head);
        let mut sampled = false;
        for path in &self.files {
            let bytes = std::fs::read(path)
                .map_err(|source| config::Error::File { path: path.clone(), source })?;
            let text = std::str::from_utf8(&bytes).map_err(|error| config::Error::Format {
                path: path.clone(),
                reason: format!("not UTF-8 at byte {}: only text has tokens", error.valid_up_to()),
            })?;
            // The guard itself estimates, so that this is the number it uses.
            let answer = Payload::new(filter.clone(), "tokens", &bytes)?.call(&json!({}))?;
            let decision = answer.decision.ok_or_else(|| {
                engine::Error::Fault(format!("cannot estimate {}", path.display()))
            })?;
            let estimated = decision.original_tokens;
            sampled |= decision.original_tokens_sampled;
            let quarter = text.chars().count() as u64 / 4;
            let chars4 = quarter + quarter / 5;
            let exact = self.exact.then(|| answer::o200k(text));
            if self.json {
                let line = json!({
                    "file": path,
                    "bytes": bytes.len(),
                    "chars4": chars4,
                    "estimated": estimated,
                    "sampled": decision.original_tokens_sampled,
                    "exact": exact,
                });
                say!("{line}");
                continue;
            }
            let mark = if decision.original_tokens_sampled { "~" } else { "" };
            let mut row = vec![
                path.display().to_string(),
                table::number(bytes.len() as u64),
                table::number(chars4),
                format!("{mark}{}", table::number(estimated)),
            ];
            if let Some(exact) = exact {
                row.push(table::number(exact));
                let tenths =
                    (i128::from(estimated) - i128::from(exact)) * 1_000 / i128::from(exact.max(1));
                row.push(format!(
                    "{}{}.{} %",
                    if tenths < 0 { "-" } else { "+" },
                    tenths.abs() / 10,
                    tenths.abs() % 10
                ));
            }
            report.add_row(row);
        }
        if !self.json {
            say!("{report}");
            if sampled {
                say!("~ extrapolated from samples: the file is longer than 64 kB");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
