//! An MCP server that is started for its list of tools, over standard input and output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The maximum length of a line of a server, in bytes. A longer line is read as several lines.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// The maximum number of bytes of the error output that are shown.
const MAX_ERROR_BYTES: u64 = 4096;
/// The time in which a server must exit after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of pages of a list. It ends a list whose cursors form a cycle: the tools
/// until then are returned.
const MAX_PAGES: usize = 200;

/// The command that starts a server.
#[derive(Default)]
pub(crate) struct ServerCommand {
    pub(crate) command_line: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) folder: Option<PathBuf>,
}

/// A response of a server. The result is verbatim.
#[derive(Deserialize)]
struct Response {
    id: Option<Value>,
    method: Option<String>,
    result: Option<Box<RawValue>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage {
    #[serde(default)]
    tools: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// A server process and its output.
pub(crate) struct ServerProcess {
    child: Child,
    lines: Receiver<std::io::Result<Vec<u8>>>,
    errors: Receiver<String>,
}

impl TryFrom<&ServerCommand> for Command {
    type Error = std::io::Error;

    fn try_from(server: &ServerCommand) -> std::io::Result<Self> {
        let (program, arguments) = server
            .command_line
            .split_first()
            .ok_or_else(|| std::io::Error::other("the command is empty"))?;
        let mut command = Self::new(program);
        command.args(arguments).envs(server.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &server.folder {
            command.current_dir(folder);
        }
        Ok(command)
    }
}

impl ServerProcess {
    /// Starts a server.
    ///
    /// # Errors
    /// The server's program cannot be started.
    pub(crate) fn start(mut command: Command) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Launchers such as npx start the server as a child, which must end with them.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let (send_line, lines) = sync_channel(16);
        let (send_errors, errors) = sync_channel(1);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = Vec::new();
                    let read = (&mut output).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
                    let is_end = !matches!(read, Ok(1..));
                    if is_end || send_line.send(read.map(|_| line)).is_err() {
                        return;
                    }
                }
            });
        }
        if let Some(output) = child.stderr.take() {
            thread::spawn(move || {
                let mut last = Vec::new();
                let mut buffer = [0; 4096];
                let mut output = output;
                while let Ok(read @ 1..) = output.read(&mut buffer) {
                    last.extend_from_slice(buffer.get(..read).unwrap_or_default());
                    let excess = last.len().saturating_sub(MAX_ERROR_BYTES as usize);
                    last.drain(..excess);
                }
                let _ = send_errors.send(String::from_utf8_lossy(&last).into_owned());
            });
        }
        Ok(Self { child, lines, errors })
    }

    /// Returns the definitions of the server's tools, verbatim. `client` is the client's name in
    /// the handshake.
    ///
    /// # Errors
    /// The reason why the server did not list its tools before `deadline`. The list is empty if the
    /// server declares no tools.
    pub(crate) fn list_tools(
        &mut self,
        client: &str,
        deadline: Instant,
    ) -> Result<Vec<Box<RawValue>>, String> {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": client, "version": env!("CARGO_PKG_VERSION")},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
        let answer = self.request(&hello, deadline)?;
        let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        let mut tools = Vec::new();
        if answer.pointer("/capabilities/tools").is_none() {
            return Ok(tools);
        }
        let mut params = json!({});
        for page in 0..MAX_PAGES {
            let list = json!({
                "jsonrpc": "2.0", "id": page + 2, "method": "tools/list", "params": params,
            });
            let answer = self.request(&list, deadline)?;
            let page: ToolPage = serde_json::from_str(answer.get())
                .map_err(|error| format!("its answer to tools/list is invalid: {error}"))?;
            tools.extend(page.tools);
            match page.next_cursor {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        Ok(tools)
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("its input is closed")?;
        let written = writeln!(input, "{message}").and_then(|()| input.flush());
        written.map_err(|error| match self.child.try_wait() {
            Ok(Some(status)) => format!("it ended ({status})"),
            _ => format!("it does not read: {error}"),
        })
    }

    /// Sends a request, and returns the result of the response with the same id.
    fn request(&mut self, message: &Value, deadline: Instant) -> Result<Box<RawValue>, String> {
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        self.send(message)?;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(rest) {
                Ok(Ok(line)) => line,
                Ok(Err(error)) => return Err(format!("its output cannot be read: {error}")),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("no answer to {method} in time (--timeout)"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("it ended before it answered {method}"));
                }
            };
            let Ok(answer) = serde_json::from_slice::<Response>(&line) else { continue };
            if let (Some(id), Some(_)) = (&answer.id, &answer.method) {
                // Some servers ask their client for roots before they list their tools.
                let error = json!({"code": -32601, "message": "Method not found"});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
                continue;
            }
            if answer.id.as_ref() != message.get("id") {
                continue;
            }
            if let Some(error) = answer.error {
                let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
                return Err(format!("it answers {method} with an error: {text}"));
            }
            return answer.result.ok_or_else(|| format!("its answer to {method} has no result"));
        }
    }

    /// Ends the process and, on Unix, its children. Returns the last part of its error output.
    ///
    /// Takes up to twice [`EXIT_TIMEOUT`].
    pub(crate) fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        #[cfg(unix)]
        if let Some(group) =
            i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors.recv_timeout(EXIT_TIMEOUT).unwrap_or_default()
    }
}
