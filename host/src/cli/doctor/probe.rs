//! Starts each server once, and requests its tools within a time limit.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::Check;
use crate::cli::server_process::ServerProcess;

/// A server that can be started.
pub(super) struct FoundServer {
    pub(super) subject: String,
    /// The command line as it is configured.
    pub(super) command_line: Vec<String>,
    /// The command that is executed, with its environment.
    pub(super) command: Command,
}

/// The number of servers that run at the same time.
const PARALLEL: usize = 4;

/// Starts all servers. Returns one check for each, in the order of `servers`.
pub(super) fn all(servers: Vec<FoundServer>, timeout: Duration) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut servers = servers.into_iter().peekable();
    while servers.peek().is_some() {
        let running: Vec<_> = servers
            .by_ref()
            .take(PARALLEL)
            .map(|server| {
                let subject = server.subject.clone();
                (subject, thread::spawn(move || one(server, timeout)))
            })
            .collect();
        for (subject, thread) in running {
            checks.push(
                thread
                    .join()
                    .unwrap_or_else(|_| Check::failed("start", subject, "the check itself failed")),
            );
        }
    }
    checks
}

fn one(server: FoundServer, timeout: Duration) -> Check {
    let started = Instant::now();
    let FoundServer { subject, command_line, command } = server;
    let subject = subject.as_str();
    let mut process = match ServerProcess::start(command) {
        Ok(process) => process,
        Err(error) => {
            return Check::failed("start", subject, format!("cannot be started: {error}"))
                .advise("run its command in a terminal");
        }
    };
    let answer = process.list_tools("context-guard doctor", started + timeout);
    let errors = process.end();
    match answer {
        Ok(tools) => {
            let message = format!(
                "{} in {} ms",
                super::count(tools.len(), "tool"),
                started.elapsed().as_millis()
            );
            Check::ok("start", subject, message)
        }
        Err(reason) => {
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            let message = match last {
                Some(line) => format!("{reason}; its last line of errors: {}", line.trim()),
                None => reason,
            };
            Check::failed("start", subject, message).advise(format!(
                "run `{}` in a terminal",
                crate::cli::install::command_line(&command_line)
            ))
        }
    }
}
