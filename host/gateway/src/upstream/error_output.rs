//! The standard error of upstream processes. It is read line by line in bounded memory and logged.
//! Its last lines are stored for the message about the end of the process.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, BufReader};
use tracing::{debug, info, warn};

use crate::config::StderrLevel;
use crate::invalid_output::printable;
use crate::lines::{Lines, Piece};

/// The maximum length of a line, in bytes. The rest of a longer line is dropped.
const MAX_LINE_BYTES: usize = 4 << 10;
/// The number of last lines that are stored.
const MAX_LAST_LINES: usize = 10;
/// The maximum number of lines that are logged in one interval.
const MAX_LOGGED_LINES: usize = 200;
/// The interval to which the limit of logged lines applies.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// The target of the log events, by which a log filter can select them.
const TARGET: &str = "context_guard::stderr";

/// Limits log lines, so that endless output does not fill the log.
struct LogLimit {
    since: Instant,
    logged: usize,
    dropped: usize,
}

impl LogLimit {
    /// Returns true if one more line may be logged at the time `now`. Calls `report` with the
    /// number of lines that were dropped in the previous interval.
    fn admits(&mut self, now: Instant, report: impl FnOnce(usize)) -> bool {
        if now - self.since >= LOG_INTERVAL {
            if self.dropped > 0 {
                report(self.dropped);
            }
            *self = Self { since: now, logged: 0, dropped: 0 };
        }
        let is_admitted = self.logged < MAX_LOGGED_LINES;
        self.logged += usize::from(is_admitted);
        self.dropped += usize::from(!is_admitted);
        is_admitted
    }
}

/// The last lines of the standard error of a process.
#[derive(Default)]
pub(super) struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Removes the lines, and returns them joined.
    pub(super) fn take(&self) -> String {
        let lines = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Vec::from(lines).join(" | ")
    }
}

/// Reads the standard error of the process of `upstream` to its end. Logs it at this level, and
/// stores the last lines in `last`.
pub(super) async fn read(
    upstream: &str,
    level: StderrLevel,
    errors: impl AsyncRead + Unpin,
    last: &LastLines,
) {
    let mut lines = Lines::with_max_bytes(BufReader::new(errors), MAX_LINE_BYTES);
    let mut in_long_line = false;
    let mut limit = LogLimit { since: Instant::now(), logged: 0, dropped: 0 };
    loop {
        match lines.next().await {
            Ok(Piece::End) | Err(_) => return,
            Ok(Piece::Line) => {}
            Ok(Piece::Part) => {
                let is_rest = in_long_line;
                in_long_line = !lines.bytes().ends_with(b"\n");
                if is_rest {
                    continue;
                }
            }
        }
        let line = printable(lines.bytes());
        let report = |dropped| log(upstream, level, &format!("{dropped} lines are not logged"));
        if limit.admits(Instant::now(), report) {
            log(upstream, level, &line);
        }
        if !line.is_empty() {
            last.push(line);
        }
    }
}

fn log(upstream: &str, level: StderrLevel, line: &str) {
    match level {
        StderrLevel::Off => {}
        StderrLevel::Debug => debug!(target: TARGET, upstream, "stderr: {line}"),
        StderrLevel::Info => info!(target: TARGET, upstream, "stderr: {line}"),
        StderrLevel::Warn => warn!(target: TARGET, upstream, "stderr: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn last_lines_are_bounded_and_printable() {
        let mut output = b"caf\xe9 \x1b[31mred\rforged\n\n".to_vec();
        let last = LastLines::default();
        read("x", StderrLevel::Debug, &output[..], &last).await;
        assert_eq!(last.take(), "caf\u{fffd} \\u{1b}[31mred\\rforged");
        output.extend([b'x'; 100_000]);
        output.extend(b"\nthe next line\n");
        read("x", StderrLevel::Debug, &output[..], &last).await;
        let lines = last.take();
        let long = lines.split(" | ").nth(1).unwrap();
        assert_eq!((long.len(), lines.ends_with(" | the next line")), (MAX_LINE_BYTES, true));
        read("x", StderrLevel::Off, "line\n".repeat(50).as_bytes(), &last).await;
        assert_eq!(last.take().split(" | ").count(), MAX_LAST_LINES);
    }

    #[test]
    fn dropped_lines_are_reported_once() {
        let start = Instant::now();
        let mut limit = LogLimit { since: start, logged: 0, dropped: 0 };
        let admitted = (0..MAX_LOGGED_LINES + 5).filter(|_| limit.admits(start, |_| {})).count();
        assert_eq!(admitted, MAX_LOGGED_LINES);
        let mut reports = Vec::new();
        assert!(limit.admits(start + LOG_INTERVAL, |dropped| reports.push(dropped)));
        assert!(limit.admits(start + 2 * LOG_INTERVAL, |dropped| reports.push(dropped)));
        assert_eq!(reports, [5]);
    }
}
