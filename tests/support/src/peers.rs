//! Real clients and real servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::artifacts;

/// The clients that run plans.
pub const CLIENTS: [&str; 3] = ["sdk_v1.mjs", "client_v2.mjs", "python_mcp.py"];

/// The command line of a server.
#[derive(Clone, Debug)]
pub struct Server(pub Vec<String>);

impl Server {
    /// Returns a server of an npm package.
    ///
    /// # Errors
    /// The package is not installed.
    pub fn npm(package: &str, arguments: &[&str]) -> Result<Self> {
        let script = artifacts::peers()?
            .join("node_modules/@modelcontextprotocol")
            .join(package)
            .join("dist/index.js");
        ensure!(script.is_file(), "{} is not there", script.display());
        Ok(Self::new(
            "node".into(),
            [script.display().to_string()]
                .into_iter()
                .chain(arguments.iter().map(|argument| (*argument).to_owned())),
        ))
    }

    /// Returns a server of a Python package in one of the environments.
    ///
    /// # Errors
    /// The package is not installed.
    pub fn python(environment: &str, program: &str, arguments: &[&str]) -> Result<Self> {
        let program = artifacts::peers()?.join(environment).join("bin").join(program);
        ensure!(program.is_file(), "{} is not there", program.display());
        Ok(Self::new(program, arguments.iter().map(|argument| (*argument).to_owned())))
    }

    fn new(program: PathBuf, arguments: impl Iterator<Item = String>) -> Self {
        Self([program.display().to_string()].into_iter().chain(arguments).collect())
    }

    /// Returns the example server for properties.
    ///
    /// # Errors
    /// It was not built.
    pub fn property() -> Result<Self> {
        Ok(Self(vec![artifacts::property_server()?.display().to_string()]))
    }

    /// Returns the same server behind the guard.
    ///
    /// # Errors
    /// The program was not built.
    pub fn wrapped(&self) -> Result<Self> {
        self.wrapped_with(&[])
    }

    /// Returns the same server behind the guard, whose program gets `options`.
    ///
    /// # Errors
    /// The program was not built.
    pub fn wrapped_with(&self, options: &[&str]) -> Result<Self> {
        let program = artifacts::program()?.display().to_string();
        let options = options.iter().map(|option| (*option).to_owned());
        let guard =
            [program, "wrap".to_owned()].into_iter().chain(options).chain(["--".to_owned()]);
        Ok(Self(guard.chain(self.0.iter().cloned()).collect()))
    }
}

/// Returns the step of a plan that calls a tool, and follows the cursors of its answer.
#[must_use]
pub fn call(tool: &str, arguments: Value) -> Value {
    json!({"op": "call", "name": tool, "arguments": arguments, "walk": true})
}

/// Runs a plan in a real client, and returns the answers of each step.
///
/// # Errors
/// The client reports an error.
pub fn run(client: &str, server: &Server, steps: &[Value]) -> Result<Vec<Vec<Answer>>> {
    let (program, arguments) = server.0.split_first().context("an empty command")?;
    plan(client, json!({"command": program, "args": arguments}), steps)
}

/// Runs a plan at a URL. `mode` selects the protocol version: `legacy`, `auto`, or a version.
///
/// # Errors
/// The client reports an error.
pub fn run_at(client: &str, url: &str, mode: &str, steps: &[Value]) -> Result<Vec<Vec<Answer>>> {
    plan(client, json!({"url": url, "mode": mode}), steps)
}

/// Runs a plan at the URL of an event stream, over HTTP+SSE of 2024-11-05.
///
/// # Errors
/// The client reports an error.
pub fn run_over_sse(client: &str, url: &str, steps: &[Value]) -> Result<Vec<Vec<Answer>>> {
    plan(client, json!({"url": url, "transport": "sse"}), steps)
}

fn plan(client: &str, server: Value, steps: &[Value]) -> Result<Vec<Vec<Answer>>> {
    let list = json!({"op": "list"});
    let steps: Vec<&Value> = [&list].into_iter().chain(steps).collect();
    let plan = json!({"server": server, "steps": steps});
    let script = artifacts::root().join("tests/support/clients").join(client);
    let peers = artifacts::peers()?;
    let runner = if script.extension() == Some("py".as_ref()) {
        peers.join("py/bin/python")
    } else {
        PathBuf::from("node")
    };
    let output =
        Command::new(runner).arg(&script).arg(plan.to_string()).env("PEERS", &peers).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{client} failed: {errors}");
    let outcomes: Vec<Value> = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{client} printed no JSON: {errors}"))?;
    let mut all = Vec::new();
    for (outcome, step) in outcomes.iter().zip(steps) {
        ensure!(outcome["ok"] == true, "{client}, {step}: {}", outcome["error"]);
        all.push(
            outcome["results"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|result| Answer(json!({ "result": result })))
                .collect(),
        );
    }
    Ok(all)
}

/// Calls a tool in the inspector, with arguments as `name=value`. Every call opens a session.
///
/// # Errors
/// The inspector reports an error.
pub fn inspect(server: &Server, folder: &Path, tool: &str, arguments: &[&str]) -> Result<Answer> {
    // The inspector takes the words after `--` as its own options, so the command goes into a
    // script.
    let quoted: Vec<String> =
        server.0.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    let script = folder.join("server.sh");
    std::fs::write(&script, format!("exec {}\n", quoted.join(" ")))?;
    let inspector = artifacts::peers()?
        .join("inspector/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js");
    let mut command = Command::new("node");
    command.arg(inspector).args(["--cli", "sh"]).arg(&script).args([
        "--method",
        "tools/call",
        "--tool-name",
        tool,
    ]);
    for argument in arguments {
        command.args(["--tool-arg", argument]);
    }
    command.env("CONTEXT_GUARD_SIGNING_KEYS", "a key for the tests of the pump");
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the inspector refused {tool} {arguments:?}: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    // It may print a notice about itself before the answer.
    let json = text.find("\n{").map_or(text.as_ref(), |at| text.get(at..).unwrap_or_default());
    let result: Value = serde_json::from_str(json)
        .with_context(|| format!("the inspector printed no JSON: {text}"))?;
    Ok(Answer(json!({ "result": result })))
}

/// Returns what the inspector prints about the server at a URL.
///
/// # Errors
/// The inspector reports an error.
pub fn inspect_at(url: &str, method: &str, arguments: &[&str]) -> Result<String> {
    let inspector = artifacts::peers()?
        .join("inspector/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js");
    let mut command = Command::new("node");
    command.arg(inspector).args(["--cli", url, "--transport", "http", "--method", method]);
    stdout_of(command.args(arguments))
}

/// Returns what mcporter prints about the answer of a tool.
///
/// # Errors
/// mcporter reports an error.
pub fn mcporter(url: &str, tool: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(artifacts::node()?);
    command.arg(artifacts::peers()?.join("mcporter/node_modules/mcporter/dist/cli.js"));
    command.args(["call", &format!("{url}.{tool}")]).args(arguments).arg("--allow-http");
    stdout_of(&mut command)
}

fn stdout_of(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Creates an empty folder for the files of a test.
///
/// # Errors
/// The folder cannot be created.
pub fn folder(name: &str) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("context-guard-{name}-{}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs git in a folder.
///
/// # Errors
/// git fails.
pub fn git(folder: &Path, arguments: &[&str]) -> Result<()> {
    let identity =
        ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").current_dir(folder).args(identity).args(arguments).output()?;
    ensure!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
