//! The calls that a program has made so far.

use std::fmt::Write as _;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of names, or of lines of calls, in an error.
pub(super) const MAX_NAMES: usize = 20;

/// The end of a call: its number, and its result as JSON or the reason why it failed.
pub(super) type CallEnd = (u32, Result<Vec<u8>, String>);

/// A request from the thread of a program to the task that handles the client's request.
pub(super) enum ProgramRequest {
    /// Makes a call.
    Call(ProgramCall),
    /// Sends the names of the servers, or of the tools of `server`, to `reply`.
    Names { server: String, reply: Sender<Result<Vec<String>, String>> },
}

/// A call that a program has started.
pub(super) struct ProgramCall {
    pub(super) job: u32,
    /// The name of the server. Empty if `tool` is the client-visible name.
    pub(super) server: String,
    pub(super) tool: String,
    /// The arguments of the call, as a JSON object.
    pub(super) arguments: String,
}

/// The calls of a program so far, for reports and errors.
pub(super) struct CallNotes {
    max_calls: usize,
    calls: Mutex<Vec<CallNote>>,
}

#[derive(Clone, Default)]
pub(super) struct CallNote {
    name: String,
    /// True if the tool may have changed something.
    pub(super) may_write: bool,
    /// True if the call succeeded. `None` before it has ended.
    pub(super) succeeded: Option<bool>,
    /// The estimated tokens of the call's result. 0 for the guard's own tools.
    pub(super) tokens: u64,
}

impl CallNotes {
    pub(super) fn new(max_calls: usize) -> Arc<Self> {
        Arc::new(Self { max_calls, calls: Mutex::default() })
    }

    fn calls(&self) -> MutexGuard<'_, Vec<CallNote>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a call, and returns its number, from 1.
    ///
    /// # Errors
    /// The program has already made the maximum number of calls.
    pub(super) fn begin(&self, server: &str, tool: &str) -> Result<u32, String> {
        let mut calls = self.calls();
        if calls.len() >= self.max_calls {
            return Err(format!("a run makes at most {} calls (maxCalls)", self.max_calls));
        }
        let name = if server.is_empty() { tool.to_owned() } else { format!("{server}.{tool}") };
        calls.push(CallNote { name, ..CallNote::default() });
        Ok(u32::try_from(calls.len()).unwrap_or(u32::MAX))
    }

    /// Changes the record of the call with the number `job`.
    pub(super) fn change(&self, job: u32, change: impl FnOnce(&mut CallNote)) {
        let at = usize::try_from(job).unwrap_or_default().wrapping_sub(1);
        if let Some(note) = self.calls().get_mut(at) {
            change(note);
        }
    }

    /// Returns the number of calls, and the estimated tokens of their results.
    pub(super) fn totals(&self) -> (usize, u64) {
        let calls = self.calls();
        (calls.len(), calls.iter().map(|call| call.tokens).sum())
    }

    /// Describes the calls for the author of a program that failed. Empty if it made no calls.
    pub(super) fn describe(&self) -> String {
        let calls = self.calls();
        let mut text = String::new();
        // Equal lines in a row are one line with their number.
        let mut lines: Vec<(String, usize)> = Vec::new();
        for call in calls.iter() {
            let end = match call.succeeded {
                Some(true) => "done",
                Some(false) => "failed",
                None => "not ended",
            };
            let mut line = format!("{}: {end}", call.name);
            if call.may_write && call.succeeded != Some(false) {
                line.push_str("; it may have changed something, so do not repeat it unchecked");
            }
            match lines.last_mut() {
                Some((last, count)) if *last == line => *count += 1,
                _ => lines.push((line, 1)),
            }
        }
        for (line, count) in lines.iter().take(MAX_NAMES) {
            let _ = match count {
                1 => write!(text, "\n- {line}"),
                count => write!(text, "\n- {line} ({count} calls)"),
            };
        }
        if let Some(rest) = lines.get(MAX_NAMES..).filter(|rest| !rest.is_empty()) {
            let more: usize = rest.iter().map(|(_, count)| count).sum();
            let _ = write!(text, "\n- and {more} more");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_tell_which_calls_may_have_changed_something() {
        let notes = CallNotes::new(2);
        let (read, write) = (notes.begin("shop", "list").unwrap(), notes.begin("", "add").unwrap());
        notes.change(read, |note| (note.succeeded, note.tokens) = (Some(true), 40));
        notes.change(write, |note| note.may_write = true);
        assert!(notes.begin("shop", "list").unwrap_err().contains("at most 2"));
        assert_eq!(notes.totals(), (2, 40));
        assert_eq!(
            notes.describe(),
            "\n- shop.list: done\n- add: not ended; it may have changed something, so do not repeat it unchecked"
        );
    }
}
