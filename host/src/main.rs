//! The command line program `context-guard`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program writes to both"
)]

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    cli::start_log(&arguments);
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("context-guard: {}", cli::escape_controls(&cli::message(&error)));
            ExitCode::from(cli::exit_code(&error))
        }
    }
}
