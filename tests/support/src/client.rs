//! A stdio client that sends and receives raw bytes.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;

/// A client of a process that it started.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

/// The end of a process.
pub struct Ended {
    /// The exit code of the program; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The output that was not read before.
    pub output: Vec<u8>,
    /// The text that the program wrote to standard error.
    pub errors: String,
}

impl Client {
    /// Starts a process. Its standard error is collected for [`Client::end`].
    ///
    /// # Errors
    /// The process does not start.
    pub fn start(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Without a key the guard logs that it generated one, and tests compare this stream.
        command.env("CONTEXT_GUARD_SIGNING_KEYS", "a key for the tests of the pump");
        // Calls of tests do not belong in the history of the user.
        command.env("CONTEXT_GUARD_NO_HISTORY", "1");
        let mut child = command.spawn()?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { input: child.stdin.take(), child, output, last_id: 0 })
    }

    /// Starts `context-guard wrap` with these arguments.
    ///
    /// # Errors
    /// The process does not start.
    pub fn wrap(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Self> {
        let arguments: Vec<_> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        Self::start(
            crate::artifacts::program()?,
            [OsStr::new("wrap").to_owned()].into_iter().chain(arguments),
        )
    }

    /// Starts the example server behind the guard, and opens a session.
    ///
    /// # Errors
    /// The process does not start.
    pub fn property_server() -> Result<Self> {
        let mut client =
            Self::wrap([OsStr::new("--"), crate::artifacts::property_server()?.as_os_str()])?;
        client.open("2025-11-25")?;
        Ok(client)
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens an MCP session, and lists the tools.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn open(&mut self, revision: &str) -> Result<Answer> {
        let client = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        self.request("initialize", &client)?;
        self.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        self.request("tools/list", &json!({}))
    }

    /// Sends a line.
    ///
    /// # Errors
    /// The process closed its input.
    pub fn send(&mut self, line: &[u8]) -> Result<()> {
        let input = self.input.as_mut().context("the input was closed")?;
        input.write_all(line)?;
        input.write_all(b"\n")?;
        Ok(input.flush()?)
    }

    /// Reads a line, without the line feed.
    ///
    /// # Errors
    /// The process closed its output.
    pub fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        ensure!(self.output.read_until(b'\n', &mut line)? > 0, "the process closed its output");
        line.pop();
        Ok(line)
    }

    /// Sends a request and returns its answer, skipping notifications.
    ///
    /// # Errors
    /// There is no answer.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Answer> {
        self.last_id += 1;
        self.send(
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
                .to_string()
                .as_bytes(),
        )?;
        loop {
            let answer = Answer::read(&self.line()?)?;
            if answer.0["id"] == self.last_id && answer.0.get("method").is_none() {
                return Ok(answer);
            }
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// There is no answer.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Answer> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool, and follows the cursors of the answer to their end.
    ///
    /// # Errors
    /// A call fails.
    pub fn walk(&mut self, tool: &str, arguments: Value) -> Result<Vec<Answer>> {
        let first = self.call(tool, arguments)?;
        let mut pages = match first.cursor().filter(|_| !first.is_verbatim_part()) {
            Some(cursor) => {
                vec![self.call("context_guard_read", json!({"cursor": cursor, "fields": "all"}))?]
            }
            None => vec![first],
        };
        while let Some(cursor) = pages.last().and_then(Answer::next_cursor) {
            let page =
                self.call("context_guard_read", json!({"cursor": cursor, "fields": "all"}))?;
            ensure!(!page.is_error(), "a cursor failed: {:?}", page.all_texts());
            pages.push(page);
        }
        Ok(pages)
    }

    /// Closes the input, and waits for the process to exit.
    ///
    /// # Errors
    /// The output cannot be read.
    pub fn end(mut self) -> Result<Ended> {
        drop(self.input.take());
        let (mut output, mut errors) = (Vec::new(), String::new());
        self.output.read_to_end(&mut output)?;
        self.child.stderr.take().context("no standard error")?.read_to_string(&mut errors)?;
        Ok(Ended { code: self.child.wait()?.code(), output, errors })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
