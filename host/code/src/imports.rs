//! The functions that the sandbox imports. They are the only access of a program to anything
//! outside.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use context_guard_engine::Pace;
use wasmtime::Trap;

use crate::bindings::context_guard::code::{host, types};
use crate::limits::MemoryLimit;
use crate::log::Log;

/// Provides the tools and answers that a program can access. Its functions run on the thread of the
/// program.
pub trait ProgramHost: Send {
    /// Starts a tool call, and returns its number. `server` is empty if `tool` is the
    /// client-visible name. `arguments` is a JSON object.
    ///
    /// # Errors
    /// The reason, for the author of the program, for example that the program may not call the
    /// tool.
    fn start_call(&mut self, server: &str, tool: &str, arguments: &str) -> Result<u32, String>;

    /// Waits until one of the calls `jobs` has ended, at most until `deadline`. Returns its number,
    /// and its result as JSON or the reason why it failed. `None` if no call ended in time.
    fn wait(&mut self, jobs: &[u32], deadline: Instant) -> Option<(u32, Result<Vec<u8>, String>)>;

    /// Returns the names of the servers if `server` is empty, otherwise of the tools of `server`
    /// that the program may call. `None` if they are not available until `deadline`. The inner
    /// error is the reason, for the author of the program.
    fn names(&mut self, server: &str, deadline: Instant) -> Option<Result<Vec<String>, String>>;

    /// Opens the stored answer of a cursor.
    ///
    /// # Errors
    /// The reason, for the author of the program.
    fn open(&mut self, cursor: &str) -> Result<StoredAnswer, String>;

    /// Reads rows of an opened answer, beginning with the row `start`. Returns at least one row if
    /// there is one, and at most about a megabyte.
    ///
    /// # Errors
    /// The reason, for the author of the program.
    fn read_rows(&mut self, handle: u32, start: u64) -> Result<RowsPart, String>;

    /// Reads a whole opened answer.
    ///
    /// # Errors
    /// The reason, for the author of the program.
    fn read_whole(&mut self, handle: u32) -> Result<Vec<u8>, String>;
}

/// A stored answer that a program has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The number of the answer in calls of this program.
    pub handle: u32,
    /// The number of records in the answer, or of lines.
    pub count: u64,
    /// True if the rows are records, false if they are lines of a text.
    pub has_records: bool,
}

/// A part of a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsPart {
    /// A JSON array of records or lines.
    pub rows: Vec<u8>,
    /// The number of the row after the last one in this part.
    pub next: u64,
}

/// The state of one run.
pub(crate) struct State {
    pub(crate) host: Box<dyn ProgramHost>,
    pub(crate) pace: Pace,
    pub(crate) memory: MemoryLimit,
    pub(crate) log: Log,
    pub(crate) log_bytes: usize,
    pub(crate) deadline: Instant,
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl State {
    /// Returns the permit of a long call while the host works for the program or waits. The guard
    /// may need the permit to read a stored answer.
    fn yield_turn(&mut self) {
        self.pace.end();
    }
}

impl types::Host for State {}

impl host::Host for State {
    fn start_call(
        &mut self,
        server: String,
        tool: String,
        arguments: String,
    ) -> wasmtime::Result<Result<u32, String>> {
        Ok(self.host.start_call(&server, &tool, &arguments))
    }

    fn wait(&mut self, jobs: Vec<u32>) -> wasmtime::Result<(u32, Result<Vec<u8>, String>)> {
        self.yield_turn();
        self.host.wait(&jobs, self.deadline).ok_or_else(|| Trap::Interrupt.into())
    }

    fn list_names(&mut self, server: String) -> wasmtime::Result<Result<Vec<String>, String>> {
        self.yield_turn();
        self.host.names(&server, self.deadline).ok_or_else(|| Trap::Interrupt.into())
    }

    fn open_answer(
        &mut self,
        cursor: String,
    ) -> wasmtime::Result<Result<host::StoredAnswer, String>> {
        self.yield_turn();
        let opened = self.host.open(&cursor);
        Ok(opened.map(|answer| host::StoredAnswer {
            handle: answer.handle,
            count: answer.count,
            has_records: answer.has_records,
        }))
    }

    fn read_rows(
        &mut self,
        handle: u32,
        start: u64,
    ) -> wasmtime::Result<Result<host::RowsPart, String>> {
        self.yield_turn();
        let part = self.host.read_rows(handle, start);
        Ok(part.map(|part| host::RowsPart { rows: part.rows, next: part.next }))
    }

    fn read_whole(&mut self, handle: u32) -> wasmtime::Result<Result<Vec<u8>, String>> {
        self.yield_turn();
        Ok(self.host.read_whole(handle))
    }

    fn log(&mut self, line: String) -> wasmtime::Result<()> {
        self.log.add(&line, self.log_bytes);
        Ok(())
    }
}
