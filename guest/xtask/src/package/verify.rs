//! Installs each package in an empty folder without a network, and runs it: a handshake of MCP and
//! a call whose answer exceeds the budget.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::archive::sha256;
use super::build;
use super::inputs::host_triple;
use super::kinds::Input;
use super::signature;
use super::table::{REGISTRY_NAME, VERSION};
use super::validators::{self, Tools};

/// The maximum time from the start of an installation to the first guarded answer.
const MAX_TIME: Duration = Duration::from_secs(60);

/// An installed program.
struct Installed {
    /// The command that starts it, such as that of a container. Empty for the program itself.
    launcher: Vec<OsString>,
    program: PathBuf,
    /// The arguments that start the example server behind the guard. None for `wrap`.
    guarded: Option<Vec<OsString>>,
}

impl Installed {
    fn direct(program: PathBuf) -> Self {
        Self { launcher: Vec::new(), program, guarded: None }
    }
}

/// Verifies the packages of this machine's target in `folder`. A development build may take longer
/// to the first answer than a release. With `tools`, also validates them.
pub(crate) fn all(
    folder: &Path,
    inputs: &[Input],
    is_development: bool,
    tools: Option<&Tools>,
) -> Result<()> {
    let host = host_triple()?;
    let input = inputs.iter().find(|input| input.target.triple == host);
    let input = input.with_context(|| format!("there are no packages for {host}"))?;
    let file = |name: &str| folder.join(name);
    let prefix = build::target().join("package-test");
    if prefix.exists() {
        std::fs::remove_dir_all(&prefix)?;
    }
    let target = input.target;
    let archive = target.archive();
    let wheel = validators::file(folder, |name| name.ends_with(".whl"))?;
    let empty = |name: &str| -> Result<PathBuf> {
        let folder = prefix.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    };
    let max = if is_development { Duration::MAX } else { MAX_TIME };
    let verify = |kind: &str, install: &dyn Fn() -> Result<Installed>| verify(kind, max, install);
    verify("npm", &|| {
        let folder = empty("npm")?;
        build::run(
            Command::new("npm")
                .args(["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"])
                .args(["--loglevel=error", "--prefix"])
                .arg(&folder)
                .arg(file(&format!("{}-{VERSION}.tgz", target.npm_name())))
                .arg(file(&format!("context-guard-{VERSION}.tgz"))),
        )?;
        Ok(Installed::direct(folder.join("node_modules/.bin/context-guard")))
    })?;
    verify("wheel", &|| {
        let folder = empty("wheel")?;
        build::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        build::run(
            Command::new(folder.join("bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check", "--no-index"])
                .arg(&wheel),
        )?;
        Ok(Installed::direct(folder.join("bin/context-guard")))
    })?;
    if let Some(tools) = tools {
        verify("uvx", &|| {
            let arguments = ["tool", "run", "--offline", "--quiet", "--from"].map(OsString::from);
            let mut launcher = vec![tools.python("uv").into_os_string()];
            launcher.extend(arguments);
            launcher.push(wheel.clone().into_os_string());
            Ok(Installed { launcher, program: "context-guard".into(), guarded: None })
        })?;
    }
    if let Some(architecture) = target.debian {
        verify("deb", &|| {
            let folder = empty("deb")?;
            let package = file(&format!("context-guard_{VERSION}_{architecture}.deb"));
            build::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&folder))?;
            Ok(Installed::direct(folder.join("usr/bin/context-guard")))
        })?;
    }
    signature::verify(&folder.join("SHA256SUMS"), &empty("signature")?)?;
    eprintln!("verified: signature: minisign accepts it, and refuses it for another text");
    layouts(folder, &empty("layouts")?)?;
    if folder.join("image").exists() {
        verify("image", &|| image(&folder.join("image"), &prefix.join("image")))?;
    }
    verify("tarball", &|| {
        let to = empty("tarball")?;
        build::run(
            Command::new("sha256sum")
                .args(["--check", "--quiet", "SHA256SUMS"])
                .current_dir(folder),
        )?;
        build::run(
            Command::new("tar")
                .arg("-xf")
                .arg(file(&format!("{archive}.tar.xz")))
                .arg("-C")
                .arg(&to),
        )?;
        Ok(Installed::direct(to.join(&archive).join(target.program())))
    })?;
    verify("mcpb", &|| {
        bundle(&file(&format!("context-guard-{VERSION}.mcpb")), target.mcpb, &empty("mcpb")?)
    })?;
    tools.map_or(Ok(()), |tools| tools.validate(folder, &prefix, input))
}

/// Unpacks an `.mcpb` bundle into the folder `to`, and returns the command of its manifest for a
/// platform. The user's gateway file has the example server.
fn bundle(file: &Path, platform: &str, to: &Path) -> Result<Installed> {
    build::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(file).arg(to))?;
    let manifest: Value = serde_json::from_slice(&std::fs::read(to.join("manifest.json"))?)?;
    let config = manifest.pointer("/server/mcp_config").context("the manifest has no command")?;
    let gateway = to.join("gateway.yaml");
    let values = [
        ("${__dirname}", to.display().to_string()),
        ("${user_config.gateway}", gateway.display().to_string()),
    ];
    let replaced = |text: &str| {
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    let value = |name: &str| {
        let special = config.pointer(&format!("/platform_overrides/{platform}/{name}"));
        special.or_else(|| config.get(name)).with_context(|| format!("the manifest has no {name}"))
    };
    let program = PathBuf::from(replaced(value("command")?.as_str().unwrap_or_default()));
    #[cfg(unix)]
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let arguments = value("args")?.as_array().into_iter().flatten();
    let arguments = arguments.filter_map(Value::as_str).map(|text| replaced(text).into());
    let guarded = Some(arguments.collect());
    let upstream = json!({"name": "example", "command": [&program, "example-server"]});
    // JSON is YAML.
    std::fs::write(gateway, json!({"upstreams": [upstream]}).to_string())?;
    Ok(Installed { launcher: Vec::new(), program, guarded })
}

/// Verifies that skopeo, which registries' users have, reads each artifact of the OCI layouts, and
/// copies the same bytes.
fn layouts(folder: &Path, copies: &Path) -> Result<()> {
    let is_missing = Command::new("skopeo").arg("--version").output().is_err();
    if is_missing && std::env::var_os("CI").is_none() {
        eprintln!("not verified: OCI layouts: install skopeo");
        return Ok(());
    }
    for name in ["image", "wasm"] {
        let layout = folder.join(name);
        if !layout.exists() {
            continue;
        }
        let index: Value = serde_json::from_slice(&std::fs::read(layout.join("index.json"))?)?;
        let manifests = index.pointer("/manifests").and_then(Value::as_array);
        for manifest in manifests.into_iter().flatten() {
            let text = |path: &str| {
                let text = manifest.pointer(path).and_then(Value::as_str);
                text.with_context(|| format!("{}: no {path}", layout.display()))
            };
            let reference = text("/annotations/org.opencontainers.image.ref.name")?;
            let digest = text("/digest")?;
            let source = format!("oci:{}:{reference}", layout.display());
            let raw = Command::new("skopeo").args(["inspect", "--raw", &source]).output()?;
            if !raw.status.success() {
                bail!("skopeo inspect {source}: {}", String::from_utf8_lossy(&raw.stderr).trim());
            }
            if format!("sha256:{}", sha256(&raw.stdout)) != digest {
                bail!("{source}: the manifest does not have the digest of the index");
            }
            let copy = copies.join(format!("{name}-{reference}"));
            let to = format!("dir:{}", copy.display());
            build::run(
                Command::new("skopeo")
                    .args(["--insecure-policy", "copy", "--quiet"])
                    .args([&source, &to]),
            )?;
            let manifest: Value = serde_json::from_slice(&raw.stdout)?;
            let layers = manifest.pointer("/layers").and_then(Value::as_array);
            for layer in layers.into_iter().flatten() {
                let digest = layer.pointer("/digest").and_then(Value::as_str).unwrap_or_default();
                let digest = digest.trim_start_matches("sha256:");
                let bytes = std::fs::read(copy.join(digest))?;
                if sha256(&bytes) != digest {
                    bail!("{source}: skopeo copied other bytes");
                }
            }
            eprintln!("verified: OCI: skopeo copies {source}");
        }
    }
    Ok(())
}

/// Runs a command in a folder that has only the devices and processes of the system, as containers
/// do.
const CONTAINER: &str = "mount --rbind /dev \"$0/dev\" && mount --rbind /proc \"$0/proc\" \
                         && exec chroot \"$0\" \"$@\"";

/// Unpacks the image in `layout` into the folder `to` as container engines do, and returns its
/// program, which is started with no other files and variables than those of the image.
fn image(layout: &Path, to: &Path) -> Result<Installed> {
    let reference = format!("{}:{VERSION}", layout.display());
    let mut umoci = Command::new("umoci");
    build::run(umoci.args(["unpack", "--rootless", "--image", &reference]).arg(to))
        .context("install umoci")?;
    let config: Value = serde_json::from_slice(&std::fs::read(to.join("config.json"))?)?;
    let label = config.pointer("/annotations/io.modelcontextprotocol.server.name");
    if label.and_then(Value::as_str) != Some(REGISTRY_NAME) {
        bail!("the image does not name the server {REGISTRY_NAME}: {label:?}");
    }
    let root = to.join("rootfs");
    for folder in ["dev", "proc", "tmp"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    let texts = |path: &str| {
        let list = config.pointer(path).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(OsString::from).collect::<Vec<_>>()
    };
    let program = texts("/process/args").into_iter().next().context("no entry point")?;
    let mut launcher: Vec<OsString> = ["env", "--ignore-environment"].map(OsString::from).into();
    launcher.extend(texts("/process/env"));
    let container = ["unshare", "--map-root-user", "--mount", "sh", "-c", CONTAINER];
    launcher.extend(container.map(OsString::from));
    launcher.push(root.into_os_string());
    Ok(Installed { launcher, program: program.into(), guarded: None })
}

/// Installs a package, and compares an answer with and without the guard.
fn verify(kind: &str, max: Duration, install: &dyn Fn() -> Result<Installed>) -> Result<()> {
    let started = Instant::now();
    let Installed { launcher, program, guarded } =
        install().with_context(|| format!("{kind}: installation"))?;
    let run = |arguments: &[&OsStr]| {
        let launcher = launcher.iter().map(OsString::as_os_str);
        call(&launcher.chain(arguments.iter().copied()).collect::<Vec<_>>())
    };
    let own = program.as_os_str();
    let direct = run(&[own, "example-server".as_ref()]);
    let direct = direct.with_context(|| format!("{kind}: example server"))?;
    let wrap = ["wrap".as_ref(), "--".as_ref(), own, "example-server".as_ref()];
    let arguments = guarded
        .as_ref()
        .map_or(wrap.to_vec(), |arguments| arguments.iter().map(OsString::as_os_str).collect());
    let guarded = run(&[&[own], arguments.as_slice()].concat());
    let guarded = guarded.with_context(|| format!("{kind}: {arguments:?}"))?;
    if guarded.len() * 2 > direct.len() {
        bail!(
            "{kind}: an answer of {} bytes has {} bytes behind the guard",
            direct.len(),
            guarded.len()
        );
    }
    let elapsed = started.elapsed();
    if elapsed > max {
        bail!("{kind}: {} s to the first guarded answer", elapsed.as_secs());
    }
    eprintln!(
        "verified: {kind}: {} bytes become {}, {:.1} s after the start of the installation",
        direct.len(),
        guarded.len(),
        elapsed.as_secs_f64()
    );
    Ok(())
}

/// Starts a server, and returns its answer to a call with a long result.
fn call(command: &[&OsStr]) -> Result<String> {
    let (program, arguments) = command.split_first().context("the command is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let mut answer = |message: Value| -> Result<String> {
        writeln!(input, "{message}")?;
        // A notification has no answer.
        let mut line = String::new();
        if message.get("id").is_none() {
            return Ok(line);
        }
        output.read_line(&mut line)?;
        Ok(line)
    };
    let client = json!({"name": "package test", "version": VERSION});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello =
        answer(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))?;
    if !hello.contains("\"protocolVersion\"") {
        bail!("the handshake failed: {hello}");
    }
    answer(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let tool = json!({"name": "list_bookings", "arguments": {}});
    let result = answer(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": tool}));
    drop(input);
    child.wait()?;
    let result = result?;
    if !result.contains("\"result\"") {
        bail!("the call failed: {result}");
    }
    Ok(result)
}
