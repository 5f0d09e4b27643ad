//! Starts the gateway as a process, and talks to it over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::artifacts;
use crate::wait::wait_until;

/// A running process that reports its address on one of its streams. It is killed when dropped.
pub struct Process {
    child: Child,
    printed: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Process {
    /// Starts a command, and waits until its standard error, or its standard output if `output` is
    /// true, contains `mark`.
    ///
    /// # Errors
    /// The process exits first, or prints no `mark` in time.
    pub fn start(mut command: Command, output: bool, mark: &str) -> Result<Self> {
        command.stdin(Stdio::null());
        command.stdout(if output { Stdio::piped() } else { Stdio::null() });
        command.stderr(if output { Stdio::inherit() } else { Stdio::piped() });
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let stream: Box<dyn Read + Send> = if output {
            Box::new(child.stdout.take().context("no output")?)
        } else {
            Box::new(child.stderr.take().context("no standard error")?)
        };
        let printed = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&printed);
        let reader = Some(std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
                let mut printed = shared.lock().unwrap_or_else(PoisonError::into_inner);
                printed.push_str(&line);
                printed.push('\n');
            }
        }));
        let mut process = Self { child, printed, reader };
        let started = wait_until(mark, || {
            if process.output().contains(mark) {
                return Ok(true);
            }
            if let Some(status) = process.child.try_wait()? {
                // The reader ends with the stream, and then has read all output.
                if let Some(reader) = process.reader.take() {
                    let _ = reader.join();
                }
                bail!("exited with {status}");
            }
            Ok(false)
        });
        started.with_context(|| format!("{command:?}: {}", process.output()))?;
        Ok(process)
    }

    /// Returns the output so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the output contains each of `expected`, and returns it. A line arrives after the
    /// change that it reports.
    ///
    /// # Errors
    /// A timeout, with the output.
    pub fn wait_for_output(&self, expected: &[&str]) -> Result<String> {
        for text in expected {
            wait_until(text, || Ok(self.output().contains(text))).with_context(|| self.output())?;
        }
        Ok(self.output())
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Terminates the process, and returns its exit code.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn stop(&mut self) -> Result<Option<i32>> {
        signal(self.pid(), "TERM")?;
        Ok(self.child.wait()?.code())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// The process does not exist.
pub fn signal(pid: u32, signal: &str) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status()?;
    ensure!(status.success(), "process {pid} cannot be sent {signal}");
    Ok(())
}

/// The server of the conformance suite, over HTTP on loopback.
pub struct ConformanceServer {
    _process: Process,
    /// The URL of its MCP endpoint.
    pub url: String,
}

/// The example server with long answers, over HTTP on loopback.
pub struct ArchiveServer {
    _process: Process,
    /// The URL of its MCP endpoint.
    pub url: String,
}

impl ArchiveServer {
    /// Starts the server. It answers with JSON if `plain` is true, and with event streams
    /// otherwise.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start(plain: bool) -> Result<Self> {
        let mut command = Command::new(artifacts::node()?);
        command.arg(artifacts::root().join("examples/archive_server/server.mjs"));
        command.env("PEERS", artifacts::peers()?).env("PORT", "0");
        command.env("JSON", if plain { "1" } else { "0" });
        let process = Process::start(command, true, "http://")?;
        let url = process.output().trim().to_owned();
        Ok(Self { _process: process, url })
    }

    /// Returns scheme and authority.
    #[must_use]
    pub fn base(&self) -> &str {
        self.url.trim_end_matches("/mcp")
    }

    /// Returns the address that the server listens on.
    ///
    /// # Errors
    /// The URL contains no address.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        Ok(self.base().trim_start_matches("http://").parse()?)
    }
}

/// Returns the path of the script of [`ConformanceServer`].
#[must_use]
pub fn conformance_script() -> PathBuf {
    artifacts::root().join("tests/support/servers/conformance.mjs")
}

impl ConformanceServer {
    /// Starts the server.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start() -> Result<Self> {
        Self::start_in_mode("")
    }

    /// Starts the server for one protocol mode only: `legacy` (stateful) or `modern` (stateless).
    ///
    /// # Errors
    /// The server does not start.
    pub fn start_in_mode(mode: &str) -> Result<Self> {
        Self::start_at(mode, 0)
    }

    /// Starts the server for one protocol mode at this port. 0 selects a free one.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start_at(mode: &str, port: u16) -> Result<Self> {
        let mut command = Command::new(artifacts::node()?);
        command.arg(conformance_script()).env("PEERS", artifacts::peers()?).env("ERA", mode);
        command.env("PORT", port.to_string());
        let process = Process::start(command, true, "http://")?;
        let url = process.output().trim().to_owned();
        Ok(Self { _process: process, url })
    }

    /// Returns the upstream that runs the server over standard input and output.
    ///
    /// # Errors
    /// Node is not installed.
    pub fn stdio(name: &str, more: Value) -> Result<Value> {
        let command = json!([artifacts::node()?, conformance_script(), "--stdio"]);
        let mut upstream =
            json!({"name": name, "command": command, "env": {"PEERS": artifacts::peers()?}});
        merge(&mut upstream, more);
        Ok(upstream)
    }
}

pub(crate) fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

/// A running gateway.
pub struct Gateway {
    /// The running program `context-guard`.
    pub process: Process,
    /// Scheme and authority of the MCP endpoint.
    pub base: String,
    /// The URL of the admin endpoint.
    pub admin: String,
    /// The folder of its configuration, `gateway.json`.
    pub folder: PathBuf,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The folder is empty after a restart, which has taken it.
        if !self.folder.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

impl Gateway {
    /// Starts a gateway before these upstreams. `more` overrides members of the configuration.
    /// There is no rate limit by default.
    ///
    /// # Errors
    /// The gateway does not start.
    pub fn start(upstreams: Value, more: Value) -> Result<Self> {
        Self::start_with(upstreams, more, &[])
    }

    /// Starts a gateway as [`Self::start`] does, with environment variables.
    ///
    /// # Errors
    /// The gateway does not start.
    pub fn start_with(upstreams: Value, more: Value, environment: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(artifacts::program()?);
        command.envs(environment.iter().copied());
        Self::launch(Self::configure(upstreams, more)?, command)
    }

    /// Writes the configuration of a gateway to a new folder, and returns the folder.
    fn configure(upstreams: Value, more: Value) -> Result<PathBuf> {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let last = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir()
            .join(format!("context-guard-gateway-{}-{last}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut config = json!({
            "listen": "127.0.0.1:0",
            "admin": {"listen": "127.0.0.1:0"},
            "access": {"rateLimit": {"perMinute": 0}},
            "signingKeys": ["a key for the tests of the gateway"],
            "upstreams": upstreams,
        });
        merge(&mut config, more);
        let file = folder.join("gateway.json");
        std::fs::write(&file, config.to_string())?;
        Ok(folder)
    }

    /// Starts a gateway as [`Self::start`] does. It may open `files` file descriptors.
    ///
    /// # Errors
    /// The gateway does not start.
    pub fn start_with_files(upstreams: Value, more: Value, files: u32) -> Result<Self> {
        let script = format!(r#"ulimit -n {files} && exec "$0" "$@""#);
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(artifacts::program()?);
        Self::launch(Self::configure(upstreams, more)?, command)
    }

    /// Terminates the gateway, which then has written all of its records.
    ///
    /// # Errors
    /// The signal cannot be sent, or the gateway reports a failure.
    pub fn stop(mut self) -> Result<()> {
        let code = self.process.stop()?;
        ensure!(code == Some(0), "{code:?}: {}", self.process.output());
        Ok(())
    }

    /// Stops the gateway, and starts it again with its configuration.
    ///
    /// # Errors
    /// The gateway does not start.
    pub fn restart(mut self) -> Result<Self> {
        // The folder belongs to the new gateway.
        let folder = std::mem::take(&mut self.folder);
        self.process.stop()?;
        Self::launch(folder, Command::new(artifacts::program()?))
    }

    fn launch(folder: PathBuf, mut command: Command) -> Result<Self> {
        command.args(["-v", "serve", "--config"]).arg(folder.join("gateway.json"));
        // The gateway stores lists of upstreams there.
        if command.get_envs().all(|(name, _)| name != "XDG_STATE_HOME") {
            command.env("XDG_STATE_HOME", folder.join("state"));
        }
        let process = Process::start(command, false, "telemetry at http")?;
        let printed = process.output();
        let after = |mark: &str| {
            let rest = printed.split_once(mark).map_or("", |(_, rest)| rest);
            rest.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let front = after("context-guard: serving ");
        ensure!(!front.is_empty(), "{printed}");
        let url = printed
            .lines()
            .find_map(|line| {
                line.split_once("serving ").and_then(|(_, rest)| rest.rsplit(' ').next())
            })
            .context("no address")?;
        let base = url.trim_end_matches("/mcp").to_owned();
        let admin = after("telemetry at ");
        Ok(Self { process, base, admin, folder })
    }

    /// Returns the MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// Returns status and body of a path of the admin endpoint, with the token of the tests.
    ///
    /// # Errors
    /// The admin endpoint does not answer.
    pub fn get_admin(&self, path: &str) -> Result<(u16, String)> {
        let request = agent().get(format!("{}{path}", self.admin));
        let response = request
            .header("authorization", format!("Bearer {}", crate::operations::TOKEN))
            .call()?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().read_to_string()?))
    }
}

/// Creates an HTTP client that reports every status as a response.
#[must_use]
pub fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(120)))
        .build()
        .into()
}

/// An HTTP response.
pub struct Reply {
    /// The HTTP status code.
    pub status: u16,
    /// The headers of the response.
    pub headers: ureq::http::HeaderMap,
    /// The body of the response as text.
    pub body: String,
}

impl Reply {
    /// Reads a response to its end.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn read(response: ureq::http::Response<ureq::Body>) -> Result<Self> {
        let (head, mut body) = response.into_parts();
        let body = body.with_config().limit(1 << 28).read_to_string()?;
        Ok(Self { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// Returns the value of a header, or an empty string.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the messages in the body, which is JSON or an event stream.
    ///
    /// # Errors
    /// A message is not JSON.
    pub fn messages(&self) -> Result<Vec<Value>> {
        if !self.header("content-type").starts_with("text/event-stream") {
            return Ok(vec![serde_json::from_str(&self.body).with_context(|| self.body.clone())?]);
        }
        self.body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(data).with_context(|| data.to_owned()))
            .collect()
    }

    /// Returns the answer, which is the last message.
    ///
    /// # Errors
    /// There is no message.
    pub fn answer(&self) -> Result<Answer> {
        let last = self.messages()?.pop().context("no message")?;
        Ok(Answer(last))
    }
}

/// Sends a GET request.
///
/// # Errors
/// There is no response.
pub fn get(url: &str, headers: &[(&str, &str)]) -> Result<Reply> {
    let mut request = agent().get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Reply::read(request.call()?)
}

/// Sends a POST request with a JSON body.
///
/// # Errors
/// There is no response.
pub fn post(url: &str, headers: &[(&str, &str)], body: &str) -> Result<Reply> {
    let mut request = agent()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Reply::read(request.send(body)?)
}

/// A request whose response is read while it arrives.
pub struct StreamedResponse {
    connection: TcpStream,
    received: Vec<u8>,
}

impl StreamedResponse {
    /// Sends a request to `/mcp` of the server at `base`.
    ///
    /// # Errors
    /// The server does not accept the connection.
    pub fn send(base: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Result<Self> {
        Self::send_to(base, "/mcp", method, headers, body)
    }

    /// Sends a request to a path of the server at `base`.
    ///
    /// # Errors
    /// The server does not accept the connection.
    pub fn send_to(
        base: &str,
        path: &str,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Self> {
        let address = base.trim_start_matches("http://");
        let mut connection = TcpStream::connect(address)?;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(connection, "{request}\r\n{body}")?;
        Ok(Self { connection, received: Vec::new() })
    }

    /// Reads until the response contains `text`.
    ///
    /// # Errors
    /// The response ends first.
    pub fn read_until(&mut self, text: &str) -> Result<()> {
        let mut buffer = [0u8; 4_096];
        while !String::from_utf8_lossy(&self.received).contains(text) {
            let read = self.connection.read(&mut buffer)?;
            ensure!(read > 0, "no {text} in: {}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
        Ok(())
    }

    /// Reads until the answer with this id has arrived, as SDKs do. Returns the status, and the
    /// message if it is 200.
    ///
    /// # Errors
    /// The response ends first.
    pub fn read_answer(&mut self, id: usize) -> Result<(u16, Value)> {
        loop {
            let text = String::from_utf8_lossy(&self.received).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let status = head.split_whitespace().nth(1).context("no status")?.parse()?;
                if status != 200 {
                    return Ok((status, Value::Null));
                }
                let data = body.lines().map(|line| line.trim_start_matches("data:"));
                let messages = data.filter_map(|data| serde_json::from_str(data).ok());
                let mut answers = messages.filter(|message: &Value| message["id"] == id);
                if let Some(answer) = answers.next() {
                    return Ok((status, answer));
                }
            }
            let mut buffer = [0u8; 4_096];
            let read = self.connection.read(&mut buffer)?;
            ensure!(read > 0, "no answer {id} in: {text}");
            self.received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
    }

    /// Reads until the response contains an event with `mark` in its data, and returns the data.
    ///
    /// # Errors
    /// The response ends first.
    pub fn read_data(&mut self, mark: &str) -> Result<String> {
        loop {
            let text = String::from_utf8_lossy(&self.received).into_owned();
            let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let found = lines
                .find_map(|line| line.strip_prefix("data: ").filter(|data| data.contains(mark)));
            if let Some(data) = found {
                return Ok(data.trim_end().to_owned());
            }
            let mut buffer = [0u8; 4_096];
            let read = self.connection.read(&mut buffer)?;
            ensure!(read > 0, "no {mark} in: {text}");
            self.received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
    }

    /// Reads until the connection ends. Returns the head and body of the response as they arrived.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn read_to_end(mut self) -> Result<String> {
        self.connection.read_to_end(&mut self.received)?;
        Ok(String::from_utf8_lossy(&self.received).into_owned())
    }
}

/// A stateful client of an MCP endpoint, without an SDK.
pub struct HttpClient {
    /// The URL of the MCP endpoint.
    pub url: String,
    /// The id of the client's session (`Mcp-Session-Id`).
    pub session: String,
    /// Headers that it sends with every request.
    pub headers: Vec<(String, String)>,
    /// The protocol version that it proposed.
    pub version: String,
    last: u64,
}

impl HttpClient {
    /// Opens a session.
    ///
    /// # Errors
    /// The server refuses.
    pub fn open(url: &str, headers: &[(&str, &str)], capabilities: Value) -> Result<Self> {
        Self::open_version("2025-11-25", url, headers, capabilities)
    }

    /// Opens a session with a protocol version.
    ///
    /// # Errors
    /// The server refuses.
    pub fn open_version(
        version: &str,
        url: &str,
        headers: &[(&str, &str)],
        capabilities: Value,
    ) -> Result<Self> {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let initialize =
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let opened = post(url, headers, &initialize.to_string())?;
        ensure!(opened.status == 200, "{}: {}", opened.status, opened.body);
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let session = opened.header("mcp-session-id").to_owned();
        let (url, version) = (url.to_owned(), version.to_owned());
        let client = Self { url, session, headers, version, last: 0 };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.send(&ready)?;
        Ok(client)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// There is no response.
    pub fn send(&self, message: &Value) -> Result<Reply> {
        let mut headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // A server without sessions gives no id.
        if !self.session.is_empty() {
            headers.push(("mcp-session-id", &self.session));
        }
        headers.push(("mcp-protocol-version", &self.version));
        post(&self.url, &headers, &message.to_string())
    }

    /// Sends a request, and returns its answer.
    ///
    /// # Errors
    /// There is no answer.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Answer> {
        self.last += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        let reply = self.send(&message)?;
        ensure!(reply.status == 200, "{method}: {} {}", reply.status, reply.body);
        let answer = reply.answer()?;
        ensure!(answer.0["id"] == self.last, "{method}: {}", answer.0);
        Ok(answer)
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// There is no answer.
    pub fn call(&mut self, name: &str, arguments: Value) -> Result<Answer> {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }
}
